"""Plans of several pods: committed whole, decided once, and written to the pods as they are in the log."""

import dataclasses
import json
import secrets
from collections.abc import Mapping
from concurrent import futures
from types import MappingProxyType
from typing import ClassVar

import pytest
from hypothesis import example, given, settings

from app.domain import events, model, verdicts
from app.framework import capabilities, cycles
from app.kube.writes import binding
from app.simulation.apiserver import faults, objects
from app.store.server import embedded
from tests.support.campaigns import sizes
from tests.support.decisions import pod_sets
from tests.support.extender import bind_plays, replicas
from tests.support.simulation.oracle import plain_fold, pod_set_law
from tests.support.store import materialised
from workers.controller.placements import orphaned_placements

SEATS = ("m1", "m2", "h1")


def member(shop: replicas.Cluster, number: int, seat: str, pod_set: str = "c") -> model.Pod:
    labels = {**replicas.WEB, pod_sets.POD_SET: pod_set, pod_sets.SEAT: seat}
    return shop.pod(f"web-{number}", labels)


@pytest.fixture
def members(shop: replicas.Cluster) -> list[model.Pod]:
    """A pod set that fits: one on a host, two on members."""
    found = [member(shop, number, seat) for number, seat in enumerate(SEATS)]
    shop.see()
    return found


def replica(shop: replicas.Cluster, *, bind: float = 3.5) -> replicas.Replica:
    return shop.replica(bind=bind, beside=(pod_sets.PodSets,))


def commitments(one: replicas.Replica) -> list[events.PlacementsCommitted]:
    entries = one.store.log.read(0, limit=10_000)
    return [entry.event for entry in entries if isinstance(entry.event, events.PlacementsCommitted)]


def sent(shop: replicas.Cluster) -> list[objects.Json]:
    """The metadata of all Bindings that arrived at the API server."""
    return [json.loads(one.body)["metadata"] for one in shop.api.seen if bind_plays.BINDING(one)]


def ticket(one: replicas.Replica, pod: model.Pod) -> str:
    """What was decided first for the pod."""
    found = [
        placement.annotations[pod_sets.TICKET]
        for event in commitments(one)
        for placement in event.placements
        if placement.pod.uid == pod.uid
    ]
    return found[0]


def test_a_bind_places_the_whole_plan_and_binds_its_own_pod(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    one, other = replica(shop), shop.replica()
    assert one.bind(members[0], "m1") == ""
    (event,) = commitments(one)
    assert [(p.pod.uid, p.node, p.planned) for p in event.placements] == [
        (pod.uid, seat, pod is not members[0]) for pod, seat in zip(members, SEATS, strict=True)
    ]
    assert [shop.bound(pod) for pod in members] == ["m1", "", ""]
    # A replica without the plugin folds the same, and gives none of the places away.
    assert (other.count("member"), other.count("host")) == (2, 1)
    rival = shop.pod("rival")
    shop.see()
    assert "no capacity" in other.bind(rival, "m1")
    placement = other.snapshot().placements[members[2].uid]
    assert placement.data["PodSets"]["decided"]["with"] == 2


def test_each_member_is_bound_by_its_own_bind_with_what_was_decided(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    both = replica(shop), replica(shop)
    for at, (pod, seat) in enumerate(zip(members, SEATS, strict=True)):
        assert both[at % 2].bind(pod, seat) == ""
    assert [len(event.placements) for event in commitments(both[0])] == [3, 1, 1]
    for pod in members:
        assert shop.annotations(pod)[pod_sets.TICKET] == ticket(both[0], pod)
    shop.see()
    snapshot = both[0].snapshot()
    assert not snapshot.placements
    assert {pod.uid: snapshot.node_of(pod.uid) for pod in members} == {
        pod.uid: seat for pod, seat in zip(members, SEATS, strict=True)
    }
    assert (both[1].count("member"), both[1].count("host")) == (2, 1)


def test_a_plan_that_does_not_fit_as_a_whole_places_nothing(shop: replicas.Cluster) -> None:
    pods = [member(shop, number, seat) for number, seat in enumerate(("m1", "h1", "h2"))]
    shop.see()
    one = replica(shop)
    error = one.bind(pods[0], "m1")
    assert "pod shop/web-1, which is placed with it, cannot be placed on its node: workload policy" in error
    assert commitments(one) == []
    assert (sent(shop), one.count("member")) == ([], 0)


@pytest.mark.parametrize("what", ["bound", "gone", "bound elsewhere"])
def test_a_member_that_changed_before_the_append_is_decided_about_again(
    shop: replicas.Cluster, members: list[model.Pod], what: str
) -> None:
    one = replica(shop)
    one.context = replicas.with_state(one, replicas.Behind(one))
    if what == "gone":
        shop.delete(members[1])
    else:
        shop.put(members[1], "m2" if what == "bound" else "h2")
        if what == "bound elsewhere":
            shop.delete(members[2])  # there is one place on the hosts
    shop.see()
    assert one.bind(members[0], "m1") == ""
    (event,) = commitments(one)
    assert members[1].uid not in {placement.pod.uid for placement in event.placements}
    assert len(event.placements) == (1 if what == "bound elsewhere" else 2)


def test_a_thousand_pods_are_placed_in_one_append(store_server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        nodes = [f"n{number}" for number in range(20)]
        for node in nodes:
            shop.node(node, role="host")
        shop.policy({"host": 1000})
        pods = []
        for number in range(1000):
            pods.append(member(shop, number, nodes[number % 20]))
            if number % 200 == 0:
                shop.see()  # a call appends 256 facts at most
        before = shop.see()
        one = shop.replica(bind=60.0, state=60.0, beside=(pod_sets.PodSets,))
        assert one.bind(pods[0], "n0") == ""
        (entry,) = one.store.log.read(before)
        assert isinstance(entry.event, events.PlacementsCommitted)
        assert {placement.pod.uid for placement in entry.event.placements} == {pod.uid for pod in pods}
        other = shop.replica()
        assert other.count("host") == 1000
        snapshot = other.snapshot()
        assert {uid: snapshot.version(f"pod:{uid}") for uid in snapshot.placements} == {
            pod.uid: entry.offset for pod in pods
        }
        assert materialised.versions(other.store) == dict(snapshot.versions)


def test_two_replicas_that_bind_two_members_at_once_commit_one_plan(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    both = [replica(shop), replica(shop)]
    with futures.ThreadPoolExecutor(3) as pool:
        calls = zip((both[0], both[1], both[0]), members, SEATS, strict=True)
        errors = list(pool.map(lambda call: call[0].bind(call[1], call[2]), calls))
    assert errors == ["", "", ""]
    assert [len(event.placements) for event in commitments(both[0])] == [3, 1, 1]


@pytest.mark.parametrize("own", [True, False], ids=["own placement", "planned placement"])
def test_a_retry_takes_the_annotations_from_the_log(
    shop: replicas.Cluster, members: list[model.Pod], own: bool
) -> None:
    one, other = replica(shop, bind=1.8), replica(shop)
    pod, seat = (members[0], "m1") if own else (members[1], "m2")
    if not own:
        assert one.bind(members[0], "m1") == ""
    shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=500)
    assert "not known" in one.bind(pod, seat)
    shop.touch(pod)  # kube-scheduler writes the failure into the pod's status
    assert other.bind(pod, seat) == ""
    tickets = {made["annotations"][pod_sets.TICKET] for made in sent(shop) if made["uid"] == pod.uid}
    assert tickets == {ticket(one, pod)} == {shop.annotations(pod)[pod_sets.TICKET]}
    assert len({made["resourceVersion"] for made in sent(shop) if made["uid"] == pod.uid}) == 2


def test_a_pod_that_another_client_bound_to_its_seat_is_not_ours(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    """It keeps its place, but without what was decided for it: the watch shows what it has instead."""
    one = replica(shop)
    assert one.bind(members[0], "m1") == ""
    shop.put(members[1], "m2")
    assert "was bound to node m2 by another client" in one.bind(members[1], "m2")
    assert members[1].uid in one.snapshot().placements
    assert one.count("member") == 2
    shop.see()
    assert members[1].uid not in one.snapshot().placements
    assert (one.count("member"), one.bind(members[1], "m2")) == (2, "")


def test_a_binding_without_a_reply_that_another_client_overtook(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    one, other = replica(shop, bind=1.8), replica(shop)
    shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=500)
    assert "not known" in one.bind(members[0], "m1")
    shop.put(members[0], "m1")
    assert "by another client" in other.bind(members[0], "m1")
    assert other.count("member") == 2


@dataclasses.dataclass(frozen=True, slots=True)
class Writing:
    """Decides this for every pod."""

    name: ClassVar[str] = "Writing"
    size: ClassVar[int] = 64 * 1024
    key: ClassVar[str] = "writing.example/large"

    def interested(self, pod: model.Pod) -> bool:
        return True

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan | verdicts.Refusal:
        if cycle.pod.name == "unwanted":
            return verdicts.Refusal("nothing is left for it", cycle.candidates)
        written = {self.key: "x" * self.size}
        return capabilities.Plan((capabilities.Assignment(cycle.pod, node, annotations=written),))


@dataclasses.dataclass(frozen=True, slots=True)
class Clashing(Writing):
    name: ClassVar[str] = "Clashing"
    size: ClassVar[int] = 1
    key: ClassVar[str] = pod_sets.TICKET


@pytest.mark.parametrize(
    ("plugin", "name", "reason"),
    [
        (Writing, "web-9", "the annotations and labels that plugins set for pod shop/web-9 have 65,"),
        (Writing, "unwanted", "topolog: nothing is left for it"),
        (Clashing, "web-9", "plugins PodSets and Clashing both set annotation podset.example/ticket of pod"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    shop: replicas.Cluster, plugin: type[Writing], name: str, reason: str
) -> None:
    one = shop.replica(beside=(pod_sets.PodSets, plugin))
    pod = shop.pod(name, {pod_sets.POD_SET: "c", pod_sets.SEAT: "m1"})
    before = shop.see()
    assert reason in one.bind(pod, "m1")
    assert one.events(after=before) == []
    assert sent(shop) == []


# -- what is never bound -----------------------------------------------------------------------


def test_planned_placements_wait_longer_than_bindings_do(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    one = replica(shop)
    assert one.bind(members[0], "m1") == ""
    shop.see()
    assert one.settled() == one.settled(after=binding.UNFENCED) == 0
    assert one.settled(after=orphaned_placements.PLANNED - 1.0) == 0
    shop.delete(members[1])
    assert one.settled() == 1
    assert one.settled(after=orphaned_placements.PLANNED) == 1
    assert not one.snapshot().placements
    assert (one.count("member"), one.count("host")) == (1, 0)


def test_a_member_is_bound_as_usual_after_its_planned_placement_was_released(
    shop: replicas.Cluster, members: list[model.Pod]
) -> None:
    one = replica(shop)
    assert one.bind(members[0], "m1") == ""
    shop.see()
    assert one.settled(after=orphaned_placements.PLANNED) == 2
    assert one.bind(members[2], "h1") == ""
    assert [len(event.placements) for event in commitments(one)] == [3, 2]


# -- whatever happens --------------------------------------------------------------------------


class Play(bind_plays.Play):
    """Two pod sets of two: hosts, and a member beside a node in no quota."""

    quotas: Mapping[str, int] = MappingProxyType({"host": 2, "member": 1})
    beside = (pod_sets.PodSets,)

    def pod(self, number: int) -> model.Pod:
        return member(self.shop, number, bind_plays.NODES[number], f"set-{number // 2}")

    def bind(self, number: int, node: str, replica: int) -> None:
        """kube-scheduler binds to a node that filter keeps."""
        super().bind(number, bind_plays.NODES[number], replica)

    def release_all(self) -> None:
        super().release_all()
        self.replicas[0].settled(after=orphaned_placements.PLANNED)

    def check_log(self) -> None:
        """Each set was placed whole, each pod decided about once; the Bindings carry just that."""
        decided, fold = pod_set_law.Decided(), plain_fold.Fold()
        for entry in self.replicas[0].store.log.read(0, limit=100_000):
            assert pod_set_law.problem(entry.event, fold) == ""
            decided.note(entry.event)
            fold.apply(entry.event)
        for made in sent(self.shop):
            assert decided.problem(made["uid"], made["resourceVersion"], made["annotations"]) == ""


RETRIED: list[bind_plays.Step] = [
    ("offer", 0, 0),
    ("late",),
    ("bind", 0, "", 0),
    ("touch", 0),
    ("bind", 0, "", 1),
    ("bind", 1, "", 1),
    ("arrive",),
]
"""A Binding of a pod set arrives after the pod was bound for another version by another replica."""

TAKEN: list[bind_plays.Step] = [
    ("bind", 2, "", 0),
    ("put", 3),
    ("bind", 3, "", 1),
    ("see",),
    ("bind", 3, "", 0),
]
"""Another client binds a planned pod to its seat."""

REPLACED: list[bind_plays.Step] = [
    ("bind", 0, "", 0),
    ("recreate", 1),
    ("bind", 1, "", 1),
    ("see",),
    ("bind", 1, "", 0),
]
"""A planned pod is replaced by one of its name."""


@settings(max_examples=sizes.examples(50), deadline=None)
@example(steps=RETRIED)
@example(steps=TAKEN)
@example(steps=REPLACED)
@given(steps=bind_plays.steps)
def test_a_plan_is_committed_whole_and_decided_once(
    store_server: embedded.Server, steps: list[bind_plays.Step]
) -> None:
    with replicas.cluster(store_server.url, f"p{secrets.token_hex(6)}") as shop:
        play = Play(shop)
        for step in steps:
            play.step(*step)
        play.check_log()
        play.end()
        play.check_log()


def test_the_law_of_pod_sets_excuses_no_binding_of_a_version_that_the_log_does_not_name() -> None:
    assert pod_set_law.Decided().problem("uid", "7", {}) == "uid: () was decided, {} is written"
