"""The files of the dashboard, under a path with the digest of all of them: immutable, gzipped once.

Code is sent without its comments, which are a seventh of it.
"""

import functools
import gzip
import hashlib
import mimetypes
import pathlib
import re
from types import MappingProxyType
from typing import Final, NamedTuple

FOLDER: Final = pathlib.Path(__file__).parent
_TYPES: Final = MappingProxyType({".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"})

_COMMENT: Final = re.compile(rb"^[ \t]*(?://.*|/\*\*(?:(?!\*/)[\s\S])*\*/)$", re.MULTILINE)
"""A comment that has its lines for itself."""


class Asset(NamedTuple):
    """A file as it is sent."""

    content: bytes
    gzipped: bytes
    type: str


class Assets(NamedTuple):
    """All files."""

    digest: str
    files: dict[str, Asset]
    """Path below the folder of this package -> file."""


@functools.cache
def read() -> Assets:
    """The files, read once for a process."""
    found: dict[str, Asset] = {}
    digest = hashlib.sha256()
    for part in ("static", "vendor"):
        for path in sorted((FOLDER / part).rglob("*")):
            if path.suffix not in _TYPES or not path.is_file():
                continue
            content, name = path.read_bytes(), path.relative_to(FOLDER).as_posix()
            if part == "static" and path.suffix == ".js":
                content = uncommented(content)
            digest.update(name.encode() + b"\0" + content + b"\0")
            kind = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
            found[name] = Asset(content, gzip.compress(content, mtime=0), f"{kind}; charset=utf-8")
    return Assets(digest.hexdigest()[:16], found)


def uncommented(code: bytes) -> bytes:
    """The code with empty lines in place of its comments: errors name the lines of the source."""
    return _COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), code)
