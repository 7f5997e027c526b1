"""The files of an archive by their names, and which of them one incarnation of the log continues."""

import bisect
import operator
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_NAME = re.compile(r"(segment|checkpoint)\.([0-9A-Za-z-]{1,64})\.(\d{16})(?:-(\d{16}))?\.jsonl\.gz")


class File(NamedTuple):
    """One file of the archive, described by its name."""

    name: str
    kind: str
    """segment or checkpoint."""
    incarnation: str
    first: int
    last: int


def parsed(name: str) -> File | None:
    """The file of a name; None for a name that is not of the archive."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first = int(match[3])
    return File(name, match[1], match[2], first, int(match[4] or first))


def listed(names: Iterable[str], kind: str = "") -> list[File]:
    """The files by offset; ``kind`` (segment, checkpoint) limits it."""
    files = (file for file in map(parsed, names) if file is not None and kind in ("", file.kind))
    return sorted(files, key=lambda file: (file.last, file.first, file.kind))


def history(files: Sequence[File], incarnation: str, kind: str) -> list[File]:
    """The files of an incarnation and of the ones before it that it continues, by offset.

    Each incarnation counts up to where the first file of a later one begins: what it wrote from there on is
    the later one's own, or was lost. A segment across that border is shortened.
    """
    found, border = list[File](), sys.maxsize
    # Ids sort by their start time.
    for each in sorted({file.incarnation for file in files if file.incarnation <= incarnation}, reverse=True):
        continued = [file for file in files if file.incarnation == each and file.first < border]
        found[:0] = [
            file._replace(last=min(file.last, border - 1)) for file in continued if file.kind == kind
        ]
        border = min((file.first for file in continued), default=border)
    return found


def covering(segments: Sequence[File], offset: int) -> File | None:
    """The first of the segments, which are sorted by offset, that has the offset."""
    begin = bisect.bisect_left(segments, offset, key=operator.attrgetter("last"))
    return next((file for file in segments[begin:] if file.first <= offset), None)


def begin(segments: Sequence[File]) -> int:
    """The first offset of the run of segments that reaches the last one; 0 if there is none."""
    first = 0
    for file in reversed(segments):
        if first and file.last + 1 < first:
            break
        first = min(first or file.first, file.first)
    return first


def missing(segments: Sequence[File]) -> Iterator[tuple[int, int, str]]:
    """The gaps between segments that are sorted by offset: first, last, incarnation of what follows."""
    reached = segments[0].last if segments else 0
    for file in segments[1:]:
        if file.first > reached + 1:
            yield reached + 1, file.first - 1, file.incarnation
        reached = max(reached, file.last)
