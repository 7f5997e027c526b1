"""Differences between the store and the log: where each began, and the report of an audit."""
