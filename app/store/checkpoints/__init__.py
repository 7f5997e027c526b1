"""Whole snapshots beside the log: the checkpoints, the archive, and where a replay starts."""
