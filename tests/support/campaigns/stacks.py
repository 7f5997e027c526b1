"""Topolog as it runs in a cluster, under load and with people at work, for campaigns that break its parts.

Recorders, controllers and extenders are processes of their own, the store is a real server, callers
come over real HTTP with certificates; only the API server is a simulated one, so that it can be asked
in the end what is true. Every acknowledgement to any client is recorded here.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import ssl
from collections.abc import Iterator

from app import settings
from app.simulation.apiserver import apiservers
from app.store import errors, stores
from app.store.server import embedded
from tests.support import child_processes, declared, extender_processes, polling
from tests.support.campaigns import loads
from tests.support.extender import stages
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import quota_law

LEASE, RENEW, RETRY = 1.5, 1.0, 0.1
HEAL = 60.0
"""Seconds until the state must have recovered, orphaned placements included."""


class Stack(stages.Stage):
    """Two of each process, which can be killed and started again."""

    def __init__(self, folder: pathlib.Path, api: apiservers.ApiServer, server: embedded.Server) -> None:
        super().__init__(folder, api, server)
        self.api = api
        self.side = loads.Side(api)
        self.workers: dict[str, list[Worker]] = {"recorder": [], "controller": [], "compactor": []}

    def environment(self, **more: str) -> dict[str, str]:
        elected = {"LEASE": LEASE, "RENEW": RENEW, "RETRY": RETRY}
        made = {f"TOPOLOG_ELECTION_{name}": str(value) for name, value in elected.items()}
        rules = {"ElasticQuota": {"check_parents": True}}
        made |= {"TOPOLOG_PLUGINS_ENABLED": "*,ElasticQuota", "TOPOLOG_PLUGINS_ARGS": json.dumps(rules)}
        return {**super().environment(), **made, "TOPOLOG_LOGGING_LEVEL": "warning", **more}

    def work(self, kind: str, command: str, **more: str) -> "Worker":
        """Start another recorder, controller or compactor."""
        one = Worker(f"{kind}-{len(self.workers[kind])}", command, self.environment(**more), self.folder)
        one.process.start()
        self.workers[kind].append(one)
        return one

    def opened(self) -> stores.Store:
        """The store, as one more process opens it."""
        return stores.open_store(
            settings.Store(url=self.server.url),
            schema=declared.SCHEMA,
            cluster=stages.CLUSTER,
        )

    def close(self) -> None:
        super().close()
        for kind in self.workers.values():
            for one in kind:
                one.process.stop(grace=5.0)


class Worker:
    """One process that is not an extender."""

    def __init__(self, name: str, command: str, environ: dict[str, str], folder: pathlib.Path) -> None:
        self._health = f"http://127.0.0.1:{environ['TOPOLOG_SERVER_HEALTH_PORT']}/readyz"
        self.process = child_processes.Process(
            name, [extender_processes.TOPOLOG, command], log=folder / f"{name}.log", env=os.environ | environ
        )

    def ready(self) -> None:
        """Wait until it reports so."""
        polling.ready(self.process, lambda: stages.fetched(self._health)[0] == 200)


@contextlib.contextmanager
def raised(folder: pathlib.Path, *, each: int = 2) -> Iterator[Stack]:
    """So many of each process run and are ready."""
    (folder / "store").mkdir()
    server = embedded.Server(folder / "store", append_only=True)
    try:
        with apiservers.ApiServer(declared.SCHEMA, bookmarks=1.0) as api:
            stack = Stack(folder, api, server)
            try:
                for name, role in cluster_objects.NODES.items():
                    stack.side.node(name, role=role)
                stack.side.policy({"host": 4, "member": 5})
                for name, (parent, least, most) in quota_law.TREE.items():
                    stack.side.quota(name, parent, least, most)
                for _ in range(each):
                    stack.work("recorder", "record")
                    stack.work("controller", "control")
                    stack.extend(f"extender-{len(stack.replicas)}")
                for one in stack.replicas:
                    one.ready()
                yield stack
            finally:
                stack.close()
    finally:
        server.stop()


def callers(stack: Stack, number: int = 3) -> list[loads.Bind]:
    """Schedulers that call any of the extenders over HTTP."""

    def made() -> loads.Bind:
        ways = [stack.caller(replica=replica) for replica in range(len(stack.replicas))]

        def bind(pod: cluster_objects.Json, node: str, rng: random.Random) -> str | None:
            caller = rng.choice(ways)
            try:
                reply = caller.post("/bind", stages.bind(pod, node))
                return str(reply.json["Error"]) if reply.status == 200 else f"status {reply.status}"
            except (OSError, http.client.HTTPException, ssl.SSLError, ValueError):
                caller.close()
                return None

        return bind

    return [made() for _ in range(number)]


# -- the end -----------------------------------------------------------------------------------


def settled(stack: Stack) -> None:
    """Faults are over: everything that is waiting is bound or refused, and no placement is in flight."""
    stack.api.faults.clear()
    store = stack.store

    def over() -> bool:
        with contextlib.suppress(errors.StoreError):
            return stack._level() is not None and not store.follower.catch_up().placements
        return False

    polling.eventually(over, "every placement is confirmed or released", within=HEAL, every=0.1)
