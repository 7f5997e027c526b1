"""The debug flags: names, values, and the values in force.

Flags are events of the log, so that one call reaches every process of every replica and is audited. They
change what is logged, never what is decided. The sentences are those of Koordinator's scheduler.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from marshmallow import Schema

from app.api.introspection import blueprints, moments, pages, queries, schemas, services, times
from app.domain import events
from app.store import errors
from app.verbs import debug_flags

routes = blueprints.create("flags", "/apis/v1", "The debug flags.")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


Letter = Literal["s", "f", "v", "d"]


@dataclass(frozen=True, slots=True)
class FlagKind:
    """One flag."""

    letter: Letter
    title: str
    """Its name in the responses."""
    parse: Callable[[str], str]
    """Normalises a value; raises ValueError."""
    default: str
    about: str


def whole(text: str, bits: int = 64) -> str:
    """Go's Atoi."""
    if not _INTEGER.fullmatch(text):
        raise ValueError("must be a whole number")
    if not -(1 << (bits - 1)) <= int(text) < 1 << (bits - 1):
        raise ValueError(f"does not fit into {bits} bits")
    return str(int(text))


def verbosity(text: str) -> str:
    """klog's Level."""
    return whole(text, 32)


def truth(text: str) -> str:
    """Go's ParseBool."""
    if text in _TRUE:
        return "true"
    if text in _FALSE:
        return "false"
    raise ValueError("must be true or false")


KINDS: dict[str, FlagKind] = {
    kind.letter: kind
    for kind in (
        FlagKind("s", "debugTopNScores", whole, "0", "Log the best N nodes of each decision; 0 is off."),
        FlagKind("f", "debugFilterFailure", truth, "false", "Log which nodes each plugin refuses, and why."),
        FlagKind("v", "klog.logging.verbosity", verbosity, "0", "Verbosity of the log."),
        FlagKind("d", "debugDiagnosis", truth, "false", "Log the whole diagnosis of each decision as JSON."),
    )
}


class Flag(Schema):
    """A debug flag."""

    name = schemas.text("s, f, v or d.")
    title = schemas.text("Its name in the responses.")
    value = schemas.text("The value in force.")
    default = schemas.text("The value at start.")
    pod = schemas.text("The only pod for which it is in force, NAMESPACE/NAME; empty for all.")
    until = schemas.text("When it returns to the value at start (RFC 3339); empty for never.")
    about = schemas.text("What it does.")
    changed = schemas.number("The offset of the event that set it last; 0 if there is none.")
    by = schemas.text("Who set it; empty if none did, or if the event is no longer kept or cannot be read.")
    at = schemas.text("When it was set (RFC 3339); empty likewise.")


@blueprints.get(routes, "/flags", schemas.page_of(Flag), query=queries.Page)
def flags(query: pages.Query) -> pages.Body:
    """All debug flags."""
    shown = pages.moment(query)
    kinds = list(KINDS.values())
    return pages.listed(range(len(kinds)), query, shown, lambda at: present(shown, kinds[at]))


def present(shown: moments.Moment, kind: FlagKind) -> pages.Body:
    """One flag at the moment; one that has expired by then has its value at start."""
    snapshot = shown.snapshot
    default = services.current().flags.get(kind.letter, kind.default)
    flag = debug_flags.in_force(snapshot, kind.letter, now=times.rfc3339(shown.clock))
    changed = snapshot.version(f"flag:{kind.letter}")
    by, at = _setter(changed)
    return {
        "name": kind.letter,
        "title": kind.title,
        "value": flag.value if flag is not None else default,
        "default": default,
        "pod": flag.pod if flag is not None else "",
        "until": flag.until if flag is not None else "",
        "about": kind.about,
        "changed": changed,
        "by": by,
        "at": at,
    }


def _setter(offset: int) -> tuple[str, str]:
    """Who appended the event that set a flag, and when; empty if it cannot be read: the value is known."""
    with contextlib.suppress(errors.StoreError):
        for entry in services.current().histories.entries(offset, offset) if offset else ():
            if isinstance(entry.event, events.FlagSet):
                return entry.event.by, times.rfc3339(entry.at_ms / 1000)
    return "", ""
