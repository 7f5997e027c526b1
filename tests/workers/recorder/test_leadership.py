"""One recorder at a time: who leads, who is on standby, and whose epoch is refused.

Real servers and a simulated API server, whose Lease decides. Who wins an election: tests/kube.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from structlog import testing

from app.domain import events
from app.kube.election import electors
from app.simulation.apiserver import faults
from app.store import errors, stores
from app.store.log import batches, incarnations
from tests.support.workers import clusters, leadership_events, recordings

Start = Callable[[], recordings.Recording]
LEASE = ("ns", "topolog-recorder")


def steal(cluster: clusters.Cluster, holder: str) -> None:
    def change(lease: clusters.Json) -> clusters.Json:
        return lease | {"spec": lease["spec"] | {"holderIdentity": holder}}

    cluster.server.objects.change("leases", LEASE, change)


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
    (elected,) = leadership_events.leaders(store.log)
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
    assert [one.by for one in leadership_events.leaders(store.log)] == [
        first.elector.identity,
        second.elector.identity,
    ]
    leadership_events.check_epochs(store.log)


def test_a_lease_that_is_deleted_changes_the_epoch_and_nothing_else(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    both = [beside().ready(), beside()]
    recordings.eventually(lambda: on_standby(both[1]), "the second one is on standby")

    def led_again(times: int) -> None:
        cluster_side.server.objects.remove("leases", LEASE)
        recordings.eventually(
            lambda: len(leadership_events.leaders(store.log)) == times + 1, "a recorder leads again"
        )
        cluster_side.node(f"n{times}")
        both[0].until(lambda one: f"n{times}" in one.nodes, "it is recorded")

    for times in (1, 2, 3):
        led_again(times)
    leadership_events.check_epochs(store.log)
    assert leadership_events.rewinds(store.log) == []


def test_a_recorder_whose_lease_was_stolen_returns_to_standby(
    beside: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    first = beside().ready()
    steal(cluster_side, "thief")
    recordings.eventually(lambda: on_standby(first), "it is on standby")
    assert first.thread.is_alive()
    # The thief never renews: its Lease runs out like any other.
    recordings.eventually(lambda: first.recorder.ready, "it leads again")
    assert len(leadership_events.leaders(store.log)) == 2
    leadership_events.check_epochs(store.log)


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


def test_a_leader_that_the_store_refuses_names_the_refusal_and_not_its_lease(
    cluster_side: clusters.Cluster, store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, refusals = store.log.append, [errors.Denied("the store's user may not do this")]

    def refuse_once(batch: batches.Batch, guard: batches.Guard) -> batches.Appended:
        if refusals:
            raise refusals.pop()
        return append(batch, guard)

    with testing.capture_logs() as lines:
        # Of production: a loaded machine would end a short tenure by time.
        one = recordings.Recording(store, cluster_side, durations=electors.Durations())
        try:
            one.ready()
            monkeypatch.setattr(store.log, "append", refuse_once)
            cluster_side.node("n")
            one.until(lambda state: "n" in state.nodes, "it records again")
        finally:
            one.stop()
    (lost,) = [line for line in lines if line["event"] == "recorder no longer leads"]
    assert lost["problem"] == "the store's user may not do this"
    assert [line["event"] for line in lines].count("recorder leads") == 2


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
    leadership_events.check_epochs(store.log)
    # A recorder that held a later version before stays refused.
    with pytest.raises(errors.Fenced):
        store.log.append(batches.Batch(events=()), guard)


def test_a_leader_whose_lease_cannot_be_confirmed_pauses_between_its_attempts(
    recorded: Start, cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    """The API server refuses writes, as by its flow control, and the recorder has to enter a term again."""
    first = recorded().ready()
    renewals = faults.calls("PUT", "leases/topolog-recorder")
    cluster_side.server.faults.add(faults.FaultKind.FAIL, renewals, status=429, times=100_000)
    before = store.log.state().epoch
    adopted = events.EpochAdopted("me", before, incarnations.next_era(before))
    store.log.append(batches.Batch(events=(adopted,)), batches.Guard(epoch=adopted.to_epoch, writer="me"))
    cluster_side.node("n")
    recordings.eventually(lambda: "429" in str(first.recorder.checks()), "readiness names the cause")
    time.sleep(1.0)
    refused = sum(one.method == "PUT" and "leases" in one.path for one in cluster_side.server.seen)
    assert refused < 100


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
