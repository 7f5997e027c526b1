"""One recorder at a time, and a log that reports its losses.

Real servers and a simulated API server, whose Lease decides. Who wins an election: tests/kube.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog import testing

from app import settings
from app.domain import events, model, projections
from app.kube.client import clients, credentials
from app.simulation.apiserver import apiservers, faults
from app.store import errors, keys, schemas, stores
from app.store.log import batches, incarnations, logs
from app.store.server import connections
from tests.support import declared
from tests.support.simulation.store import lagging_replica, lossy_calls
from tests.support.store import crash_safe_server, writers
from tests.support.workers import clusters, recordings

Start = Callable[[], recordings.Recording]
LEASE = ("ns", "topolog-recorder")
RESTARTED = "the store was restarted"
WAITS = "everything is listed again once the Bindings under way have ended"
ALL_KINDS = set(declared.SCHEMA.names)


def leaders(log: logs.Log) -> list[events.RecorderElected]:
    return [one.event for one in log.read(0) if isinstance(one.event, events.RecorderElected)]


def rewinds(log: logs.Log) -> list[tuple[int, events.StoreRewound]]:
    return [(one.offset, one.event) for one in log.read(0) if isinstance(one.event, events.StoreRewound)]


def check_epochs(log: logs.Log) -> None:
    """Along the log no epoch is lower than one before it."""
    epochs = [epoch for _, epoch in writers.epochs(log) if epoch]
    assert epochs == sorted(epochs, key=lambda epoch: (len(epoch), epoch))


def steal(cluster: clusters.Cluster, holder: str) -> None:
    def change(lease: clusters.Json) -> clusters.Json:
        return lease | {"spec": lease["spec"] | {"holderIdentity": holder}}

    cluster.server.objects.change("leases", LEASE, change)


# -- one recorder -----------------------------------------------------------------------------


@pytest.fixture
def beside(
    again: Callable[[], stores.Store], cluster_side: clusters.Cluster
) -> Iterator[Callable[[], recordings.Recording]]:
    """Starts recorders with a store of their own, as other processes have."""
    started: list[recordings.Recording] = []

    def start() -> recordings.Recording:
        started.append(recordings.Recording(again(), cluster_side))
        return started[-1]

    yield start
    for one in started:
        one.recorder.stop()
        one.thread.join(recordings.LIMIT)


def on_standby(recording: recordings.Recording) -> bool:
    return any("standby" in line for line in recording.recorder.checks())


def test_a_standby_recorder_is_ready(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    first = beside().ready()
    second = beside()
    recordings.eventually(lambda: on_standby(second), "the second one is on standby")
    assert not any(second.recorder.checks().values())
    cluster_side.node("n")
    first.until(lambda one: "n" in one.nodes, "the first one records")
    (elected,) = leaders(store.log)
    assert (elected.by, elected.epoch) == (first.elector.identity, store.log.state().epoch)


def test_a_recorder_that_ends_in_order_is_succeeded_at_once(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    first = beside().ready()
    second = beside()
    recordings.eventually(lambda: on_standby(second), "the second one is on standby")
    first.stop()
    cluster_side.node("n")
    second.until(lambda one: "n" in one.nodes, "the second one records")
    assert [one.by for one in leaders(store.log)] == [first.elector.identity, second.elector.identity]
    check_epochs(store.log)


def test_a_lease_that_is_deleted_changes_the_epoch_and_nothing_else(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    both = [beside().ready(), beside()]
    recordings.eventually(lambda: on_standby(both[1]), "the second one is on standby")

    def led_again(times: int) -> None:
        cluster_side.server.objects.remove("leases", LEASE)
        recordings.eventually(lambda: len(leaders(store.log)) == times + 1, "a recorder leads again")
        cluster_side.node(f"n{times}")
        both[0].until(lambda one: f"n{times}" in one.nodes, "it is recorded")

    for times in (1, 2, 3):
        led_again(times)
    check_epochs(store.log)
    assert rewinds(store.log) == []


def test_a_recorder_whose_lease_was_stolen_returns_to_standby(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    first = beside().ready()
    steal(cluster_side, "thief")
    recordings.eventually(lambda: on_standby(first), "it is on standby")
    assert first.thread.is_alive()
    # The thief never renews: its Lease runs out like any other.
    recordings.eventually(lambda: first.recorder.ready, "it leads again")
    assert len(leaders(store.log)) == 2
    check_epochs(store.log)


def test_a_leader_that_cannot_renew_its_lease_names_the_reason(
    beside: Start, cluster_side: clusters.Cluster
) -> None:
    with testing.capture_logs() as lines:
        one = beside().ready()
        cluster_side.server.faults.add(
            faults.FaultKind.FAIL, lambda asked: "/leases" in asked.path, times=10**6, status=503
        )
        recordings.eventually(lambda: not one.recorder.ready, "the recorder does not lead")
        # A loaded machine may end the tenure by time, before an attempt has failed.
        recordings.eventually(
            lambda: "answered 503" in (one.recorder.checks().get("election") or ""), "the reason is given"
        )
        recordings.eventually(lambda: "leader" not in one.recorder.checks(), "the reason stands alone")
        cluster_side.server.faults.clear()
        one.ready()
    own = [line for line in lines if line["event"].startswith("recorder ")]
    lost = own[1::2]
    assert [line["event"] for line in own[::2]] == ["recorder leads"] * (len(lost) + 1)
    assert {line["event"] for line in lost} == {"recorder no longer leads"}
    # A request that has no answer when the tenure ends is not a failed one.
    for line in lost:
        assert "answered 503" in line["problem"] or line["problem"] == "its Lease was not renewed in time"


def test_a_leader_that_was_overtaken_during_a_pause_writes_nothing(
    recorded: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    """As after a pause: its epoch is refused before it has read the Lease again."""
    first = recorded().ready()
    epoch = store.log.state().epoch
    guard = batches.Guard(epoch=str(int(epoch) + 1), writer="other")
    store.log.append(batches.Batch(events=()), guard)
    before = store.log.head().offset
    cluster_side.node("n")
    recordings.eventually(lambda: "topolog adopt" in str(first.recorder.checks()), "it is refused")
    assert store.log.head().offset == before
    # An operator who has verified the Lease opens a new era, and it goes on.
    adopted = events.EpochAdopted("me", store.log.state().epoch, incarnations.next_era(epoch))
    store.log.append(batches.Batch(events=(adopted,)), batches.Guard(epoch=adopted.to_epoch, writer="me"))
    first.until(lambda one: "n" in one.nodes, "the node is recorded")
    check_epochs(store.log)
    # A recorder that held a later version before stays refused.
    with pytest.raises(errors.Fenced):
        store.log.append(batches.Batch(events=()), guard)


def test_eras_keep_the_order_of_epochs() -> None:
    first = incarnations.epoch("1000", "")
    assert first == "1000"
    era = incarnations.next_era(first)
    lowest = incarnations.epoch("5", era)
    longest = incarnations.epoch("9" * 39, era)
    following = incarnations.next_era(longest)
    ordered = [first, "9" * 39, era, lowest, longest, following, incarnations.epoch("1", following)]
    assert ordered == sorted(ordered, key=lambda epoch: (len(epoch), epoch))
    assert len(set(ordered)) == len(ordered)


# -- incarnations -----------------------------------------------------------------------------


class Own:
    """A separate server that can lose data, a recorder and an extender's follower."""

    def __init__(self, directory: Path, cluster: clusters.Cluster) -> None:
        self.file = directory / "appendonlydir"
        self.cluster = cluster
        self.server = crash_safe_server.CrashSafeServer(directory, append_only=True)
        client = connections.connect(self.server.url)
        schemas.migrate(client, declared.names("own"), declared.SCHEMA)
        client.close()
        self.stores: list[stores.Store] = []
        self.recordings: list[recordings.Recording] = []
        self.extender = self.open()
        self.extender.follower.start()

    def open(self) -> stores.Store:
        url = self.server.url
        chosen = settings.Store(url=url, socket_timeout=1.0)
        self.stores.append(stores.open_store(chosen, schema=declared.SCHEMA, cluster="own", emptied=True))
        return self.stores[-1]

    def record(self, *, settle: float = 0.05) -> recordings.Recording:
        self.recordings.append(recordings.Recording(self.open(), self.cluster, settle=settle))
        return self.recordings[-1]

    def close(self) -> None:
        for recording in self.recordings:
            recording.recorder.stop()
            recording.thread.join(recordings.LIMIT)
        for store in self.stores:
            store.close()
        self.server.stop()

    def cut(self, size: int) -> None:
        """Let the server die and lose the end of its file from that byte on."""
        self.server.kill()
        (last,) = sorted(self.file.glob("*.incr.aof"))[-1:]
        with last.open("r+b") as file:
            file.truncate(size)
        self.server.start()

    @property
    def size(self) -> int:
        """Bytes of the append-only file with every acknowledged write."""
        crash_safe_server.await_written(self.server.url)
        (last,) = sorted(self.file.glob("*.incr.aof"))[-1:]
        return last.stat().st_size

    @property
    def log(self) -> logs.Log:
        return self.extender.log

    def healed(self) -> None:
        """Wait until the extender's state equals the cluster."""

        def holds() -> bool:
            try:
                snapshot = self.extender.follower.catch_up()
            except errors.StoreError:
                return False
            nodes = {one["metadata"]["name"] for one in self.cluster.server.objects.all("nodes")}
            pods = {one["metadata"]["uid"] for one in self.cluster.server.objects.all("pods")}
            return (
                not snapshot.unlisted
                and set(snapshot.listed) == ALL_KINDS
                and set(snapshot.nodes) == nodes
                and set(snapshot.pods) == pods
            )

        recordings.eventually(holds, "the extender has the cluster again")
        check_epochs(self.log)
        snapshot = self.extender.follower.catch_up()
        assert self.log.counts() == dict(snapshot.counts)
        assert self.log.versions() == dict(snapshot.versions)
        assert [one.offset for one in self.log.read(0, limit=10_000)] == list(range(1, snapshot.offset + 1))


@pytest.fixture
def own(tmp_path: Path, cluster_side: clusters.Cluster) -> Iterator[Own]:
    made = Own(tmp_path, cluster_side)
    yield made
    made.close()


def filled(own: Own, pods: int = 12) -> recordings.Recording:
    """A recorder that has recorded a small cluster."""
    for at in range(3):
        own.cluster.node(f"n{at}", zone="host")
    own.cluster.policy("p", host=100)
    for at in range(pods):
        own.cluster.pod(f"p{at}", node=f"n{at % 3}", app="x")
    recording = own.record().ready()
    own.healed()
    return recording


def test_a_flushed_store_is_filled_again_while_all_processes_run(own: Own) -> None:
    recording = filled(own)
    former = own.log.incarnation
    head = own.extender.follower.catch_up().offset
    own.extender.client.flushall()
    with pytest.raises(errors.StoreError):
        own.extender.log.append(batches.Batch(events=()))
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    recordings.eventually(lambda: recording.recorder.ready, "the recorder is ready again")
    ((offset, rewound),) = rewinds(own.log)
    assert offset == 1
    assert (rewound.from_incarnation, rewound.lost_from) == (former, 1)
    assert rewound.lost_to >= head - 1
    assert set(rewound.relisting) == ALL_KINDS
    assert incarnations.later(own.log.incarnation, former)
    assert recording.thread.is_alive()
    assert schemas.status(own.extender.client, own.extender.keys).ready
    with pytest.raises(errors.Superseded, match=f"oldest one that is kept is {own.log.incarnation}/1"):
        own.extender.histories.of(model.Position(former, 3))
    own.cluster.node("later")
    own.healed()


@pytest.mark.parametrize("seed", range(6))
def test_a_file_cut_anywhere_is_noticed_and_healed(own: Own, seed: int) -> None:
    begin = own.size
    filled(own)
    former, head = own.log.incarnation, own.extender.follower.catch_up().offset
    rng = random.Random(seed)
    own.cut(rng.randint(begin, own.size - 1))
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    ((offset, rewound),) = rewinds(own.log)
    # What is before it is what the server still held, and the range is exactly the rest.
    assert rewound.from_incarnation == former
    assert rewound.lost_from == offset
    assert rewound.lost_to >= head
    listed = [one.event for one in own.log.read(offset) if isinstance(one.event, events.Relisted)]
    assert {one.kind for one in listed} == ALL_KINDS
    assert {one.reason for one in listed} == {"the store lost events"}


def test_a_restored_backup_is_noticed_and_healed(own: Own) -> None:
    recording = filled(own)
    size = own.size
    former = own.log.incarnation
    for at in range(20):
        own.cluster.pod(f"later-{at}", node="n0", app="x")
    own.healed()
    recording.until(lambda one: len(one.pods) == 32, "all is recorded")
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    # And once more, to the same backup: of an earlier incarnation now.
    second = own.log.incarnation
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation not in (former, second), "it follows on again")
    own.healed()
    assert incarnations.later(own.log.incarnation, second)


def test_a_loss_is_noticed_by_a_recorder_that_starts_after_it(own: Own) -> None:
    """No process ran when it happened; only the last leader's note in the Lease shows it."""
    recording = filled(own)
    own.extender.follower.stop()
    size = own.size
    own.cluster.pod("later", node="n0", app="x")
    recording.until(lambda one: any(pod.name == "later" for pod in one.pods.values()), "it is recorded")
    former, seen = own.log.incarnation, recording.store.log.seen
    recording.stop()
    own.cut(size)
    second = own.record().ready()
    ((_, rewound),) = rewinds(second.store.log)
    assert (rewound.from_incarnation, rewound.lost_to) == (former, seen.offset)
    assert rewound.by == second.elector.identity


def test_a_recorder_that_takes_over_waits_for_the_rest_of_the_settle_time(own: Own) -> None:
    """A predecessor that was stopped meanwhile has waited for a part of it only."""
    recording = filled(own)
    former = own.log.incarnation
    recording.stop()
    own.extender.client.flushall()
    first = own.record(settle=2.0)
    recordings.eventually(lambda: own.log.state().incarnation != former, "a new incarnation")
    first.stop()
    second = own.record(settle=2.0).ready()
    times = {type(one.event): one.at_ms for one in reversed(second.store.log.read(0))}
    assert times[events.Relisted] - times[events.StoreRewound] >= 2_000
    assert {one.by for one in leaders(second.store.log)} >= {second.elector.identity}
    # Who takes over once everything is listed again has nothing to wait for.
    at = second.store.log.head().offset
    second.stop()
    third = own.record(settle=60.0).ready()
    own.cluster.node("later")
    third.until(lambda one: "later" in one.nodes, "it records")
    assert not [one for one in third.store.log.read(at) if isinstance(one.event, events.Relisted)]


def restarts(log: logs.Log) -> list[events.StoreRestarted]:
    return [one.event for one in log.read(0) if isinstance(one.event, events.StoreRestarted)]


def test_a_placement_lost_without_a_reader_is_not_forgotten_in_silence(own: Own) -> None:
    """A power failure of everything at once: the file lacks an end that no note and no reader names."""
    recording = filled(own)
    own.extender.follower.stop()
    recording.stop()
    size = own.size
    pod = own.cluster.pod("placed", app="x")
    extender = own.open()
    snapshot = extender.follower.catch_up()
    placed = events.placed(pod, "n0")
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    extender.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    own.cut(size)
    before = own.open()
    with pytest.raises(errors.Rewound, match="restarted"):
        before.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    second = own.record(settle=0.5)
    second.ready()
    log = second.store.log
    (restarted,) = restarts(log)
    assert restarted.by == second.elector.identity
    assert restarted.after == log.state().run != restarted.before
    assert rewinds(log) == []
    at = next(one.offset for one in log.read(0) if one.event == restarted)
    entries = [one for one in log.read(at) if isinstance(one.event, events.Relisted)]
    assert {one.event.kind for one in entries if isinstance(one.event, events.Relisted)} == ALL_KINDS
    assert min(one.at_ms for one in entries) - (log.time_of(at) or 0) >= 500
    # One list for each restart: the next leader in the same run has nothing to doubt.
    second.stop()
    third = own.record().ready()
    assert restarts(third.store.log) == [restarted]
    extender = own.open()
    assert pod.uid not in extender.follower.catch_up().placements
    assert not extender.follower.snapshot.unlisted
    extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))


def test_a_recorder_that_leads_notices_a_restart_of_the_store(own: Own) -> None:
    recording = filled(own)
    before = own.log.state().run
    with testing.capture_logs() as lines:
        own.server.kill()
        own.server.start()
        recordings.eventually(lambda: len(restarts(recording.store.log)) == 1, "the restart is recorded")
        recordings.eventually(lambda: recording.recorder.ready, "the recorder is ready again")
    written = [line["event"] for line in lines]
    noticed, waits = written.index(f"{RESTARTED}; its latest events may be lost"), written.index(WAITS)
    assert noticed < waits < written.index("recorder leads", waits)
    own.healed()
    (restarted,) = restarts(own.log)
    assert (restarted.before, restarted.after) == (before, own.log.state().run)
    assert rewinds(own.log) == []


def test_a_store_that_falls_back_within_one_run_is_examined(own: Own) -> None:
    """A recorder verified the new run, its reply was lost, and its server got older data again.

    A primary that is demoted copies the data of another server; promoted once more, it has its old run_id.
    """
    filled(own).stop()
    own.extender.follower.stop()
    own.server.kill()
    own.server.start()
    client = own.extender.client
    older = lagging_replica.Replica(client)
    older.follow()
    verified: list[int] = []
    fallen: list[int] = []

    def fall_back(
        _: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        if call is lossy_calls.Call.APPEND and not fallen:
            if not verified:
                ask()
                verified.append(own.log.head().offset)
            raise lossy_calls.away("the reply is lost, and those to the repetitions")
        if call is lossy_calls.Call.READ and verified and not fallen:
            older.promote()
            fallen.append(own.log.head().offset)
        return ask()

    with lossy_calls.watched(fall_back):
        second = own.record(settle=1.0).ready()
    log = second.store.log
    assert fallen[0] < verified[0], "the store fell back after the recorder had read its state"
    ((offset, rewound),) = rewinds(log)
    assert rewound.lost_to == verified[0]
    entries = [one for one in log.read(offset) if isinstance(one.event, events.Relisted)]
    assert min(one.at_ms for one in entries) - (log.time_of(offset) or 0) >= 1_000


def test_the_functions_may_be_loaded_again_in_the_same_run(own: Own) -> None:
    filled(own)
    own.extender.client.function_load(schemas.library(), replace=True)
    own.extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))
    assert restarts(own.log) == []


def test_a_log_of_an_earlier_version_is_continued(own: Own) -> None:
    """It names no verified run; all kinds were listed."""
    filled(own).stop()
    own.extender.client.hdel(own.extender.keys.meta, keys.RUN)
    own.server.kill()
    own.server.start()
    own.extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))
    at = own.log.head().offset
    second = own.record(settle=60.0).ready()
    assert not [one for one in second.store.log.read(at) if isinstance(one.event, events.Relisted)]
    assert own.log.state().verified_run == own.log.state().run


def named(cluster: clusters.Cluster, uid: str) -> None:
    """The cluster gets the kube-system namespace that makes it this one."""
    metadata = {"name": "kube-system", "uid": uid}
    cluster.server.objects.create("namespaces", {"metadata": metadata})


def test_another_cluster_of_the_same_name_is_refused_with_its_own_message(own: Own) -> None:
    named(own.cluster, "uid-of-the-first")
    filled(own)
    assert own.log.state().kubernetes == "uid-of-the-first"
    head = own.log.head()
    with (
        apiservers.ApiServer(declared.SCHEMA) as server,
        contextlib.closing(clients.Client(credentials.plain(server.url))) as client,
    ):
        other = clusters.Cluster(server, client)
        named(other, "uid-of-the-second")
        other.node("foreign")
        second = recordings.Recording(own.open(), other)
        recordings.eventually(
            lambda: "is that of another Kubernetes cluster" in str(second.recorder.checks()), "it is refused"
        )
        problem = str(second.recorder.checks()["store"])
        assert "UID uid-of-the-first, here it has uid-of-the-second" in problem
        assert "Give one of the two another name (setting cluster)" in problem
        assert "adopt" not in problem
        assert own.log.head() == head
        second.stop()
    assert "foreign" not in own.extender.follower.catch_up().nodes


def test_a_cluster_whose_etcd_was_restored_keeps_its_store(own: Own) -> None:
    named(own.cluster, "uid-of-the-first")
    filled(own).stop()
    with (
        apiservers.ApiServer(declared.SCHEMA, bookmarks=0.2) as server,
        contextlib.closing(clients.Client(credentials.plain(server.url))) as client,
    ):
        restored = clusters.Cluster(server, client)
        named(restored, "uid-of-the-first")
        restored.node("after-the-restore")
        state = own.log.state()
        adopted = events.EpochAdopted("me", state.epoch, incarnations.next_era(state.epoch))
        own.log.append(batches.Batch(events=(adopted,)), batches.Guard(epoch=adopted.to_epoch, writer="me"))
        again = recordings.Recording(own.open(), restored)
        again.ready()
        recordings.eventually(
            lambda: set(own.extender.follower.catch_up().nodes) == {"after-the-restore"},
            "what the restored cluster has is recorded",
        )
        assert own.log.state().kubernetes == "uid-of-the-first"
        again.stop()


def test_a_store_that_names_no_cluster_adopts_the_first_one(own: Own) -> None:
    filled(own).stop()
    assert own.log.state().kubernetes == ""
    named(own.cluster, "uid-of-the-first")
    own.record().ready()
    assert own.log.state().kubernetes == "uid-of-the-first"
    # Two that come at the same time: the function takes one of them.
    guard = batches.Guard(epoch="9" * 30, writer="other")
    with pytest.raises(errors.Rewound):
        own.log.append(batches.Batch(events=(), kubernetes="uid-of-the-second"), guard)


def test_a_store_emptied_while_no_process_ran_is_filled_again(own: Own) -> None:
    recording = filled(own)
    own.extender.follower.stop()
    former = own.log.incarnation
    recording.stop()
    own.extender.client.flushall()
    second = own.record().ready()
    ((_, rewound),) = rewinds(second.store.log)
    assert (rewound.from_incarnation, rewound.lost_from) == (former, 1)
    # The same if an empty log was made of it meanwhile.
    third = second.store.log.incarnation
    second.stop()
    own.extender.client.flushall()
    schemas.migrate(own.extender.client, own.extender.keys, declared.SCHEMA)
    ((_, rewound),) = rewinds(own.record().ready().store.log)
    assert rewound.from_incarnation == third


def test_a_loss_is_reported_from_its_start_although_the_log_has_grown_again(own: Own) -> None:
    """The writer had not read the lost entries; a reader that had reports where they began."""
    filled(own).stop()
    own.extender.follower.catch_up()
    size, first = own.size, own.log.head().offset + 1
    for at in range(3):
        own.log.append(batches.Batch(events=(events.Quarantined("notes", f"n{at}", "lost"),)))
    own.extender.follower.catch_up()
    own.extender.follower.stop()
    own.cut(size)
    second = own.record().ready()
    own.cluster.node("later")
    second.until(lambda one: "later" in one.nodes, "the log grows again")
    former = own.log.incarnation
    own.extender.follower.start()
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    ((offset, rewound),) = rewinds(own.log)
    assert offset > first
    assert (rewound.lost_from, rewound.lost_to) == (first, first + 2)


def test_an_empty_store_that_never_held_a_log_is_left_alone(own: Own) -> None:
    own.extender.client.flushall()
    recording = own.record()
    recording.thread.join(recordings.LIMIT)
    assert isinstance(recording.error, errors.SchemaMismatch)


def test_a_loss_that_one_reader_reports_stops_every_writer(own: Own) -> None:
    recording = filled(own)
    recording.stop()
    unaware = own.open()
    behind = unaware.log.read(0)[-1].offset
    own.cut(own.size - 40)
    recordings.eventually(
        lambda: own.log.state().lost is not None, "the extender's follower has reported it to the store"
    )
    for refused in (
        lambda: unaware.log.append(batches.Batch(events=())),
        lambda: unaware.log.read(0),
        lambda: unaware.follower.catch_up(),
    ):
        with pytest.raises(errors.Rewound):
            refused()
    own.record().ready()
    own.healed()
    assert unaware.follower.catch_up().offset > behind - 1


def test_a_decision_on_a_former_incarnation_is_not_appended_to_the_next(own: Own) -> None:
    filled(own)
    extender, pod = own.extender, model.Pod(uid="u", namespace="ns", name="late", labels={"app": "x"})
    before = extender.follower.catch_up()
    extender.client.flushall()
    recordings.eventually(lambda: own.log.incarnation != before.position.incarnation, "a new incarnation")
    own.healed()
    projection = projections.Projection(before)
    placed = events.placed(pod, "n0")
    projection.apply(placed)
    guard = batches.Guard(incarnation=before.position.incarnation, versions={"pod:u": 0})
    with pytest.raises(errors.Rewound, match="decide again"):
        extender.log.append(batches.Batch(events=(placed,), increments=projection.increments), guard)
    assert "u" not in extender.follower.catch_up().placements


def test_placements_that_the_tail_still_holds_stay(own: Own) -> None:
    filled(own)
    pod = own.cluster.pod("placed", app="x")
    snapshot = own.extender.follower.catch_up()
    placed = events.placed(pod, "n0")
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    batch: Any = batches.Batch(events=(placed,), increments=projection.increments)
    while True:
        try:
            own.extender.log.append(batch, batches.Guard(head=snapshot.offset))
            break
        except errors.Conflict:
            snapshot = own.extender.follower.catch_up()
            projection = projections.Projection(snapshot)
            projection.apply(placed)
            batch = batches.Batch(events=(placed,), increments=projection.increments)
    size = own.size
    own.cluster.node("lost")
    own.healed()
    former = own.log.incarnation
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    assert own.extender.follower.catch_up().placements[pod.uid].node == "n0"
