"""Names the writer of a log entry in findings."""

from app.store import raw_access


def name(entry: raw_access.RawEntry) -> str:
    """The writer, as far as the entry identifies it: only recorders have an epoch."""
    return f"epoch {entry.epoch}" if entry.epoch else "a writer without an epoch"
