"""Pending pods: their age and attempts, why they wait, and which changes would let them fit.

A list has them one by one; the status of the cluster has them in groups of one reason.
"""

from collections.abc import Iterable, Iterator

from marshmallow import Schema

from app import telemetry
from app.api.introspection import blueprints, moments, pages, queries, schemas, services, times
from app.api.v1 import decisions, pods
from app.domain import model, snapshots
from app.framework import cycles, views
from app.store.decisions import records
from app.verbs.explain import explanations, pending_groups

routes = blueprints.create("pending", "/apis/v1", "Pending pods.")
_MAX_SCANNED = 5000
"""The newest decisions up to the moment, among which attempts are counted."""


class Pending(Schema):
    """A pending pod."""

    namespace = schemas.text("Namespace.")
    name = schemas.text("Name.")
    uid = schemas.text("UID.")
    labels = schemas.mapping("Labels.")
    priority = schemas.number("Priority.")
    scheduler = schemas.text("spec.schedulerName.")
    created = schemas.text("When it was created (RFC 3339).")
    age = schemas.anything("Seconds since then; null if that is unknown.")
    attempts = schemas.number("Scheduling attempts among the newest 5,000 decisions up to the moment.")
    attemptsComplete = schemas.truth("False if there are older decisions, which were not counted.")
    lastDecision = schemas.optional("The id of the latest attempt.")
    reason = schemas.text("Why no node would be accepted now; empty if Topolog has no objection.")
    message = schemas.text("The reason that kube-scheduler gives in the condition PodScheduled.")
    change = schemas.texts("Changes that would let it fit, the smallest first; empty if it fits.")
    explain = schemas.text("The path that explains it.")


@blueprints.get(routes, "/pending", schemas.page_of(Pending), query=queries.Page)
def pending(query: pages.Query) -> pages.Body:
    """Pods that wait for a scheduler, the longest waiting first.

    The reason and the change are computed for the moment shown, over all nodes.
    """
    shown = pages.moment(query)
    snapshot = shown.snapshot
    keys, remaining = pages.cut(_keys(snapshot), query)
    attempts = _Attempts(snapshot, (uid for *_, uid in keys))
    waits = explanations.Waits(snapshot, services.current().registry)

    def row(key: tuple[str, ...]) -> pages.Body:
        pod = pods.known(snapshot, key[-1])
        return _row(pod, waits.of(pod), attempts, shown.clock)

    return pages.rendered(keys, remaining, shown, row)


def _keys(snapshot: snapshots.Snapshot) -> Iterator[tuple[str, str, model.Uid]]:
    """The sort keys of the pending pods, oldest first."""
    for uid in snapshot.waiting:
        pod = snapshot.pod(uid)
        if pod is not None:
            yield pod.created, pod.key, uid


class _Attempts:
    """The scheduling attempts of the pods of a page, among the newest decisions."""

    def __init__(self, snapshot: snapshots.Snapshot, page: Iterable[model.Uid]) -> None:
        self.last: dict[model.Uid, str] = {}
        """Pod -> the id of its latest attempt."""
        self.number = dict.fromkeys(page, 0)
        scan = decisions.Scan(records.DecisionQuery(), snapshot.position, limit=_MAX_SCANNED)
        for record in scan:
            uid = record.pod.uid
            if uid in self.number and record.verb in explanations.ATTEMPTS:
                self.number[uid] += 1
                self.last.setdefault(uid, record.id)
        self.complete = scan.unfinished is None


def _row(pod: model.Pod, wait: explanations.Waiting, attempts: _Attempts, until: float) -> pages.Body:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "labels": pod.labels,
        "priority": pod.priority,
        "scheduler": pod.scheduler,
        "created": pod.created,
        "age": _age(pod.created, until),
        "attempts": attempts.number[pod.uid],
        "attemptsComplete": attempts.complete,
        "lastDecision": attempts.last.get(pod.uid),
        "reason": wait.reason,
        "message": pod.unscheduled,
        "change": wait.changes,
        "explain": f"/apis/v1/pods/{pod.namespace}/{pod.name}/explain",
    }


def _age(created: str, until: float) -> float | None:
    try:
        return round(max(0.0, until - times.milliseconds(created) / 1000), 3)
    except ValueError:
        return None


# -- the cluster in one answer -----------------------------------------------------------------

GROUPS = 20
"""Reasons that an answer has at most."""


class PendingGroup(Schema):
    """Pods that are pending for one reason."""

    by = schemas.text("The first plugin that refuses nodes, kube-scheduler, or none.")
    reason = schemas.text("The reason.")
    pods = schemas.number("How many pods.")
    oldest = schemas.text("When the one that waits longest was created (RFC 3339).")
    example = schemas.text("That pod: NAMESPACE/NAME.")


class PluginLine(Schema):
    """A line of a plugin about its state."""

    plugin = schemas.text("The plugin.")
    name = schemas.text("What the line is about.")
    seen = schemas.text("The state.")
    wrong = schemas.text("What needs attention; empty if nothing does.")


class Summary(Schema):
    """The state of the cluster."""

    position = schemas.text("The position shown, INCARNATION/OFFSET.")
    asOf = schemas.text("When that position was current (RFC 3339).")
    nodes = schemas.number("Nodes.")
    schedulable = schemas.number("Nodes that are ready and not cordoned.")
    pods = schemas.counts("State -> number of pods: bound, inFlight, pending.")
    pending = schemas.nested(PendingGroup, "The twenty largest groups of pending pods.", many=True)
    reasons = schemas.number("The number of groups.")
    plugins = schemas.nested(PluginLine, "What the plugins report.", many=True)


@blueprints.get(routes, "/status", Summary)
def summary(query: pages.Query) -> pages.Body:
    """Nodes, pods, why pods are pending, and what the plugins report; computed for the moment shown."""
    shown = moments.take(query.get("at") or moments.NOW)
    snapshot, plugins = shown.snapshot, services.current().registry
    found = pending_groups.groups(snapshot, plugins)
    return {
        "position": str(shown.position),
        "asOf": shown.as_of,
        "nodes": len(snapshot.nodes),
        "schedulable": sum(node.ready and not node.unschedulable for node in snapshot.nodes.values()),
        "pods": {
            "bound": sum(bool(pod.node) and not pod.finished for pod in snapshot.pods.values()),
            "inFlight": len(snapshot.placements),
            "pending": sum(group.pods for group in found),
        },
        "pending": [
            {
                "by": group.cause.by,
                "reason": group.cause.reason,
                "pods": group.pods,
                "oldest": group.oldest,
                "example": group.example,
            }
            for group in found[:GROUPS]
        ],
        "reasons": len(found),
        "plugins": [
            {"plugin": name, "name": line.name, "seen": line.seen, "wrong": line.wrong}
            for name, declared in plugins.shown.items()
            for line in _lines(name, declared, snapshot)
        ],
    }


def _lines(plugin: str, declared: views.Shown, snapshot: snapshots.Snapshot) -> list[views.StatusLine]:
    """The lines of a plugin; that it failed if it raises, so that those of the others are shown."""
    try:
        return list(declared.summary(snapshot))
    except Exception as problem:
        failed = cycles.HookFailed.of(plugin, "summary", problem)
        telemetry.log.error("a plugin is defective", plugin=plugin, exc_info=problem)
        return [views.StatusLine("state", "unknown", str(failed))]
