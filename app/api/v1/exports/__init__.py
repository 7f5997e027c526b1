"""The history as a file."""
