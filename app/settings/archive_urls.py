"""The forms of ``compaction.archive``: a directory, or the URL of an object store.

A URL has neither user nor options: credentials are read from the environment, so a URL is not secret.
"""

import re
from typing import Final

FORMS: Final = "a directory, file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
_OBJECTS = re.compile(
    r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]{0,254}(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._=+-]+)*/?"
)
_FILE = re.compile(r"file://(?P<path>/[^?#%@]*)")


def flaw(value: str) -> str:
    """What is wrong with a value, and what is right; empty if nothing is. Shows no part of the value."""
    if "://" not in value or _FILE.fullmatch(value) or _OBJECTS.fullmatch(value):
        return ""
    if re.search(r"[@?#%]", value):
        return f"must not contain credentials or options, which the environment holds: it must be {FORMS}"
    return f"cannot be understood: it must be {FORMS}"


def directory(value: str) -> str:
    """The directory that a value names; empty if it is the URL of an object store."""
    found = _FILE.fullmatch(value)
    if found is not None:
        return found["path"]
    return "" if "://" in value else value
