"""A store that is short of memory: the oldest history is trimmed, and appends continue.

One tenant makes its pod as expensive as it can; the others bind theirs meanwhile.
"""

import contextlib
import pathlib
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import redis

from app import settings
from app.domain import model
from app.kube.client import clients
from app.simulation.apiserver import objects
from app.store import errors, schemas, snapshot_format, stores
from app.store.decisions import records
from app.store.server import connections
from tests.support import bind_times, declared
from tests.support.extender import replicas
from tests.support.kube import plain_access
from tests.support.store import servers, writers
from tests.support.workers import recordings
from workers.compactor import compactors
from workers.recorder import recorders

MIB = 1024 * 1024
PODS = 200


@contextlib.contextmanager
def limited(directory: pathlib.Path, free: int) -> Iterator[servers.Server]:
    """A server whose memory is full after ``free`` more bytes."""
    server = servers.Server(directory / "s", ["appendonly yes", "maxmemory-policy noeviction"])
    try:
        used = int(_info(server, "used_memory"))
        server.ask("CONFIG", "SET", "maxmemory", str(used + free))
        yield server
    finally:
        server.kill()


def _info(server: servers.Server, name: str) -> str:
    lines = (line.partition(":") for line in servers.info(server).splitlines())
    return next((value for key, _, value in lines if key == name), "")


@contextlib.contextmanager
def running(one: recorders.Recorder | compactors.Compactor) -> Iterator[None]:
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield
    finally:
        one.stop()
        thread.join()


@contextlib.contextmanager
def opened(server: servers.Server, cluster: str) -> Iterator[stores.Store]:
    store = stores.open_store(
        settings.Store(url=f"redis://{server.address}"),
        schema=declared.SCHEMA,
        cluster=cluster,
    )
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def recorded(server: servers.Server) -> Iterator[tuple[replicas.Cluster, recorders.Recorder]]:
    """A cluster with a recorder; one policy has a place for each pod of the others."""
    with replicas.cluster(f"redis://{server.address}", "c") as shop, contextlib.ExitStack() as stack:
        shop.node("h1", role="host")
        shop.policy({"host": 10_000})
        store = stack.enter_context(opened(server, "c"))
        client = stack.enter_context(contextlib.closing(clients.Client(plain_access.of(shop.api.url))))
        recorder = recorders.Recorder(store.log, store.follower, client, settle=bind_times.OLD)
        stack.enter_context(running(recorder))
        recordings.eventually(lambda: recorder.ready, "everything is recorded")
        yield shop, recorder


class Hostile:
    """A tenant that patches one pod again and again."""

    def __init__(self, shop: replicas.Cluster) -> None:
        self._objects = shop.api.objects
        self._made = shop.pod("hostile", {"app": "hostile"})
        self._patches = 0

    def patch(self, labels: int, annotation: int = 0) -> None:
        """Give the pod so many labels of 80 characters, other ones than before."""
        self._patches += 1

        def change(found: objects.Json) -> objects.Json:
            number = f"{self._patches:018}"
            found["metadata"]["labels"] = {f"l{at:011}": f"{number}{'x' * 45}" for at in range(labels)}
            found["metadata"]["annotations"] = {"topolog.io/unread": number.ljust(annotation, "x")}
            return found

        self._objects.change("pods", (self._made.namespace, self._made.name), change)


def _known(replica: replicas.Replica, pod: model.Pod) -> bool:
    return pod.uid in replica.snapshot().pods


def refusals(server: servers.Server) -> list[str]:
    """The commands that the server rejected for lack of memory."""
    with redis.Redis(port=server.port) as client:
        found = client.info("commandstats")
    return [name for name, counted in found.items() if counted["rejected_calls"]]


def test_a_pod_with_4000_labels_or_an_unread_annotation_costs_next_to_nothing(
    tmp_path: pathlib.Path,
) -> None:
    """193 such patches filled 48 MB."""
    with limited(tmp_path, 48 * MIB) as server, recorded(server) as (shop, recorder):
        hostile, other = Hostile(shop), shop.replica()
        for _ in range(100):
            hostile.patch(4_000)
            hostile.patch(3, annotation=250_000)
        last = shop.pod("last", {"app": "last"})
        recordings.eventually(lambda: last.uid in other.snapshot().pods, "everything is recorded")
        assert other.store.memory_use.log() < MIB / 2
        assert recorder.problem == ""


def test_history_is_trimmed_before_appends_are_refused_and_others_bind_meanwhile(
    tmp_path: pathlib.Path,
) -> None:
    """Far fewer events than ``compaction.events``, in a store that has memory for half of them."""
    with limited(tmp_path, 24 * MIB) as server, recorded(server) as (shop, recorder):
        replica = shop.replica()
        replica.store.decisions.start()
        with opened(server, "c") as store:
            compactor = compactors.Compactor(store, settings.Compaction())
            with running(compactor):
                hostile = Hostile(shop)
                for number in range(PODS):
                    for _ in range(12):
                        hostile.patch(200)
                    pod = shop.pod(f"web-{number}")
                    assert replica.bind(pod, "h1") == ""
                    recordings.eventually(partial(_known, replica, pod), "the pod is recorded")
                recordings.eventually(lambda: compactor.problem == {}, "compaction has no problem")
        assert refusals(server) == []
        assert recorder.problem == ""
        assert replica.count("host") == PODS
        assert len(shop.quotas_used()) == 1
        head = replica.store.log.head().offset
        assert 1 < replica.store.log.oldest() < head < settings.Compaction().events
        # Who starts now does so from a checkpoint.
        with opened(server, "c") as late:
            assert snapshot_format.digest(late.follower.catch_up()) == snapshot_format.digest(
                replica.snapshot()
            )


def test_decision_records_are_trimmed_if_memory_is_short_at_the_start(tmp_path: pathlib.Path) -> None:
    """Without a checkpoint nothing of the log may go, and there is no memory to make one."""
    with limited(tmp_path, 8 * MIB) as server:
        with connections.connect(f"redis://{server.address}") as client:
            schemas.migrate(client, declared.names("c"), declared.SCHEMA)
        with opened(server, "c") as store:
            writers.facts(store.log, store.follower.catch_up(), [writers.seen("u")])
            with pytest.raises(errors.StoreAway, match="maxmemory"):
                _fill(store)
            compactor = compactors.Compactor(store, settings.Compaction())
            with contextlib.suppress(errors.StoreAway):
                compactor.run_once()
            compactor.run_once()
            assert compactor.checks()["memory"] is None
            assert store.log.append(writers.batch("after")).last == store.log.head().offset
            assert store.memory_use.memory().share < settings.Compaction().memory


def test_memory_that_cannot_be_freed_is_reported(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, 16 * MIB) as server:
        others = [f"another-program:{number}" for number in range(13)]
        for key in others:
            server.ask("SET", key, "x" * MIB)
        with connections.connect(f"redis://{server.address}") as client:
            schemas.migrate(client, declared.names("c"), declared.SCHEMA)
        with opened(server, "c") as store:
            writers.facts(store.log, store.follower.catch_up(), [writers.seen("u")])
            compactor = compactors.Compactor(store, settings.Compaction(events=100))
            compactor.run_once()
            assert "nothing more can be trimmed" in str(compactor.checks()["memory"])
            server.ask("DEL", *others)
            compactor.run_once()
            assert compactor.checks()["memory"] is None


def test_the_log_is_kept_to_a_number_of_bytes(store: stores.Store) -> None:
    compactor = compactors.Compactor(store, settings.Compaction(keep_bytes=MIB), monotonic=_hurried())
    for _ in range(60):
        store.log.append(writers.batch("x" * 50_000))
        compactor.run_once()
    # It goes a part at a time: most of what may be kept is.
    assert MIB / 2 < store.memory_use.log() <= MIB + 60_000
    assert store.log.oldest() > 30
    assert len(store.checkpoints.headers()) > 3
    assert store.follower.catch_up().offset == 60


def test_a_log_that_is_trimmed_early_is_kept_to_a_number_of_bytes_too(store: stores.Store) -> None:
    options = settings.Compaction(keep_bytes=MIB, keep=0, seconds=604_800)
    compactor = compactors.Compactor(store, options, monotonic=_hurried())
    for _ in range(150):
        store.log.append(writers.batch("x" * 50_000))
        compactor.run_once()
        assert store.memory_use.log() <= MIB + 60_000


def test_decision_records_are_kept_to_a_number_of_bytes(store: stores.Store) -> None:
    compactor = compactors.Compactor(store, settings.Compaction(decision_bytes=MIB), monotonic=_hurried())
    for _ in range(3):
        _record(store, 300)
        # What comes now is larger than what is there.
        _record(store, 300, weight=3_000)
        compactor.run_once()
        assert store.memory_use.decisions() <= MIB
    newest = store.decisions.latest(limit=10_000)
    assert 100 < len(newest) < 600
    assert newest[0].reasons == {"x" * 3_000: 1}


def _fill(store: stores.Store) -> None:
    while True:
        store.log.append(writers.batch("x" * 50_000))
        _record(store, 100)


def _record(store: stores.Store, count: int, *, weight: int = 0) -> None:
    for _ in range(count):
        store.decisions.record(
            records.Draft(
                position=store.follower.snapshot.position,
                verb="filter",
                pod=writers.pod("u"),
                names=("n1",),
                configuration="c",
                kept=1,
                outcome="kept",
                at="2026-01-01T00:00:00Z",
                milliseconds=0.5,
                reasons={"x" * weight: 1},
            )
        )
    store.decisions.start()
    store.decisions.stop()


class _hurried:
    """A clock by which the next measurement is always due."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 100.0
        return self._now
