"""Bundles: a stretch of one log with everything that explains it, in one file."""
