"""Bindings that a simulated API server may yet carry out."""

import json
from typing import NamedTuple

from app.simulation.apiserver import requests


class Sent(NamedTuple):
    """A Binding that was sent and that nothing has come of yet."""

    uid: str
    node: str
    version: str
    """The pod's resourceVersion that it carries; empty if it carries none."""
    until: float
    """The moment after which it is not carried out any more."""

    def feasible(self, uid: str, node: str, version: str, now: float) -> bool:
        """Whether it would bind the pod to the node, unbound and in this version."""
        fits = (self.uid, self.node) == (uid, node) and self.version in ("", version)
        return fits and now <= self.until


def sent(request: requests.Request, until: float) -> Sent:
    """What a request for a Binding asks for."""
    asked = json.loads(request.body)
    meta = asked["metadata"]
    return Sent(meta.get("uid", ""), asked["target"]["name"], meta.get("resourceVersion", ""), until)
