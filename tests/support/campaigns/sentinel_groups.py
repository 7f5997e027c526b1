"""A primary, a replica and three sentinels, each server behind a proxy that distinguishes them."""

import contextlib
import random
import time
from pathlib import Path

from app.simulation.apiserver import apiservers
from tests.support import declared
from tests.support.campaigns import split_replicas, tcp_proxies
from tests.support.store import servers

MASTER = "topolog"
_LINES = ["appendonly yes", "replica-announce-ip 127.0.0.1"]
_APART = (tcp_proxies.Who.REPLICA, tcp_proxies.Who.SENTINEL)


class Guarded:
    """Two servers, of which sentinels make one the primary."""

    def __init__(self, directory: Path) -> None:
        self.ways = [tcp_proxies.Proxy(), tcp_proxies.Proxy()]
        first, second = self.ways
        self.servers: list[servers.Server] = []
        for way, more in ((first, []), (second, [f"replicaof 127.0.0.1 {first.port}"])):
            lines = [*_LINES, f"replica-announce-port {way.port}", *more]
            self.servers.append(servers.Server(directory / f"n{len(self.servers)}", lines))
            way.target = self.servers[-1].port
        monitor = [
            f"sentinel monitor {MASTER} 127.0.0.1 {first.port} 2",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
        ]
        self.sentinels = [servers.Server(directory / f"s{at}", monitor, sentinel=True) for at in range(3)]
        for sentinel in self.sentinels:
            sentinel.ask("SENTINEL", "DEBUG", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "200")
        self.whole()

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(one.address for one in self.sentinels)}/{MASTER}"

    @property
    def primary(self) -> int:
        """Which of the servers most sentinels call so."""
        named = []
        for sentinel in self.sentinels:
            reply = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
            assert isinstance(reply, list)
            named.append(next(at for at, way in enumerate(self.ways) if way.port == int(reply[1])))
        return round(sum(named) / len(named))

    def whole(self) -> None:
        """Wait until sentinels have found each other and the replica follows."""
        servers.eventually(lambda: all(map(_content, self.sentinels)), "the sentinels are content")
        servers.eventually(
            lambda: "master_link_status:up" in servers.info(self.servers[1 - self.primary]),
            "the replica follows",
        )

    def switched(self, former: int) -> None:
        """Wait until the other one is the primary."""
        servers.eventually(lambda: self.primary != former, "the sentinels have switched")
        other = self.servers[1 - former]
        servers.eventually(lambda: "role:master" in servers.info(other), "the replica is the primary")

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.kill()
        for way in self.ways:
            way.close()


def _content(sentinel: servers.Server) -> bool:
    reply = sentinel.ask("SENTINEL", "MASTER", MASTER)
    assert isinstance(reply, list)
    state = dict(zip(reply[::2], reply[1::2], strict=True))
    return (
        state[b"num-other-sentinels"] == b"2"
        and int(state[b"num-slaves"]) >= 1
        and state[b"flags"] == b"master"
    )


class Ground:
    """All processes at work on a store under sentinels."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._stack = contextlib.ExitStack()
        folder.mkdir(exist_ok=True)
        self.guarded = Guarded(folder)
        self._stack.callback(self.guarded.close)
        api = self._stack.enter_context(apiservers.ApiServer(declared.SCHEMA, bookmarks=0.5))
        self.field = split_replicas.Field(api, lambda _: self.guarded.url, lambda _: api.url, seed)
        self._stack.callback(self.field.close)
        self.rng = random.Random(seed)

    def close(self) -> None:
        self._stack.close()

    def fail(self, shape: str) -> float:
        """One failover under load, from its start to the end of its consequences; seconds to heal."""
        self.field.ready()
        former = self.guarded.primary
        with self.field.load:
            split_replicas.work(self.rng.uniform(0.1, 0.5))
            SHAPES[shape](self, former)
            self.guarded.switched(former)
            split_replicas.work(self.rng.uniform(0.1, 0.5))
        began = time.monotonic()
        # Until the former primary has been demoted, its clients may see no problem.
        self.guarded.whole()
        self.field.healed()
        seconds = time.monotonic() - began
        assert seconds <= split_replicas.HEAL, f"healed after {seconds:.1f} s"
        return seconds

    # -- shapes ------------------------------------------------------------------------------

    def crash(self, primary: int) -> None:
        """The primary is killed, and comes back as a replica."""
        self.guarded.servers[primary].kill()
        self.guarded.switched(primary)
        self.guarded.servers[primary].start()

    def switch(self, _: int) -> None:
        """An operator's word."""
        self.guarded.sentinels[0].ask("SENTINEL", "FAILOVER", MASTER)

    def lag(self, primary: int) -> None:
        """The replica receives nothing for a while; then the primary is killed."""
        way = self.rng.choice((tcp_proxies.Way.CUT, tcp_proxies.Way.SILENT))
        with self.guarded.ways[primary].being(way, tcp_proxies.Who.REPLICA):
            split_replicas.work(self.rng.uniform(0.2, 1.5))
            self.guarded.servers[primary].kill()
            self.guarded.switched(primary)
        self.guarded.servers[primary].start()

    def isolate(self, primary: int) -> None:
        """The primary has its clients, and neither its replica nor the sentinels."""
        way = self.rng.choice((tcp_proxies.Way.CUT, tcp_proxies.Way.SILENT))
        with self.guarded.ways[primary].being(way, *_APART):
            self.guarded.switched(primary)
            split_replicas.work(self.rng.uniform(0.2, 1.5))


SHAPES = {
    "crash of the primary": Ground.crash,
    "switch by hand": Ground.switch,
    "primary and replica": Ground.lag,
    "primary with its clients": Ground.isolate,
}
