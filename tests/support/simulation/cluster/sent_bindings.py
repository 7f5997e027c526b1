"""Bindings in flight, which the simulated API server may still carry out."""

import json
from typing import NamedTuple

from app.domain import model, snapshots
from app.simulation.apiserver import requests


class Sent(NamedTuple):
    """A Binding that was sent, and whose outcome is open."""

    uid: str
    node: str
    version: str
    """The pod's resourceVersion that it carries; empty if it carries none."""
    until: float
    """The moment after which it is no longer carried out."""
    read: tuple[snapshots.Snapshot, ...] = ()
    """What its sender had read when the call of bind began, and when it was sent."""

    def feasible(self, uid: str, node: str, version: str, now: float) -> bool:
        """Whether it would bind the pod to the node, unbound and in this version."""
        fits = (self.uid, self.node) == (uid, node) and self.version in ("", version)
        return fits and now <= self.until


class Written(NamedTuple):
    """A Binding that was carried out."""

    pod: model.Pod
    """The pod as it was bound, without its node."""
    node: str
    version: str
    """The pod's resourceVersion that the Binding carried; empty if it carried none."""
    annotations: dict[str, str]
    read: tuple[snapshots.Snapshot, ...]
    """What its sender had read when the call of bind began, and when the Binding was sent."""


def sent(request: requests.Request, until: float, read: tuple[snapshots.Snapshot, ...]) -> Sent:
    """The Binding of a request."""
    asked = json.loads(request.body)
    meta = asked["metadata"]
    return Sent(meta.get("uid", ""), asked["target"]["name"], meta.get("resourceVersion", ""), until, read)
