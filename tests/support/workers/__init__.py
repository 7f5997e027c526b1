"""Harnesses for the background processes: a simulated cluster, a recorder in a thread, an audited store."""
