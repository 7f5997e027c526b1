"""Inputs of decisions, and independent computations of their results."""
