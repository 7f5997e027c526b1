"""The append-only log: appends and their guards, reads that verify continuity, incarnations, consumers."""
