"""The state of a cluster as values, events and snapshots. Pure: no clock, no randomness, no I/O."""
