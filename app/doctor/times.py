"""Times of the API server and of the log as numbers."""

import datetime


def seconds(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time; 0 for another text."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
