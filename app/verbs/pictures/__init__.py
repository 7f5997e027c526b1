"""Computes the pictures of a cluster: pure functions of snapshots, without a name of a plugin."""
