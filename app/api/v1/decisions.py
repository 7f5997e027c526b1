"""The recorded decisions: each call of a verb, its answer, and the path that explains it."""

from collections.abc import Iterator

import flask
from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, heavy, moments, pages, queries, schemas, services, times
from app.domain import model
from app.store import errors as store_errors
from app.store.decisions import records

routes = blueprints.create("decisions", "/apis/v1", "The answers to kube-scheduler.")
_CHUNK = 100
_AHEAD_MS = 10_000
"""How far the clock of an extender may be ahead of the store's (``topolog doctor`` warns from 1,000): a
record has its time by the one, and its id, in whose order it is read, by the other."""


class Decision(Schema):
    """One call of a verb, and its outcome."""

    id = schemas.text("Id.")
    at = schemas.text("When it was answered (RFC 3339).")
    verb = schemas.text("filter, filter_onlyone, prioritize, bind or preempt.")
    pod = schemas.nested(schemas.PodReference, "The pod.")
    scheduler = schemas.text("spec.schedulerName of the pod; empty where the record does not hold it.")
    position = schemas.text("The log position that it was decided at.")
    outcome = schemas.text("kept, refused, scored, bound or error.")
    node = schemas.text("The one node, for filter_onlyone and bind.")
    candidates = schemas.number("Nodes offered.")
    wholeNodes = schemas.truth("Whether the call carried whole nodes, and not their names.")
    kept = schemas.number("Nodes kept.")
    reasons = schemas.counts("Reason -> nodes refused for it.")
    objects = schemas.texts("The objects of plugins that it concerns, as KIND:NAME: policies, gangs, quotas.")
    error = schemas.text("The error; empty without one.")
    milliseconds = schemas.real("Duration in milliseconds.")
    configuration = schemas.text("The digest of the configuration that decided it.")
    shortened = schemas.texts("Fields that were too large to record: pod, candidates, victims, reasons.")


class DecisionDetail(Decision):
    """One decision with its inputs."""

    nodes = schemas.texts("The offered nodes by name; empty if they were not recorded (shortened).")
    victims = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        required=True,
        metadata={"description": "For preempt: node -> uids of the proposed victims."},
    )
    explain = schemas.text("The path that explains it, with reasons and scores.")


@blueprints.get(routes, "/decisions", schemas.page_of(Decision), query=queries.Decisions)
def listing(query: pages.Query) -> pages.Body:
    """The decisions, newest first.

    A page is taken from 20,000 records at most, and at a moment of the past from as many that were recorded
    later: it may be short or empty, and ``continue`` leads to the records after them.
    """
    shown = moments.take(query.get("at") or moments.NOW)
    cursor = pages.read(query)
    before = cursor.before if cursor is not None else None
    scan = Scan(asked(query), shown.position, before=before, since=query.get("since"))
    matching = (_row(one) for one in scan if wanted(one, query, shown))
    found, more_match = pages.filled(matching, int(query["limit"]))
    following = str(found[-1]["id"]) if more_match else scan.unfinished
    more = pages.Cursor(
        flask.request.path, shown.position.incarnation, shown.position.offset, before=following or ""
    )
    metadata = pages.metadata(shown, more if following else None, None if following else 0)
    return {"items": found, "metadata": metadata}


@blueprints.get(routes, "/decisions/<identifier>", DecisionDetail, query=queries.Empty)
def one(_: pages.Query, identifier: str) -> pages.Body:
    """One decision."""
    moments.take()
    given, decision = services.current(), find(identifier)
    pod = decision.pod
    nodes: list[str] = []
    if "candidates" not in decision.shortened:
        snapshot = given.histories.of(decision.position, attended=heavy.attended())
        nodes = sorted(given.decisions.candidates(decision, snapshot))
    return {
        **_row(decision),
        "nodes": nodes,
        "victims": {node: list(uids) for node, uids in decision.victims.items()},
        "explain": f"/apis/v1/pods/{pod.namespace}/{pod.name}/explain?decision={decision.id}",
    }


def asked(query: pages.Query) -> records.DecisionQuery:
    """What the query asks for.

    Raises Problem 400 if ``since`` or ``until`` is in the future, and Superseded for another incarnation.
    """
    for name in ("since", "until"):
        at = query.get(name)
        if at is not None and at.incarnation:
            services.current().histories.check(at.incarnation)
        if at is not None and at.time_ms is not None:
            moments.reached(at.time_ms, name)
    return records.DecisionQuery(**{name: query.get(name) for name in records.DecisionQuery._fields})


def find(identifier: str) -> records.Decision:
    """The decision with that id; raises Problem 404."""
    found = services.current().decisions.get(identifier)
    if found is None:
        raise errors.missing("decision", identifier)
    return found


class Scan:
    """The decisions up to a position that match a query, newest first, within the limit of one request.

    Begins at the records of that position, not at the newest ones. Those of the time in which a record may be
    late have a limit of their own: on a busy cluster most of them are of later positions. Reads a few at a
    time, so that a request holds only the decisions that it keeps. Several extenders append records, each a
    moment after the decision: one before ``since`` may be behind one that is not.
    """

    def __init__(
        self,
        wanted: records.DecisionQuery,
        until: model.Position,
        *,
        before: str | None = None,
        since: moments.At | None = None,
        limit: int | None = None,
    ) -> None:
        """``before``: the last id seen by the request before; ``limit``: records to scan, by default the
        limit of one request.
        """
        self._wanted = wanted
        self._until = until
        self._before = before
        self._since = since
        self._limit = records.MAX_SCANNED if limit is None else limit
        self.unfinished: str | None = None
        """The last id scanned, if there may be older matching decisions."""

    def __iter__(self) -> Iterator[records.Decision]:
        given = services.current()
        left, late, since = self._limit, records.MAX_SCANNED, self._since
        passed_ms = _passed_ms(self._until)
        behind = None if passed_ms is None else f"{passed_ms + records.LATE_MS}-0"
        before = self._before or behind
        incarnation = given.log.incarnation
        ends_ms = _began_ms(since) - _AHEAD_MS if since is not None else 0
        while left > 0:
            ahead = (
                late > 0
                and passed_ms is not None
                and before is not None
                and records.written_ms(before) > passed_ms
            )
            found = given.decisions.search(
                self._wanted,
                limit=_CHUNK,
                before=before,
                max_scanned=_CHUNK if ahead else left,
                most_bytes=pages.PAGE_BYTES,
            )
            for decision in found.records:
                early = since is not None and _earlier(decision, since, incarnation)
                if not early and self._reached(decision.position):
                    yield decision
            if found.behind is None or records.written_ms(found.behind) < ends_ms:
                return
            before = found.behind
            if ahead:
                late -= found.scanned
            else:
                left -= found.scanned
        self.unfinished = before

    def _reached(self, position: model.Position) -> bool:
        """Whether the position is not later; those of former incarnations are earlier."""
        until = self._until
        return position.incarnation != until.incarnation or position.offset <= until.offset


def _passed_ms(position: model.Position) -> int | None:
    """The store's time of the event after the position; None if there is none, or it is not known."""
    given = services.current()
    if position.offset >= given.follower.snapshot.offset:
        return None
    try:
        return given.histories.appended_ms(position.offset + 1)
    except store_errors.StoreError:
        return None  # It only saves reading, which an archive that is away must not keep from being done.


def wanted(decision: records.Decision, query: pages.Query, shown: moments.Moment) -> bool:
    """Whether the decision was taken before ``until`` and by ``where`` of the query."""
    until, where = query.get("until"), query.get("where")
    if where is not None and not where.holds(decision):
        return False
    return until is None or _earlier(decision, until, shown.position.incarnation)


def _earlier(decision: records.Decision, at: moments.At, incarnation: str) -> bool:
    """Whether the decision is before the moment; those of former incarnations are, as offsets go."""
    if at.time_ms is None:
        position = decision.position
        return position.incarnation != incarnation or position.offset < (at.offset or 0)
    try:
        return times.milliseconds(decision.at) < at.time_ms
    except ValueError:
        return False


def _began_ms(since: moments.At) -> int:
    """The store's time before which no decision since then was recorded; 0 if it is not known."""
    if since.time_ms is not None:
        return since.time_ms
    given = services.current()
    offset = max(1, min(since.offset or 0, given.follower.snapshot.offset))
    try:
        return given.histories.appended_ms(offset) or 0
    except store_errors.StoreError:
        return 0  # It only saves reading, which an archive that is away must not keep from being done.


def _row(decision: records.Decision) -> pages.Body:
    pod = decision.pod
    return {
        "id": decision.id,
        "at": decision.at,
        "verb": decision.verb,
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        # A pod that was not seen has no creation time, and no scheduler but the default of the record.
        "scheduler": pod.scheduler if pod.created else "",
        "position": str(decision.position),
        "outcome": decision.outcome,
        "node": decision.node,
        "candidates": decision.count,
        "wholeNodes": decision.whole,
        "kept": decision.kept,
        "reasons": decision.reasons,
        "objects": list(decision.objects),
        "error": decision.error,
        "milliseconds": decision.milliseconds,
        "configuration": decision.configuration,
        "shortened": list(decision.shortened),
    }
