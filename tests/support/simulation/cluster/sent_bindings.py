"""Bindings in flight, which the simulated API server may still carry out."""

import json
from typing import NamedTuple

from app.simulation.apiserver import requests


class Sent(NamedTuple):
    """A Binding that was sent, and whose outcome is open."""

    uid: str
    node: str
    version: str
    """The pod's resourceVersion that it carries; empty if it carries none."""
    until: float
    """The moment after which it is no longer carried out."""

    def feasible(self, uid: str, node: str, version: str, now: float) -> bool:
        """Whether it would bind the pod to the node, unbound and in this version."""
        fits = (self.uid, self.node) == (uid, node) and self.version in ("", version)
        return fits and now <= self.until


def sent(request: requests.Request, until: float) -> Sent:
    """The Binding of a request."""
    asked = json.loads(request.body)
    meta = asked["metadata"]
    return Sent(meta.get("uid", ""), asked["target"]["name"], meta.get("resourceVersion", ""), until)
