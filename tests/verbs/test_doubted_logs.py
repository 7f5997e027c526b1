"""A store that was restarted, and whose end no recorder has checked: what it may lack is not decided by."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import settings
from app.domain import model
from app.kube.client import clients
from app.store import errors as store_errors
from app.store import stores
from app.store.health import readiness
from app.store.log import appenders, batches, logs
from app.verbs import candidates, errors, filtering, preempting
from tests.support import declared
from tests.support.extender import replicas
from tests.support.kube import plain_access
from tests.support.store import crash_safe_server
from tests.support.workers import clusters, recordings

COUNTED = {"app": "web"}
"""Labels of a pod that the policy selects and that does not name it."""
DOUBTED = "no recorder has checked the end of its log yet"
NODES = ["h1", "h2"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer for an append."""
    monkeypatch.setattr(logs, "_PATIENCE", 10.0)
    monkeypatch.setattr(readiness, "_PATIENCE", 10.0)


class World:
    """A cluster whose policy for one pod is recorded; the store's file then loses it and what follows."""

    def __init__(self, server: crash_safe_server.CrashSafeServer, shop: replicas.Cluster) -> None:
        self.server = server
        self.shop = shop
        self._stack = contextlib.ExitStack()
        client = clients.Client(plain_access.of(shop.api.url))
        self._stack.callback(client.close)
        self._cluster = clusters.Cluster(shop.api, client)
        for name in NODES:
            shop.node(name, role="host")
        self.pods = [shop.pod(f"web-{number}", COUNTED) for number in range(2)]
        """The first runs."""
        recording = self.record()
        size = server.size
        shop.policy({"host": 1})
        recording.until(lambda snapshot: bool(snapshot.objects), "the policy is recorded")
        one = self.extender()
        assert one.bind(self.pods[0], "h1") == ""
        recording.until(lambda snapshot: snapshot.node_of(self.pods[0].uid) == "h1", "the pod is recorded")
        assert "no capacity" in one.bind(self.pods[1], "h2")
        recording.stop()
        # Its note would name what is lost: the last one before a power loss is older.
        lease = shop.api.objects.remove("leases", ("ns", "topolog-recorder"))
        self._lease: dict[str, Any] = json.loads(lease)
        server.cut(size)

    def close(self) -> None:
        self._stack.close()

    def record(self) -> recordings.Recording:
        """A recorder that has listed everything."""
        chosen = settings.Store(url=self.server.url, socket_timeout=1.0)
        store = stores.open_store(chosen, schema=declared.SCHEMA, cluster=self.shop.name)
        self._stack.callback(store.close)
        recording = recordings.Recording(store, self._cluster)
        self._stack.callback(recording.stop)
        return recording.ready()

    def find_note(self) -> None:
        """The next recorder reads what is lost there, and begins another incarnation."""
        del self._lease["metadata"]["resourceVersion"]
        self.shop.api.objects.create("leases", self._lease)

    def extender(self) -> replicas.Replica:
        """An extender that has read the log as it is now, and nothing of what it was."""
        made = self.shop.replica(enforce="selected")
        made.snapshot()
        return made

    @property
    def bindings(self) -> int:
        """Bindings that were sent."""
        return self.shop.asked("/binding")


@pytest.fixture
def world(tmp_path: Path, cluster: str) -> Iterator[World]:
    server = crash_safe_server.CrashSafeServer(tmp_path, append_only=True)
    try:
        with replicas.cluster(server.url, cluster) as shop, contextlib.closing(World(server, shop)) as made:
            yield made
    finally:
        server.stop()


def filtered(one: replicas.Replica, pod: model.Pod) -> frozenset[model.NodeName]:
    """The nodes that filter keeps."""
    return filtering.run(one.context, pod, candidates.Candidates(NODES)).trace.kept


def test_no_pod_is_bound_by_a_log_that_lacks_its_policy(world: World) -> None:
    one, pod = world.extender(), world.pods[1]
    assert not one.context.state.snapshot.objects, "the file lacks the policy"
    before = world.bindings
    error = one.bind(pod, "h2")
    assert "the recorder checks it" in error
    assert "nothing was bound" in error
    for _ in range(2):
        assert DOUBTED in one.bind(pod, "h2")
    with pytest.raises(errors.StateAway, match=DOUBTED):
        filtered(one, pod)
    dropped = preempting.run(one.context, pod, {"h1": [world.pods[0].uid]}).dropped
    assert DOUBTED in dropped["h1"]
    assert (world.bindings, world.shop.bound(pod)) == (before, "")
    world.record()
    one.clock.ahead += 1.0
    assert "no capacity" in one.bind(pod, "h2")
    assert (world.bindings, world.shop.quotas_used()) == (before, {"shop/spread|role=host": 1})


def test_while_the_end_is_doubted_one_call_a_second_appends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, pod = world.extender(), world.pods[1]
    one.bind(pod, "h2")
    one.clock.passes = True
    tried: list[batches.Batch] = []
    append = appenders.Appender.append

    def counted(
        self: appenders.Appender,
        batch: batches.Batch,
        guard: batches.Guard,
        *,
        timeout: float | None = None,
    ) -> batches.Appended:
        tried.append(batch)
        return append(self, batch, guard, timeout=timeout)

    monkeypatch.setattr(appenders.Appender, "append", counted)
    for _ in range(5):
        assert DOUBTED in one.bind(pod, "h2")
    assert len(tried) == 1
    one.clock.ahead += 1.0
    assert DOUBTED in one.bind(pod, "h2")
    assert [batch.events for batch in tried] == [(), ()]


@pytest.mark.parametrize("noted", [False, True], ids=["restarted", "another incarnation"])
def test_an_extender_decides_again_without_a_probe_of_its_readiness(world: World, noted: bool) -> None:
    one, pod = world.extender(), world.pods[1]
    one.bind(pod, "h2")
    world.shop.delete(world.pods[0])
    if noted:
        world.find_note()
    world.record()
    one.clock.ahead += 1.0
    assert one.bind(pod, "h2") == ""
    assert world.shop.quotas_used() == {"shop/spread|role=host": 1}


def test_an_extender_that_decides_nothing_is_not_ready(world: World) -> None:
    one = world.extender()
    acceptance = readiness.AcceptanceCheck(one.store.log)
    assert "appends are refused" in (acceptance.problem() or "")
    assert one.context.last_known() is None, "the refused append shows it"
    world.record()
    assert readiness.AcceptanceCheck(one.store.log).problem() is None
    assert one.context.last_known() is None, "what the recorder appended since is not read yet"
    one.snapshot()
    assert one.context.last_known() is not None


def test_a_decision_in_another_incarnation_is_no_doubt(world: World) -> None:
    """It is refused without a call to the store."""
    world.record()
    one = world.extender()
    with pytest.raises(store_errors.Rewound):
        one.store.log.append(batches.Batch(events=()), batches.Guard(incarnation="another"))
    assert one.context.last_known() is not None
