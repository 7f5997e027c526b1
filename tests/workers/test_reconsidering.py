"""Pods whose refusal is outdated are woken: once for each refusal, and no more than there is room for."""

import dataclasses
from dataclasses import dataclass, field

import msgspec

from app.domain import model, snapshots
from app.store import records
from tests.scenarios import clusters, driving
from workers import reconsidering

N1, N2, N3, N4 = clusters.HOSTS
LABEL = "priority.lixueduan.com"


@dataclass
class Records:
    """Decision records as the store would give them."""

    found: list[records.Decision] = field(default_factory=list)
    offered: dict[str, frozenset[str]] = field(default_factory=dict)

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        return self.found[::-1][:limit]

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        at = [decision.id for decision in self.found].index(identity)
        return self.found[at + 1 :][:limit]

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        return self.offered[decision.id]


@dataclass
class Teller:
    """What would be told."""

    told: list[str] = field(default_factory=list)
    before: dict[str, model.Position] = field(default_factory=dict)

    def note(self, pods: tuple[model.Pod, ...], message: str, position: model.Position) -> None:
        self.told += [pod.name for pod in pods]
        self.before.update((pod.uid, position) for pod in pods)

    def noted(self, uid: model.Uid) -> model.Position | None:
        return self.before.get(uid)

    def names(self) -> list[str]:
        names, self.told = self.told, []
        return names


class World:
    """A cluster, what kube-scheduler was answered in it, and who is woken."""

    def __init__(self, *things: driving.Thing) -> None:
        self.cluster = driving.Cluster(*things)
        self.records, self.teller = Records(), Teller()
        self.reconsiderer = reconsidering.Reconsiderer(
            self.records, self.cluster.plugins, lambda: self.cluster.snapshot, self.teller
        )
        self.woken()

    def asked(self, pod: model.Pod, *nodes: str) -> bool:
        """kube-scheduler asks about the pod, and the answer is recorded; whether any node is kept."""
        offered = frozenset(nodes or clusters.HOSTS)
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
        self.reconsiderer.turn()
        return self.teller.names()


def labelled(name: str) -> model.Node:
    return clusters.node(name, {clusters.KEY: "host", LABEL: "10"})


def test_a_label_that_the_log_had_not_yet_wakes_the_pod_once() -> None:
    world = World(*clusters.f6())
    pod = clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    assert world.woken() == []
    world.cluster.see(labelled(N1))
    assert world.woken() == ["p"]
    world.cluster.see(labelled(N2))
    assert world.woken() == []  # it was told, and will be asked about again
    assert world.asked(pod)


def test_a_pod_that_the_log_learns_of_last_is_woken_as_well() -> None:
    world = World(*clusters.f6())
    pod = clusters.pod("p", scheduler="i-scheduler-extender")
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    assert world.woken() == []
    world.cluster.see(pod)
    assert world.woken() == ["p"]


def test_no_more_are_woken_than_there_is_room_for_the_most_important_first() -> None:
    running = [clusters.pod(f"runs-{n}", clusters.REPLICA, node=node) for n, node in enumerate((N1, N2))]
    world = World(*clusters.f6(), clusters.policy({"host": 2}, required=True), *running)
    for name, priority in (("a", 0), ("b", 5), ("c", 5)):
        pod = clusters.pod(name, clusters.REPLICA, priority=priority)
        world.cluster.see(pod)
        assert not world.asked(pod)
    assert world.woken() == []
    world.cluster.see(msgspec.structs.replace(running[0], terminating=True))
    assert world.woken() == ["b"]
    world.cluster.gone(running[1])
    # Nothing was heard of b since: rather one too many is woken than one left out.
    assert world.woken() == ["c", "a"]


def test_only_the_nodes_that_were_offered_count() -> None:
    world = World(*clusters.f6())
    pod = clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod, N1, N2)
    world.cluster.see(labelled(N3))
    assert world.woken() == []
    world.cluster.see(labelled(N2))
    assert world.woken() == ["p"]


def test_the_latest_word_about_a_pod_counts() -> None:
    world = World(*clusters.f6())
    pod, bound = (clusters.pod(name, scheduler="i-scheduler-extender") for name in ("p", "q"))
    world.cluster.see(pod, bound)
    assert not world.asked(pod)
    assert not world.asked(bound)
    world.cluster.see(labelled(N1))
    assert world.asked(pod)
    world.cluster.see(msgspec.structs.replace(bound, node=N1))
    assert world.woken() == []


def test_who_was_told_after_the_refusal_is_not_told_again() -> None:
    world = World(*clusters.f6())
    pod = clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    world.teller.note((pod,), "by a plugin", world.cluster.snapshot.position)
    world.teller.names()
    assert world.woken() == []


def test_a_refusal_from_before_the_start_is_decided_over_all_nodes() -> None:
    world = World(*clusters.f6())
    pod = clusters.pod("p", scheduler="i-scheduler-extender")
    world.cluster.see(pod)
    assert not world.asked(pod)
    world.cluster.see(labelled(N1))
    world.records.offered.clear()
    world.reconsiderer = reconsidering.Reconsiderer(
        world.records, world.cluster.plugins, lambda: world.cluster.snapshot, world.teller
    )
    assert world.woken() == ["p"]


def test_what_was_told_and_tried_before_a_loss_says_nothing_of_what_follows() -> None:
    """Offsets begin anew: a refusal at a low one was taken for older than what was told at a high one."""
    world = World(*clusters.f6())
    told, tried = (clusters.pod(name, scheduler="i-scheduler-extender") for name in ("told", "tried"))
    world.cluster.see(told, tried)
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e7053ca40-00000001", 500)
    assert not world.asked(told)
    assert not world.asked(tried, N2)
    assert world.woken() == []
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e7053ca40-00000001", 600)
    world.teller.note((told,), "by a plugin", world.cluster.snapshot.position)
    world.teller.names()
    world.cluster.snapshot = _moved(world.cluster.snapshot, "019e70579676-00000002", 20)
    assert world.woken() == []
    assert not world.asked(told)
    world.cluster.see(labelled(N1))
    # Of what was offered before the loss nothing is known any more: all nodes are looked at.
    assert sorted(world.woken()) == ["told", "tried"]


def _moved(snapshot: snapshots.Snapshot, incarnation: str, offset: int) -> snapshots.Snapshot:
    return dataclasses.replace(snapshot, position=model.Position(incarnation, offset))
