"""Bundles: written, read, damaged."""
