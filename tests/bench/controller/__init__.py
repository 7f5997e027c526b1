"""Measurements of the controller."""
