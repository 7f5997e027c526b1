"""Snapshots of the cluster: at the head of the log, or at any offset of the past."""
