"""Hypothetical questions: what would be decided in another situation, what differs, and since when.

Every module is a pure function of snapshots, records and a situation; nothing here appends to the log.
"""
