"""The pending pods by the reason that they wait for."""

import heapq
from collections import Counter
from dataclasses import dataclass, field

import flask
from marshmallow import Schema, fields, validate

from app.api.introspection import blueprints, moments, pages, queries, schemas, services
from app.api.v1.pictures import answers
from app.domain import model
from app.domain.fit import quantities
from app.verbs.explain import explanations

routes = blueprints.create("reasons", "/apis/v1", "Why pods wait.")
_MOST_PODS = 5000
_FIRST = 20
_NAMESPACES = 20


class ReasonsQuery(queries.Moment):
    """The moment, and how many groups."""

    limit = fields.Integer(
        load_default=50,
        validate=validate.Range(1, 500),
        metadata={"description": "Maximum number of groups."},
    )


class PendingReasonGroup(Schema):
    """The pods that wait for one reason."""

    reason = schemas.text("Why no node would be accepted; empty if Topolog has no objection.")
    message = schemas.text("If Topolog has no objection: the reason that kube-scheduler gives.")
    pods = schemas.number("Pods.")
    oldest = schemas.text("When the first of them was created (RFC 3339).")
    namespaces = schemas.counts("Namespace -> pods, the 20 with the most.")
    requests = schemas.mapping("What they request together.")
    changes = schemas.texts("Changes that would let the first of them fit, the smallest first.")
    first = schemas.texts("NAMESPACE/NAME of the 20 that wait the longest.")


class Reasons(Schema):
    """The groups of pending pods."""

    waiting = schemas.number("Pods that wait.")
    examined = schemas.number("Pods that were examined: the 5,000 that wait the longest.")
    groups = schemas.nested(PendingReasonGroup, "The groups, the largest first.", many=True)
    more = schemas.number("Groups that are not in groups.")
    metadata = schemas.nested(answers.Shown, "The moment.")


@dataclass(slots=True)
class _Group:
    changes: tuple[str, ...]
    oldest: str
    pods: int = 0
    first: list[str] = field(default_factory=list)
    namespaces: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def add(self, pod: model.Pod) -> None:
        self.pods += 1
        self.namespaces[pod.namespace] += 1
        self.requests.update(pod.requests)
        if len(self.first) < _FIRST:
            self.first.append(pod.key)


@blueprints.get(routes, "/pending/reasons", Reasons, query=ReasonsQuery, also_status=(429,), tagged=True)
def reasons(query: pages.Query) -> flask.Response:
    """The pods that wait, in groups of one reason, with the smallest changes that would end it."""
    shown = moments.take(query.get("at") or moments.NOW)
    return answers.respond(shown, lambda: _body(shown, int(query["limit"])), heavy=True)


def _body(shown: moments.Moment, limit: int) -> pages.Body:
    snapshot = shown.snapshot
    waits = explanations.Waits(snapshot, services.current().registry)
    waiting = (pod for uid in snapshot.waiting if (pod := snapshot.pod(uid)) is not None)
    examined = heapq.nsmallest(_MOST_PODS, waiting, key=lambda pod: (pod.created, pod.key, pod.uid))
    groups: dict[tuple[str, str], _Group] = {}
    for pod in examined:
        wait = waits.of(pod)
        key = wait.reason, "" if wait.reason else pod.unscheduled
        groups.setdefault(key, _Group(wait.changes, pod.created)).add(pod)
    ordered = sorted(groups.items(), key=lambda each: (-each[1].pods, each[0]))
    return {
        "waiting": len(snapshot.waiting),
        "examined": len(examined),
        "groups": [_row(reason, message, group) for (reason, message), group in ordered[:limit]],
        "more": max(0, len(ordered) - limit),
        "metadata": answers.shown(shown),
    }


def _row(reason: str, message: str, group: _Group) -> pages.Body:
    return {
        "reason": reason,
        "message": message,
        "pods": group.pods,
        "oldest": group.oldest,
        "namespaces": dict(group.namespaces.most_common(_NAMESPACES)),
        "requests": quantities.all_written(dict(group.requests)),
        "changes": list(group.changes),
        "first": group.first,
    }
