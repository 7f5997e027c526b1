"""Faults of the store: lost calls and replies, outages, failovers, restarts."""
