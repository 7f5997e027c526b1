"""Many clients at once; afterwards the log shows whether every reply to them was true.

Each client has a store of its own, as a replica has: it places pods under versions and ceilings as
bind does, releases placements, and reads. The log is then folded once more, event by event.
"""

import random
import secrets
import threading
from dataclasses import dataclass, field

import pytest

from app import settings
from app.domain import events, model, snapshots
from app.plugins.workload_policy import policy_model
from app.store import errors, schemas, stores
from app.store.log import batches, logs
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.simulation.oracle import plain_fold
from tests.support.store import materialised, writers

CLIENTS = 8
MOST = 3
"""Pods of the policy in each zone."""
NODES = {f"n{number}": f"z{number % 3}" for number in range(9)}
PLACE = writers.placement
PODS = [model.Pod(uid=f"u{n}", namespace="blue", name=f"p{n}", labels={"app": "x"}) for n in range(24)]


class Acknowledged:
    """The last offset in a reply to any client, of an append or of a read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.offset = 0

    def raise_to(self, offset: int) -> None:
        with self._lock:
            self.offset = max(self.offset, offset)


@dataclass
class Client:
    """One replica in a thread."""

    store: stores.Store
    rng: random.Random
    known: Acknowledged
    seen: int = 0
    placed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Offset -> the placement that was acknowledged there."""
    wrong: list[str] = field(default_factory=list)
    refused: int = 0

    def run(self, operations: int) -> None:
        for _ in range(operations):
            pod = self.rng.choice(PODS)
            try:
                if self.rng.random() < 0.5:
                    self._place(pod)
                else:
                    self._release(pod)
            except (errors.Conflict, errors.CeilingReached):
                self.refused += 1
            except Exception as problem:
                self.wrong.append(repr(problem))

    def _place(self, pod: model.Pod) -> None:
        snapshot = self._read()
        if pod.uid in snapshot.placements:
            return
        node = self.rng.choice(sorted(NODES))
        self._record(writers.placement(self.store.log, snapshot, pod, node, ceiling=MOST).first, pod, node)

    def _release(self, pod: model.Pod) -> None:
        snapshot = self._read()
        placement = snapshot.placements.get(pod.uid)
        if placement is None:
            return
        gone = events.PlacementReleased(pod.uid, pod.namespace, pod.name, placement.node, "a test", "refused")
        self._record(writers.release(self.store.log, snapshot, gone).first, pod, "")

    def _read(self) -> snapshots.Snapshot:
        """A read is never older than an earlier reply to this session, or to any client before it began."""
        least = self.known.offset
        snapshot = self.store.follower.catch_up()
        if snapshot.offset < max(least, self.seen):
            self.wrong.append(f"read {snapshot.offset} after {least} was returned and {self.seen} was read")
        self.seen = snapshot.offset
        self.known.raise_to(snapshot.offset)
        return snapshot

    def _record(self, offset: int, pod: model.Pod, node: str) -> None:
        self.placed[offset] = pod.uid, node
        self.known.raise_to(offset)


def checked(url: str, seed: int, operations: int) -> int:
    """Play one history and check it; how many appends there were."""
    name = f"h{secrets.token_hex(6)}"
    client = connections.connect(url)
    schemas.migrate(client, declared.names(name), declared.SCHEMA)
    opened = [
        stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=name)
        for _ in range(CLIENTS + 1)
    ]
    log = opened[-1].log
    world: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name=node, uid=node, labels={"zone": zone}))
        for node, zone in NODES.items()
    ]
    world.append(
        declared.observed(
            policy_model.WorkloadPolicy(uid="p", namespace="blue", name="all", topology_key="zone")
        )
    )
    writers.facts(log, opened[-1].follower.snapshot, world)
    known = Acknowledged()
    clients = [Client(store, random.Random(f"{seed}/{at}"), known) for at, store in enumerate(opened[:-1])]
    threads = [threading.Thread(target=one.run, args=(operations,)) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert [wrong for one in clients for wrong in one.wrong] == []
        assert sum(one.refused for one in clients) > 0
        acknowledged = {offset: what for one in clients for offset, what in one.placed.items()}
        assert len(acknowledged) == sum(len(one.placed) for one in clients)
        folded = check_log(log, acknowledged)
        assert materialised.counts(opened[-1]) == folded.counts()
        return len(acknowledged)
    finally:
        for store in opened:
            store.close()
        for key in client.scan_iter(f"topolog:[{{]{name}[}}]*", count=1000):
            client.delete(key)
        client.close()


def check_log(log: logs.Log, acknowledged: dict[int, tuple[str, str]]) -> plain_fold.Fold:
    """Every event in its place, no quota exceeded at any offset, one node for each pod."""
    fold = plain_fold.Fold()
    written: dict[int, tuple[str, str]] = {}
    while entries := log.read(fold.offset):
        for entry in entries:
            match entry.event:
                case events.PlacementsCommitted(placements=(model.Placement(pod=pod, node=node),)):
                    assert pod.uid not in fold.placements, f"{pod.uid} is placed twice at {entry.offset}"
                    written[entry.offset] = pod.uid, node
                case events.PlacementReleased(uid=uid):
                    assert uid in fold.placements, f"{uid} was not placed at {entry.offset}"
                    written[entry.offset] = uid, ""
                case _:
                    pass
            fold.apply(entry.event)
            assert max(fold.counts().values(), default=0) <= MOST, f"at offset {entry.offset}"
    assert written == acknowledged
    return fold


@pytest.mark.parametrize("seed", range(2))
def test_every_reply_to_a_client_was_true(store_server: embedded.Server, seed: int) -> None:
    assert checked(store_server.url, seed, 60) > 60


@pytest.mark.campaign
def test_every_reply_to_a_client_was_true_for_long() -> None:
    server = embedded.Server()
    try:
        for seed in range(sizes.first_seed(), sizes.first_seed() + sizes.of("HISTORIES", 50)):
            assert checked(server.url, seed, sizes.of("OPERATIONS", 10_000)) > 0
    finally:
        server.stop()


def test_the_check_notices_an_overrun(store_server: embedded.Server) -> None:
    """The same clients without their ceilings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "placement", _careless)
        with pytest.raises(AssertionError, match="at offset"):
            checked(store_server.url, 0, 60)


def _careless(
    log: logs.Log, snapshot: snapshots.Snapshot, pod: model.Pod, node: str, **_: int
) -> batches.Appended:
    return PLACE(log, snapshot, pod, node)
