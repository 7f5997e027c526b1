"""Shapes of partitions: which ways are closed, and how, while all processes have work to do."""

import contextlib
import pathlib
import random
from collections.abc import Iterator
from urllib import parse

from app.simulation.apiserver import apiservers
from tests.support import declared
from tests.support.campaigns import split_replicas, tcp_proxies
from tests.support.store import servers

SHAPES = (
    "recorder and store",
    "recorder and API server",
    "extender and store",
    "extender and API server",
    "all and store",
)
"""In front of one server; two more before sentinels: guarding."""
WAYS = (tcp_proxies.Way.CUT, tcp_proxies.Way.SILENT, tcp_proxies.Way.REPLIES_ONLY, tcp_proxies.Way.MUTE)
CALM = 0.3
"""Seconds of work before and after."""
_SHORTEST, _LONGEST = 0.3, 4.0
"""Seconds of a partition: within the time of a Lease, and well beyond."""


class Ground:
    """One server, an API server, and a proxy on every way of every role."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self._stack = contextlib.ExitStack()
        self.server = servers.Server(folder / "store", ["appendonly yes"])
        self._stack.callback(self.server.kill)
        api = self._stack.enter_context(apiservers.ApiServer(declared.SCHEMA, bookmarks=0.5))
        self._api_port = parse.urlsplit(api.url).port or 0
        self._ways: dict[str, tcp_proxies.Proxy] = {}
        self.field = split_replicas.Field(
            api,
            lambda role: f"redis://127.0.0.1:{self._way(f'{role} and store', self.server.port).port}",
            lambda role: f"http://127.0.0.1:{self._way(f'{role} and API server', self._api_port).port}",
            seed,
        )
        self._stack.callback(self.field.close)
        self.rng = random.Random(seed)

    def close(self) -> None:
        for proxy in self._ways.values():
            proxy.become(tcp_proxies.Way.OPEN)
        self._stack.close()
        for proxy in self._ways.values():
            proxy.close()

    def _way(self, name: str, target: int) -> tcp_proxies.Proxy:
        if name not in self._ways:
            self._ways[name] = tcp_proxies.Proxy(target)
        return self._ways[name]

    @contextlib.contextmanager
    def parted(self, shape: str) -> Iterator[None]:
        """The partition is there."""
        role, _, end = shape.partition(" and ")
        leader = self.field.leader
        roles = {
            "recorder": [leader.elector.identity if leader is not None else "recorder-0"],
            "extender": ["extender-0"],
            "all": ["recorder-0", "recorder-1", "extender-0", "extender-1", "controller", "writer"],
        }[role]
        way = self.rng.choice(WAYS)
        with contextlib.ExitStack() as stack:
            for one in roles:
                stack.enter_context(self._ways[f"{one} and {end}"].being(way))
            yield

    def part(self, shape: str) -> float:
        """One partition from its start to the end of its consequences; the seconds to heal."""
        self.field.ready()
        with self.field.load:
            split_replicas.work(CALM)
            with self.parted(shape):
                split_replicas.work(self.rng.uniform(_SHORTEST, _LONGEST))
            split_replicas.work(CALM)
        return self.field.healed()
