"""Checks of a running installation: its processes, and what they have written to the log."""
