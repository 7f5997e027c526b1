"""The pods that wait: for how long, how often they were tried, why they wait, and what would end it."""

from collections.abc import Sequence

import msgspec
from marshmallow import Schema

from app.api import blueprints, moments, pages, queries, schemas, services, times
from app.domain import model, snapshots
from app.store import records
from app.verbs import explaining, tabulating

routes = blueprints.create("pending", "/apis/v1", "Pods that wait for a place.")
_LOOKED_AT = 5000
"""The newest decisions that attempts are counted in."""


class Pending(Schema):
    """A pod that waits."""

    namespace = schemas.text("Namespace.")
    name = schemas.text("Name.")
    uid = schemas.text("UID.")
    priority = schemas.number("Priority.")
    scheduler = schemas.text("spec.schedulerName.")
    created = schemas.text("When it was created (RFC 3339).")
    age = schemas.anything("Seconds since then, or null if that is not known.")
    attempts = schemas.number("Scheduling attempts among the newest 5,000 decisions.")
    attemptsComplete = schemas.truth("False if older decisions are kept, which were not looked through.")
    lastDecision = schemas.optional("The id of the latest one.")
    reason = schemas.text("Why no node would be accepted now; empty if Topolog has no objection.")
    message = schemas.text("Why kube-scheduler says that it could not be scheduled.")
    change = schemas.texts("What would let it fit, the smallest change first; empty if it fits.")
    explain = schemas.text("Where to ask for all of it.")


@blueprints.get(routes, "/pending", schemas.page_of(Pending), query=queries.Page)
def pending(query: pages.Query) -> pages.Body:
    """Pods that wait for a scheduler, the longest waiting first.

    The reason and the change are computed for the moment shown, over all nodes.
    """
    shown = pages.moment(query)
    snapshot = shown.snapshot
    found = [pod for uid in snapshot.waiting if (pod := snapshot.pod(uid)) is not None]
    found.sort(key=lambda pod: (pod.created, pod.key, pod.uid))
    part, metadata = pages.cut(found, query, shown)
    attempts: dict[model.Uid, list[str]] = {}
    tried, complete = _attempts(snapshot)
    for record in tried:
        attempts.setdefault(record.pod.uid, []).append(record.id)
    until = times.milliseconds(shown.as_of) / 1000 if shown.as_of else services.current().wall()
    advice = _Advice(snapshot)
    items = [_row(pod, advice.about(pod), attempts.get(pod.uid, []), until) for pod in part]
    return {"items": [row | {"attemptsComplete": complete} for row in items], "metadata": metadata}


class _Advice:
    """Explanations of one moment: pods that differ in name and age only wait for the same thing."""

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[bytes, explaining.Explanation] = {}

    def about(self, pod: model.Pod) -> explaining.Explanation:
        """Why the pod waits."""
        alike = msgspec.structs.replace(pod, uid="", name="", created="", unscheduled="")
        key = msgspec.json.encode(alike, order="sorted")
        found = self._known.get(key)
        if found is None:
            registry = services.current().registry
            found = explaining.presently(pod, self._snapshot, registry, scored=False)
            self._known[key] = found
        return found


def _attempts(snapshot: snapshots.Snapshot) -> tuple[list[records.Decision], bool]:
    """The attempts up to the moment, newest first, and whether none are left out."""
    found = services.current().decisions.search(records.Wanted(), limit=_LOOKED_AT, looked_at=_LOOKED_AT)
    return [
        decision
        for decision in found.records
        if decision.verb in explaining.ATTEMPTS and moments.upto(decision.position, snapshot)
    ], found.behind is None


def _row(
    pod: model.Pod, explanation: explaining.Explanation, attempts: Sequence[str], until: float
) -> pages.Body:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "priority": pod.priority,
        "scheduler": pod.scheduler,
        "created": pod.created,
        "age": _age(pod.created, until),
        "attempts": len(attempts),
        "lastDecision": attempts[0] if attempts else None,
        "reason": "" if explanation.fits else tabulating.summary(explanation),
        "message": pod.unscheduled,
        "change": explanation.changes,
        "explain": f"/apis/v1/pods/{pod.namespace}/{pod.name}/explain",
    }


def _age(created: str, until: float) -> float | None:
    try:
        return round(max(0.0, until - times.milliseconds(created) / 1000), 3)
    except ValueError:
        return None
