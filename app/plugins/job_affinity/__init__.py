"""Prefers nodes that are near other pods of the same job."""
