"""Whether counts, log and API server agree: the auditor's latest report."""

import contextlib

from marshmallow import Schema

from app.api import blueprints, pages, queries, schemas, services, times
from app.domain import consistency
from app.store import errors

routes = blueprints.create("consistency", "/apis/v1", "Whether store, log and cluster agree.")
_PATIENCE = 3
"""Turns of the auditor after which its report is too old to be believed."""
_LEAST = 60.0
"""But at least so many seconds: a turn over a large store takes its time."""

COUNTS = "counts"
CONSISTENT, INCONSISTENT, AUDITING, UNKNOWN = "consistent", "inconsistent", "auditing", "unknown"


class Difference(Schema):
    """Something that is not as it should be."""

    kind = schemas.text("What it is about: " + ", ".join(consistency.KINDS) + ".")
    key = schemas.text("What differs: a count, a subject, entry:OFFSET, checkpoint:OFFSET, a field of meta.")
    expected = schemas.text("What should be there.")
    found = schemas.text("What is there.")
    first = schemas.number("The first offset at which it may have appeared.")
    last = schemas.number("The offset at which it was found.")
    offset = schemas.number("The event that it comes from; 0 if there is none or it is unknown.")
    writer = schemas.text("Who wrote that event, or everybody who wrote between first and last.")
    blame = schemas.text("How it came about, as far as that can be known.")
    run = schemas.text("The command that puts it right; empty if it is repaired by itself, or needs more.")


class Repair(Schema):
    """Something that was done about differences."""

    offset = schemas.number("The event that did it.")
    at = schemas.text("When (RFC 3339).")
    what = schemas.text("counts, versions, or the kind whose list was asked for.")
    keys = schemas.texts("What was repaired; the first hundred.")
    reason = schemas.text("Why.")


class Consistency(Schema):
    """What the auditor knows."""

    state = schemas.text(
        "consistent: everything was compared and agrees; inconsistent: differences stand; auditing: none"
        " stands, but not everything was compared yet; unknown: no auditor has reported lately."
    )
    position = schemas.text("Where counts and versions were compared with the log; empty if never.")
    at = schemas.text("When, by the store's clock (RFC 3339); empty if never.")
    age = schemas.real("Seconds since then; -1 if never.")
    by = schemas.text("The auditor.")
    oldest = schemas.number("The first entry of the log.")
    folded = schemas.number("The offset from which the auditor folded the log itself.")
    proven = schemas.number("How far its present pass over the past has come.")
    passes = schemas.number("Passes over the whole past since it started.")
    versions = schemas.number("The offset at which all versions were last compared.")
    checkpoints = schemas.counts("Checkpoint -> offset of the log when it was last proven.")
    facts = schemas.counts("Kind -> offset at which its objects were last compared with the API server's.")
    waiting = schemas.mapping("What has not been looked at, and why.")
    total = schemas.number("How many differences stand.")
    trouble = schemas.text("Why no extender is ready on this store, and what to run; empty if there is none.")
    differences = schemas.nested(Difference, "The first hundred of them.", many=True)
    repairs = schemas.nested(Repair, "The latest twenty repairs.", many=True)


@blueprints.get(routes, "/consistency", Consistency, query=queries.Empty)
def show(_: pages.Query) -> pages.Body:
    """Whether counts, log and API server agree, by the auditor's latest report."""
    given = services.current()
    report = None
    with contextlib.suppress(errors.Damaged):  # as good as none
        report = given.reports.latest()
    if report is None:
        report = consistency.Report("", 0, 0, "", 0.0)
    age = max(0.0, given.wall() - report.at_ms / 1000) if report.at_ms else -1.0
    return {
        "state": state(report, age),
        "position": f"{report.incarnation}/{report.offset}" if report.incarnation else "",
        "at": times.rfc3339(report.at_ms / 1000) if report.at_ms else "",
        "age": round(age, 3),
        "by": report.by,
        "oldest": report.oldest,
        "folded": report.folded,
        "proven": report.proven,
        "passes": report.passes,
        "versions": report.versions,
        "checkpoints": report.checkpoints,
        "facts": report.facts,
        "waiting": report.waiting,
        "total": report.total,
        "trouble": report.trouble,
        "differences": [_difference(one) for one in report.differences],
        "repairs": [_repair(one) for one in report.repairs],
    }


def state(report: consistency.Report, age: float) -> str:
    """The report in one word; an old one says nothing."""
    if not 0 <= age <= max(_LEAST, _PATIENCE * report.every):
        return UNKNOWN
    if report.total:
        return INCONSISTENT
    return CONSISTENT if report.complete and COUNTS not in report.waiting else AUDITING


def _difference(one: consistency.Difference) -> pages.Body:
    return {field: getattr(one, field) for field in one.__struct_fields__}


def _repair(one: consistency.Repair) -> pages.Body:
    return {
        "offset": one.offset,
        "at": times.rfc3339(one.at_ms / 1000),
        "what": one.what,
        "keys": list(one.keys),
        "reason": one.reason,
    }
