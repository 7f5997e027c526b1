"""A reflector that is read step by step, and the API server that it reads from."""

import json
from collections.abc import Callable
from typing import TypeVar

from app.domain import model
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults
from tests.support.kube import fake_clock

C = TypeVar("C")


class Cluster:
    """The API server, as a test changes it."""

    def __init__(self, server: apiservers.ApiServer, client: clients.Client) -> None:
        self.server = server
        self._client = client

    def pod(self, name: str, node: str = "") -> model.Pod:
        """Create a pod."""
        body = json.dumps(populations.pod("ns", name, node=node)).encode()
        return decoding.pod(self._client.post("/api/v1/namespaces/ns/pods", body))

    def label(self, name: str, value: str) -> None:
        patch = json.dumps({"metadata": {"labels": {"l": value}}}).encode()
        self._client.patch(f"/api/v1/namespaces/ns/pods/{name}", patch)

    def delete(self, name: str) -> None:
        self._client.delete(f"/api/v1/namespaces/ns/pods/{name}")

    @property
    def lists(self) -> int:
        """Number of lists that were started, without reads of one object."""
        met = faults.lists("pods")
        queries = [request.query for request in self.server.seen if met(request)]
        return sum("continue" not in query and query.get("limit") != "1" for query in queries)

    @property
    def watches(self) -> int:
        return sum(map(faults.watches("pods"), self.server.seen))


class Reading:
    """A reflector that is read step by step."""

    def __init__(
        self,
        client: clients.Client,
        kind: kinds.WatchedKind = kinds.PODS,
        *,
        since: str = "",
        silence: float = 20.0,
        page: int = 500,
        meanwhile: Callable[[int], None] | None = None,
    ) -> None:
        self.clock = fake_clock.VirtualClock(meanwhile)
        self.reflector = reflectors.Reflector(
            client, kind, since=since, clock=self.clock, silence=silence, page=page
        )
        self._changes = self.reflector.changes()

    def until(self, kind: type[C], fits: Callable[[C], bool] = lambda _: True) -> C:
        """The next change of that type that fits; the timeout of the test ends a wait in vain."""
        for change in self._changes:
            if isinstance(change, kind) and fits(change):
                return change
        raise AssertionError("the reflector ended")

    def next(self) -> reflectors.Change:
        """The next change other than a bookmark."""
        return next(one for one in self._changes if not isinstance(one, reflectors.Bookmark))


def named(change: reflectors.Change) -> tuple[str, str]:
    """What happened to which pod."""
    match change:
        case reflectors.Seen():
            return "seen", change.object.name
        case reflectors.Gone():
            return "gone", change.name
        case _:
            return type(change).__name__, ""
