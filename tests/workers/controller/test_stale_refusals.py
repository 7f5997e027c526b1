"""Pods with an outdated refusal are woken: once for each refusal, and no more than there is capacity for."""

import dataclasses
from dataclasses import dataclass, field

import msgspec

from app.domain import model, snapshots
from app.framework import effects
from app.store.decisions import records
from tests.support.decisions import scheduling_driver, small_clusters
from tests.support.kube import fake_clock
from workers.controller import stale_refusals

N1, N2, N3, N4 = small_clusters.HOSTS
LABEL = "priority.lixueduan.com"


@dataclass
class Records:
    """Decision records as the store would give them."""

    found: list[records.Decision] = field(default_factory=list)
    offered: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        return self.found[::-1][:limit]

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        at = [decision.id for decision in self.found].index(identity)
        return self.found[at + 1 :][:limit]

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        return self.offered[decision.id]


@dataclass
class Waker:
    """Records wake-ups instead of writing them."""

    noted_names: list[str] = field(default_factory=list)
    before: dict[str, model.Position] = field(default_factory=dict)

    def submit(self, found: effects.Effect, snapshot: snapshots.Snapshot) -> None:
        assert isinstance(found, effects.WakePods)
        assert found.refused
        self.noted_names += [pod.name for pod in found.pods]
        self.before.update((pod.uid, snapshot.position) for pod in found.pods)

    def noted(self, uid: model.Uid) -> model.Position | None:
        return self.before.get(uid)

    def names(self) -> list[str]:
        names, self.noted_names = self.noted_names, []
        return names


class World:
    """A cluster, the recorded answers to kube-scheduler, and the pods that are woken."""

    def __init__(self, *things: scheduling_driver.Thing) -> None:
        self.cluster = scheduling_driver.Cluster(*things)
        self.records, self.waker, self.clock = Records(), Waker(), fake_clock.VirtualClock()
        self.refusals = stale_refusals.StaleRefusals(
            self.records,
            self.cluster.plugins,
            lambda: self.cluster.snapshot,
            self.waker.submit,
            self.waker.noted,
            self.clock,
        )
        self.woken()

    def asked(self, pod: model.Pod, *nodes: str) -> bool:
        """kube-scheduler asks about the pod, and the answer is recorded; whether any node is kept."""
        offered = frozenset(nodes or small_clusters.HOSTS)
        kept = len(self.cluster.filter(pod, offered).kept)
        identity = f"{len(self.records.found) + 1}-0"
        self.records.offered[identity] = offered
        self.records.found.append(
            records.Decision(
                id=identity,
                position=self.cluster.snapshot.position,
                verb="filter",
                pod=pod,
                candidates=b"",
                count=len(offered),
                configuration="c",
                kept=kept,
                outcome="kept" if kept else "refused",
                at="",
                milliseconds=0.1,
            )
        )
        return kept > 0

    def woken(self) -> list[str]:
        self.refusals.run_once()
        return self.waker.names()


def labelled(name: str) -> model.Node:
    return small_clusters.node(name, {small_clusters.KEY: "host", LABEL: "10"})


def test_a_label_that_was_not_yet_in_the_log_wakes_the_pod_once() -> None:
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    assert world.woken() == []
    world.cluster.see(labelled(N1))
    assert world.woken() == ["p"]
    world.cluster.see(labelled(N2))
    assert world.woken() == []  # it was woken, and will be tried again
    assert world.asked(pod)


def test_a_pod_that_is_recorded_last_is_woken_too() -> None:
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    assert world.woken() == []
    world.cluster.see(pod)
    assert world.woken() == ["p"]


def full(*priorities: tuple[str, int]) -> tuple[World, dict[str, model.Pod]]:
    """Two pods run under a quota of two, and others wait for a place."""
    running = [
        small_clusters.pod(f"runs-{n}", small_clusters.REPLICA, node=node) for n, node in enumerate((N1, N2))
    ]
    world = World(*small_clusters.f6(), small_clusters.policy({"host": 2}, required=True), *running)
    pods = {pod.name: pod for pod in running}
    for name, priority in priorities:
        pods[name] = pod = small_clusters.pod(name, small_clusters.REPLICA, priority=priority)
        world.cluster.see(pod)
        assert not world.asked(pod)
    assert world.woken() == []
    return world, pods


def test_no_more_pods_are_woken_than_there_is_capacity_for_by_priority() -> None:
    world, pods = full(("a", 0), ("b", 5), ("c", 5))
    world.cluster.see(msgspec.structs.replace(pods["runs-0"], terminating=True))
    assert world.woken() == ["b"]
    world.cluster.gone(pods["runs-1"])
    assert world.woken() == ["c"], "one of the two places was announced to b"
    world.cluster.see(
        msgspec.structs.replace(pods["b"], node=N3), msgspec.structs.replace(pods["c"], node=N4)
    )
    world.clock.now += 2 * stale_refusals.CLAIM
    assert world.woken() == [], "both places are taken"


def test_a_place_that_a_plugin_announced_is_not_announced_again() -> None:
    world, pods = full(("a", 0), ("b", 5))
    world.cluster.see(small_clusters.policy({"host": 3}, required=True))
    world.waker.submit(effects.WakePods((pods["a"],), "by a plugin", refused=True), world.cluster.snapshot)
    world.waker.names()
    assert world.woken() == []
    world.cluster.see(small_clusters.policy({"host": 4}, required=True))
    assert world.woken() == ["b"]


def test_no_pod_waits_for_one_that_never_takes_its_place() -> None:
    """A woken pod is deleted, or kube-scheduler does not try it: no event is needed for the next one."""
    world, pods = full(("a", 0), ("b", 5), ("c", 7))
    world.cluster.see(small_clusters.policy({"host": 3}, required=True))
    assert world.woken() == ["c"]
    assert world.woken() == []
    world.cluster.gone(pods["c"])
    assert world.woken() == ["b"]
    world.clock.now += stale_refusals.CLAIM - 1
    assert world.woken() == []
    world.clock.now += 2
    assert world.woken() == ["a"]
    world.clock.now += 2 * stale_refusals.CLAIM
    assert world.woken() == [], "each was woken once, and none was refused again"


def test_a_woken_pod_that_is_refused_again_claims_nothing() -> None:
    world, pods = full(("a", 0), ("b", 5))
    world.cluster.see(small_clusters.policy({"host": 3}, required=True))
    assert world.woken() == ["b"]
    world.cluster.see(small_clusters.policy({"host": 2}, required=True))
    assert not world.asked(pods["b"])
    world.cluster.see(small_clusters.policy({"host": 3}, required=True))
    world.waker.before.pop(pods["b"].uid)
    assert world.woken() == ["b"]


def test_only_the_nodes_that_were_offered_count() -> None:
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod, N1, N2)
    world.cluster.see(labelled(N3))
    assert world.woken() == []
    world.cluster.see(labelled(N2))
    assert world.woken() == ["p"]


def test_the_latest_record_about_a_pod_counts() -> None:
    world = World(*small_clusters.f6())
    pod, bound = (small_clusters.pod(name, scheduler="i-scheduler-extender") for name in ("p", "q"))
    world.cluster.see(pod, bound)
    assert not world.asked(pod)
    assert not world.asked(bound)
    world.cluster.see(labelled(N1))
    assert world.asked(pod)
    world.cluster.see(msgspec.structs.replace(bound, node=N1))
    assert world.woken() == []


def test_a_pod_woken_after_its_refusal_is_not_woken_again() -> None:
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    world.waker.submit(effects.WakePods((pod,), "by a plugin", refused=True), world.cluster.snapshot)
    world.waker.names()
    assert world.woken() == []


def test_a_pod_whose_wakeup_was_dropped_is_woken_again() -> None:
    """By the end of a leadership, for example: nothing else would decide about the pod again."""
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    for _ in range(2):
        assert world.woken() == ["p"]
        assert world.woken() == []
        world.waker.before.pop(pod.uid)
    world.waker.submit(effects.WakePods((pod,), "by a plugin", refused=True), world.cluster.snapshot)
    assert world.woken() == ["p"]
    world.waker.before.pop(pod.uid)
    assert world.woken() == ["p"]


def test_a_refusal_from_before_the_start_is_decided_over_all_nodes() -> None:
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    world.records.offered.clear()
    world.refusals = stale_refusals.StaleRefusals(
        world.records,
        world.cluster.plugins,
        lambda: world.cluster.snapshot,
        world.waker.submit,
        world.waker.noted,
        world.clock,
    )
    assert world.woken() == ["p"]


def test_a_refusal_of_unknown_nodes_is_decided_over_all_nodes() -> None:
    """The nodes of its time are not kept any more, or its record was shortened."""
    world = World(*small_clusters.f6())
    pod = small_clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod, N1, N2)
    world.records.offered = dict.fromkeys(world.records.offered)
    assert world.woken() == []
    world.cluster.see(labelled(N3))
    assert world.woken() == ["p"]
    world.cluster.see(labelled(N2))
    assert world.woken() == [], "once for each refusal"


def test_wakeups_and_attempts_before_a_loss_do_not_count_after_it() -> None:
    """Offsets start again: a refusal at a low offset seemed older than a wake-up at a high one."""
    world = World(*small_clusters.f6())
    waiting, tried = (
        small_clusters.pod(name, scheduler="i-scheduler-extender") for name in ("waiting", "tried")
    )
    world.cluster.see(waiting, tried)
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e7053ca40-00000001", 500)
    assert not world.asked(waiting)
    assert not world.asked(tried, N2)
    assert world.woken() == []
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e7053ca40-00000001", 600)
    world.waker.submit(effects.WakePods((waiting,), "by a plugin", refused=True), world.cluster.snapshot)
    world.waker.names()
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e70579676-00000002", 20)
    assert world.woken() == []
    assert not world.asked(waiting)
    world.cluster.see(labelled(N1))
    # Of what was offered before the loss nothing is known any more: all nodes are evaluated.
    assert sorted(world.woken()) == ["tried", "waiting"]


def _moved(snapshot: snapshots.Snapshot, incarnation: str, offset: int) -> snapshots.Snapshot:
    return dataclasses.replace(snapshot, position=model.Position(incarnation, offset))
