"""The results of the matrix: what was run on which version, when, and how it ended."""

import fcntl
import pathlib
import xml.etree.ElementTree
from collections.abc import Iterable, Sequence

import msgspec

FILE = pathlib.Path(__file__).parent / "results.json"
_LONGEST_REASON = 160


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of tests on one version."""

    dimension: str
    """``Kubernetes``, ``Store`` or ``Python``."""
    version: str
    """Such as ``1.34.4`` or ``Valkey 9.0.0``."""
    tests: str
    """A folder or file of tests, from the top of the repository."""
    date: str
    """The day in UTC, as ``2026-11-23``."""
    topolog: str
    beside: str
    """The versions of the other parts."""
    passed: int
    failed: tuple[str, ...] = ()
    """The tests that failed."""
    skipped: dict[str, int] = {}
    """Reason -> tests that were skipped for it."""
    seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What a later run replaces."""
        return self.dimension, self.version, self.tests


class Outcome(msgspec.Struct, frozen=True):
    """The content of a report of pytest."""

    passed: int
    failed: tuple[str, ...]
    skipped: dict[str, int]
    seconds: float


def outcome(report: str, row: str = "") -> Outcome:
    """Read a report in the form of JUnit (`pytest --junitxml`), or the part of it that a row of tests has."""
    failed: list[str] = []
    skipped: dict[str, int] = {}
    passed, seconds = 0, 0.0
    root = xml.etree.ElementTree.fromstring(report)
    if not row:
        seconds = sum(float(suite.get("time", "0")) for suite in root.iter("testsuite"))
    module = f"{row.removesuffix('.py').replace('/', '.')}."
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        if row:
            if not name.startswith(module):
                continue
            seconds += float(case.get("time", "0"))
        if case.find("failure") is not None or case.find("error") is not None:
            # A test that passed, and whose fixture then failed, has two entries.
            failed += [] if name in failed else [name]
        elif (why := case.find("skipped")) is not None:
            reason = " ".join(why.get("message", "").split())[:_LONGEST_REASON]
            skipped[reason] = skipped.get(reason, 0) + 1
        else:
            passed += 1
    return Outcome(passed, tuple(failed), dict(sorted(skipped.items())), round(seconds, 1))


def read(path: pathlib.Path = FILE) -> list[Result]:
    """Return all results that were recorded."""
    content = path.read_bytes() if path.exists() else b""
    return msgspec.json.decode(content, type=list[Result]) if content else []


def merged(recorded: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """Return all results; new ones replace those of the same tests on the same version."""
    found = {result.key: result for result in (*recorded, *new)}
    return [found[key] for key in sorted(found)]


def record(new: Iterable[Result], path: pathlib.Path = FILE) -> None:
    """Add results to those that were recorded; several runs may do so at once."""
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(merged(read(path), new), path)


def write(results: Sequence[Result], path: pathlib.Path = FILE) -> None:
    """Replace what was recorded."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
