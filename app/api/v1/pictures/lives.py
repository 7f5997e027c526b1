"""The life of a pod: every event about it and every attempt to place it, in order."""

import flask
from marshmallow import Schema, fields, validate

from app.api import errors
from app.api.introspection import blueprints, heavy, moments, pages, queries, schemas, services, times
from app.api.v1 import decisions
from app.api.v1.pictures import answers, chronicle, walks
from app.domain import events, model
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.pictures import chronicles

routes = blueprints.create("lives", "/apis/v1", "What happened to a pod.")
_MOST_EVENTS = 100_000
"""Events that are read: the log has no index by subject."""
_BEHIND_MS = 60_000
"""A pod is seen, and a decision about it taken, after its creation: by the clock of the store, or of an
extender, which may be behind that of the API server by as much."""


class LifeQuery(queries.Moment):
    """The moment, and how many rows."""

    limit = fields.Integer(
        load_default=pages.MAX_LIMIT,
        validate=validate.Range(1, pages.MAX_LIMIT),
        metadata={"description": "Maximum number of items; the latest are kept."},
    )


class Happening(Schema):
    """An event, or an attempt."""

    offset = schemas.number("The offset of the event, or at which the attempt was decided.")
    at = schemas.text("When (RFC 3339).")
    kind = schemas.text(
        "seen, message, placed, bound, released, terminating, finished, gone or changed; attempt for a call"
        " of kube-scheduler."
    )
    text = schemas.text("What happened.")
    node = schemas.text("The node, if there is one.")
    outcome = schemas.text("Of an attempt: kept, refused, scored, bound or error.")
    decision = schemas.optional("Of an attempt: the id of the decision.")


class Life(Schema):
    """What happened to a pod."""

    pod = schemas.text("NAMESPACE/NAME.")
    uid = schemas.optional(
        "The uid of the pod that has the name at the moment: items are of this one. Null if there is none:"
        " then they are of every pod that had the name."
    )
    items = schemas.nested(Happening, "What happened, oldest first.", many=True)
    more = schemas.number("Items before these.")
    first = schemas.number("The first offset that was read.")
    complete = schemas.truth(
        "Whether everything since the creation of the pod was read: the events from first on, and the newest"
        f" {records.MAX_SCANNED:,} decisions, may begin later."
    )
    gaps = schemas.nested(chronicle.MomentGap, "Stretches since first that were not watched.", many=True)
    metadata = schemas.nested(answers.Shown, "The moment.")


@blueprints.get(
    routes, "/pods/<namespace>/<name>/life", Life, query=LifeQuery, also_status=(429,), tagged=True
)
def life(query: pages.Query, namespace: str, name: str) -> flask.Response:
    """Every event about the pod, and every call of kube-scheduler for it."""
    shown = moments.take(query.get("at") or moments.NOW)
    key = f"{namespace}/{name}"
    with services.current().turns.admitted():
        body = _body(shown, key, int(query["limit"]))
    return answers.encoded(body)


def _body(shown: moments.Moment, key: model.NamespacedName, limit: int) -> pages.Body:
    snapshot = shown.snapshot
    pod = snapshot.pod(snapshot.names.get(key, ""))
    first, complete = _since(shown, pod)
    watched = chronicles.Chronicle(first, snapshot.offset, 1, _unlisted(first - 1))
    attempts, all_read = _attempts(shown, key, pod)
    happened = _events(key, pod.uid if pod is not None else "", first, snapshot.offset, watched)
    found = [*happened, *reversed(attempts)]
    if not found and pod is None:
        raise errors.missing("pod", key)
    found.sort(key=lambda row: (int(str(row["offset"])), row["kind"] == "attempt", str(row["at"])))
    return {
        "pod": key,
        "uid": pod.uid if pod is not None else None,
        "items": found[-limit:],
        "more": max(0, len(found) - limit),
        "first": first,
        "complete": complete and all_read,
        "gaps": [{"from": one.first, "to": one.last, "reason": one.reason} for one in watched.gaps],
        "metadata": answers.shown(shown),
    }


def _since(shown: moments.Moment, pod: model.Pod | None) -> tuple[int, bool]:
    """The offset to read from, and whether it is before everything about the pod."""
    began = _began(pod)
    first = services.current().histories.oldest(max(began, shown.snapshot.offset - _MOST_EVENTS + 1))
    return first, first == began


def _began(pod: model.Pod | None) -> int:
    """The offset of the first event that may be about the pod; 0 if it is not known."""
    if pod is None:
        return 1
    before_ms = _before_ms(pod)
    if before_ms is None:
        return 1
    try:
        return services.current().histories.offset_at(before_ms) + 1
    except (store_errors.Trimmed, store_errors.ArchiveAway):
        return 0


def _before_ms(pod: model.Pod) -> int | None:
    """A time before everything about the pod, in milliseconds; None if it is not known."""
    try:
        return times.milliseconds(pod.created) - _BEHIND_MS
    except ValueError:
        return None


def _unlisted(offset: int) -> frozenset[str]:
    """The kinds that were not listed yet; none if the state at the offset cannot be made."""
    try:
        return frozenset(services.current().histories.at(offset, attended=heavy.attended()).unlisted)
    except (store_errors.Trimmed, store_errors.ArchiveAway):
        return frozenset()


def _events(
    key: model.NamespacedName, uid: model.Uid, first: int, last: int, watched: chronicles.Chronicle
) -> list[pages.Body]:
    found: list[pages.Body] = []
    before: model.Pod | None = None
    kinds = services.current().follower.snapshot.schema.names
    for run in walks.entries(first, last):
        watched.add((chronicles.ChronicleEntry(*entry) for entry in run), kinds)
        for entry in run:
            happened = chronicles.of_pod(entry.event, key, before, uid=uid)
            if happened is None:
                continue
            if isinstance(entry.event, events.PodSeen):
                before = entry.event.pod
            found.append(
                {
                    "offset": entry.offset,
                    "at": times.rfc3339(entry.at_ms / 1000),
                    "kind": happened.kind,
                    "text": happened.text,
                    "node": happened.node,
                    "outcome": "",
                    "decision": None,
                }
            )
    watched.finish(last)
    return found


def _attempts(
    shown: moments.Moment, key: model.NamespacedName, pod: model.Pod | None
) -> tuple[list[pages.Body], bool]:
    """Newest first, as they are read; those of one millisecond keep the order of their ids.

    And whether the records were read back to the creation of the pod.
    """
    incarnation = shown.position.incarnation
    asked = records.DecisionQuery(pod=key if pod is None else pod.uid)
    before_ms = None if pod is None else _before_ms(pod)
    since = None if before_ms is None else moments.At(time_ms=before_ms)
    scan = decisions.Scan(asked, shown.position, since=since)
    found: list[pages.Body] = [
        {
            "offset": one.position.offset,
            "at": one.at,
            "kind": "attempt",
            "text": _answer(one),
            "node": one.node,
            "outcome": one.outcome,
            "decision": one.id,
        }
        for one in scan
        if one.position.incarnation == incarnation
    ]
    return found, scan.unfinished is None


def _answer(decision: records.Decision) -> str:
    if decision.error:
        return f"{decision.verb}: {decision.error}"
    if decision.verb in ("bind", "filter_onlyone") and decision.node:
        return f"{decision.verb}: {decision.outcome}, {decision.node}"
    reasons = "; ".join(f"{nodes} {reason}" for reason, nodes in decision.reasons.items())
    text = f"{decision.verb}: {decision.kept} of {decision.count} nodes kept"
    return f"{text}: {reasons}" if reasons else text
