"""Shows whether counts, log and API server agree, by the auditor's latest report."""

import contextlib

from marshmallow import Schema

from app.api.introspection import blueprints, pages, queries, schemas, services, times
from app.domain.audit import findings
from app.store import errors

routes = blueprints.create("consistency", "/apis/v1", "Whether store, log and cluster agree.")
_MAX_RUNS = 3
"""Intervals of the auditor after which its report is too old."""
_MIN_AGE = 60.0
"""Seconds after which a report is too old at the earliest: an audit of a large store takes long."""

COUNTS = "counts"
CONSISTENT, INCONSISTENT, AUDITING, UNKNOWN = "consistent", "inconsistent", "auditing", "unknown"


class Difference(Schema):
    """A difference between expected and found state."""

    kind = schemas.text("What differs: " + ", ".join(findings.KINDS) + ".")
    key = schemas.text("The object: a count, a subject, entry:OFFSET, checkpoint:OFFSET, a field of meta.")
    expected = schemas.text("The expected value.")
    found = schemas.text("The value found.")
    first = schemas.number("The earliest offset at which it can have appeared.")
    last = schemas.number("The offset at which it was found.")
    offset = schemas.number("The offset of the event that caused it; 0 if there is none or it is unknown.")
    writer = schemas.text("The writer of that event, or all writers between first and last.")
    blame = schemas.text("How it arose, as far as the log shows it.")
    run = schemas.text("The command that repairs it; empty if the auditor does, or if no one command can.")


class Repair(Schema):
    """A repair of differences."""

    offset = schemas.number("The offset of the event that records it.")
    at = schemas.text("When (RFC 3339).")
    what = schemas.text("counts, versions, or the kind that was listed again.")
    keys = schemas.texts("The repaired objects; the first hundred.")
    reason = schemas.text("Why.")


class Consistency(Schema):
    """The auditor's latest report."""

    state = schemas.text(
        "consistent: everything was compared and agrees; inconsistent: there are differences; auditing: there"
        " are none so far, but not everything was compared yet; unknown: there is no recent report."
    )
    position = schemas.text("Where counts and versions were compared with the log; empty if never.")
    at = schemas.text("When, by the store's clock (RFC 3339); empty if never.")
    age = schemas.real("Seconds since then; -1 if never.")
    by = schemas.text("The auditor.")
    oldest = schemas.number("The offset of the first entry of the log.")
    folded = schemas.number("The offset from which the auditor replayed the log itself.")
    proven = schemas.number("The offset that its present pass over the log has reached.")
    passes = schemas.number("Passes over the whole log since it started.")
    versions = schemas.number("The offset at which all versions were last compared.")
    checkpoints = schemas.counts("Checkpoint -> offset of the log when it was last verified.")
    facts = schemas.counts("Kind -> offset at which its objects were last compared with the API server's.")
    waiting = schemas.mapping("What was not compared yet, and why.")
    total = schemas.number("The number of open differences.")
    problem = schemas.text(
        "Why no extender is ready on this store, and what to run; empty without a problem."
    )
    differences = schemas.nested(Difference, "The first hundred differences.", many=True)
    repairs = schemas.nested(Repair, "The latest twenty repairs.", many=True)


@blueprints.get(routes, "/consistency", Consistency, query=queries.Empty)
def show(_: pages.Query) -> pages.Body:
    """Whether counts, log and API server agree, by the auditor's latest report."""
    given = services.current()
    report = None
    with contextlib.suppress(errors.Damaged):  # the same as no report
        report = given.reports.latest()
    if report is None:
        report = findings.Report("", 0, 0, "", 0.0)
    compared_ms = report.at_ms if report.compared_ms is None else report.compared_ms
    return {
        "state": state(report, _age(report.at_ms)),
        "position": f"{report.incarnation}/{report.offset}" if report.incarnation else "",
        "at": times.rfc3339(compared_ms / 1000) if compared_ms else "",
        "age": round(_age(compared_ms), 3),
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
        "problem": report.problem,
        "differences": [_difference(one) for one in report.differences],
        "repairs": [_repair(one) for one in report.repairs],
    }


def _age(at_ms: int) -> float:
    return max(0.0, services.current().wall() - at_ms / 1000) if at_ms else -1.0


def state(report: findings.Report, age: float) -> str:
    """The report in one word; unknown if it is too old."""
    if not 0 <= age <= max(_MIN_AGE, _MAX_RUNS * report.every):
        return UNKNOWN
    if report.total:
        return INCONSISTENT
    return CONSISTENT if report.complete and COUNTS not in report.waiting else AUDITING


def _difference(one: findings.Difference) -> pages.Body:
    return {field: getattr(one, field) for field in one.__struct_fields__}


def _repair(one: findings.Repair) -> pages.Body:
    return {
        "offset": one.offset,
        "at": times.rfc3339(one.at_ms / 1000),
        "what": one.what,
        "keys": list(one.keys),
        "reason": one.reason,
    }
