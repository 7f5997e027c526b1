"""The seats of a gang that is given up: released together, or not at all, whatever binds do meanwhile."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.framework import effects, plans
from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation import populations
from app.simulation.apiserver import faults
from app.store import errors
from app.store.log import batches
from app.store.server import embedded
from app.verbs import contexts, placement_releases
from tests.support.extender import replicas
from tests.support.kube import fake_clock
from workers.controller import executors
from workers.controller.placements import joint_releases

GANG = {membership.SIGS_LABEL: "g"}
BINDING = faults.calls("POST", "/binding")


class Gang:
    """A gang of four with a seat each, but for the first member, whose Binding was refused."""

    def __init__(self, shop: replicas.Cluster) -> None:
        self.shop = shop
        node = populations.node("n1", {})
        node["status"]["allocatable"] = {"cpu": "8", "pods": "110"}
        shop.api.objects.create("nodes", node)
        definition = {"metadata": {"namespace": "shop", "name": "g"}, "spec": {"minMember": 4}}
        shop.api.objects.create("sigspodgroups", definition)
        self.members = [self.pod(f"g-{at}") for at in range(4)]
        shop.see()
        self.one, self.other = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        self.one.snapshot()
        shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=403)
        before = self.one.snapshot()
        assert self.one.bind(self.members[0], "n1") != ""
        after = self.one.snapshot()
        happened = tuple(entry.event for entry in self.one.store.log.read(before.offset))
        found = Coscheduling().reconcile(after, effects.Changes(before, happened))
        (self.given_up,) = [one for one in found if isinstance(one, effects.ReleasePlacements)]
        assert self.seats() == {"g-1", "g-2", "g-3"} == self.planned()

    def pod(self, name: str) -> model.Pod:
        containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]
        return self.shop.pod(name, GANG, containers=containers)

    def seats(self) -> set[str]:
        return {made.pod.name for made in self.one.snapshot().placements.values()}

    def planned(self) -> set[str]:
        return {made.pod.name for made in self.one.snapshot().placements.values() if made.planned}

    def release(self, state: contexts.State | None = None) -> int | None:
        """What the controller does; ``state``: what it reads."""
        assert self.given_up.renewed is not None
        reads = self.one.context.state if state is None else state
        return placement_releases.release_together(reads, self.one.context.log, self.given_up.renewed)


class Meanwhile(replicas.Behind):
    """A state after whose first read something happens, which that read does not have."""

    def __init__(self, replica: replicas.Replica, happen: Callable[[], object]) -> None:
        super().__init__(replica)
        happen()


@pytest.fixture
def gang(store_server: embedded.Server, cluster: str) -> Iterator[Gang]:
    with replicas.cluster(store_server.url, cluster) as shop:
        yield Gang(shop)


@pytest.mark.scenario("CS-4")
def test_all_seats_are_released_in_one_append(gang: Gang) -> None:
    before = gang.one.snapshot().offset
    assert gang.release() == 3
    assert gang.seats() == set()
    entries = gang.one.store.log.read(before)
    assert [entry.event.cause for entry in entries if isinstance(entry.event, events.PlacementReleased)] == [
        "unbound"
    ] * 3
    assert len({entry.at_ms for entry in entries}) == 1
    assert gang.release() == 0


@pytest.mark.scenario("CS-4")
def test_a_seat_that_a_bind_takes_over_between_read_and_append_keeps_all(gang: Gang) -> None:
    """The Binding has no outcome yet, so nothing is released; once the watch shows it, all others stay."""

    def taken_over() -> None:
        gang.shop.api.faults.add(faults.FaultKind.LOSE, BINDING)
        gang.other.bind(gang.members[2], "n1")

    state = Meanwhile(gang.one, taken_over)
    assert gang.release(state) is None
    assert gang.seats() == {"g-1", "g-2", "g-3"}
    assert gang.planned() == {"g-1", "g-3"}
    assert gang.shop.bound(gang.members[2]) == "n1"
    gang.shop.see()
    assert gang.release() == 0
    assert gang.planned() == {"g-1", "g-3"}


def test_seats_go_once_a_binding_that_was_under_way_is_refused(gang: Gang) -> None:
    gang.shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=504)
    assert "not known" in gang.other.bind(gang.members[2], "n1")
    assert gang.release() is None
    assert gang.planned() == {"g-1", "g-3"}
    assert gang.other.settled() == 1
    assert gang.release() == 2


@pytest.mark.parametrize("recorded", [True, False])
def test_a_member_without_a_seat_that_is_placed_between_read_and_append_keeps_all(
    gang: Gang, recorded: bool
) -> None:
    """With the member that lost its seat the gang is whole; one that is new is bound first."""
    member = gang.members[0]

    def placed() -> None:
        assert gang.other.bind(member, "n1") == ""

    if not recorded:
        gang.shop.delete(member)
        gang.shop.see()
        member = gang.pod("g-4")
        gang.other.offer(member)
    assert not gang.release(Meanwhile(gang.one, placed))
    assert gang.planned() == {"g-1", "g-2", "g-3"}


def test_a_member_that_another_scheduler_binds_between_read_and_append_keeps_all(gang: Gang) -> None:
    def bound() -> None:
        gang.shop.put(gang.members[0], "n1")
        gang.shop.see()

    assert gang.release(Meanwhile(gang.one, bound)) == 0
    assert gang.planned() == {"g-1", "g-2", "g-3"}


def test_a_bind_does_not_take_over_a_seat_that_is_released_meanwhile(gang: Gang) -> None:
    gang.other.context = replicas.with_state(
        gang.other, Meanwhile(gang.other, functools.partial(gang.release))
    )
    assert gang.seats() == set()
    # The gang is placed again as a whole, which has capacity.
    assert gang.other.bind(gang.members[1], "n1") == ""
    assert gang.seats() == {"g-0", "g-1", "g-2", "g-3"}
    assert gang.planned() == {"g-0", "g-2", "g-3"}


def test_seats_stay_while_the_store_may_have_lost_that_a_bind_took_one_over(gang: Gang) -> None:
    restarted = events.StoreRestarted(by="r", before="a", after="b")
    gang.one.store.log.append(batches.Batch(events=(restarted,)))
    assert gang.release() is None
    assert gang.planned() == {"g-1", "g-2", "g-3"}


def test_without_the_store_the_seats_stay(gang: Gang) -> None:
    class Away(replicas.Behind):
        def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
            raise errors.StoreAway(f"not within {timeout} s")

    assert gang.release(Away(gang.one)) is None
    assert gang.planned() == {"g-1", "g-2", "g-3"}


def test_a_release_that_is_not_possible_yet_is_tried_again(gang: Gang) -> None:
    """Until it is done, or is not wanted any more."""
    answers: list[int | None] = [None, None, 3, 0]
    releases = joint_releases.JointReleases(lambda _: answers.pop(0), lambda: "1")
    assert releases.submit(gang.given_up, "1")
    assert not releases.submit(gang.given_up, "1")
    assert [releases.run_once() for _ in range(4)] == [0, 0, 3, 0]
    assert answers == [0]
    assert releases.submit(gang.given_up, "1")
    assert releases.run_once() == 0
    assert answers == []


def test_of_equal_requests_the_latest_decides_what_is_wanted(gang: Gang) -> None:
    """It was computed from the latest state."""
    asked = list[str]()

    def wanted(request: str, _: snapshots.Snapshot) -> None:
        asked.append(request)

    context = gang.one.context
    release = functools.partial(placement_releases.release_together, context.state, context.log)
    releases = joint_releases.JointReleases(release, lambda: "1")
    for request in ("first", "second"):
        renewed = functools.partial(wanted, request)
        releases.submit(dataclasses.replace(gang.given_up, renewed=renewed), "1")
    releases.run_once()
    assert asked == ["second"]


def test_a_request_that_is_made_again_before_its_turn_is_released_later(gang: Gang) -> None:
    """Its time begins again, also while another release takes its own."""
    clock, asked = fake_clock.VirtualClock(), list[joint_releases.Renewed]()
    first, second = (
        dataclasses.replace(gang.given_up, after=15, awaited=pod.uid, renewed=lambda _: None)
        for pod in gang.members[:2]
    )

    def release(renewed: joint_releases.Renewed) -> int:
        asked.append(renewed)
        if len(asked) == 1:
            clock.now += 1
            assert not releases.submit(second, "1")
        return 0

    releases = joint_releases.JointReleases(release, lambda: "1", clock)
    assert releases.submit(first, "1")
    assert releases.submit(second, "1")
    clock.now += 15
    releases.run_once()
    assert len(asked) == 1
    clock.now += 15
    releases.run_once()
    assert len(asked) == 2


@pytest.mark.scenario("CS-4")
def test_a_release_is_due_some_time_after_its_latest_request(gang: Gang) -> None:
    """Another seat of the gang may move meanwhile."""
    clock, asked = fake_clock.VirtualClock(), list[joint_releases.Renewed]()
    releases = joint_releases.JointReleases(asked.append, lambda: "1", clock)
    later = dataclasses.replace(gang.given_up, after=15, awaited=gang.members[0].uid)
    assert releases.submit(later, "1")
    clock.now += 14
    assert not releases.submit(later, "1")
    for _ in range(2):
        assert releases.run_once() == 0
        assert asked == []
        clock.now += 14
    releases.run_once()
    assert len(asked) == 1
    releases.run_once()
    assert len(asked) == 2, "it was not possible yet"
    assert releases.submit(gang.given_up, "1")
    releases.run_once()
    assert len(asked) == 4


def test_nothing_is_looked_up_for_a_release_that_may_not_be_wanted(gang: Gang) -> None:
    """A member whose Binding is under way is not fenced while another one moves."""
    looked_up = list[str]()
    unused: Any = None
    releases = joint_releases.JointReleases(lambda _: 0, lambda: "1")

    def look_up(uid: str, *_: object) -> bool:
        looked_up.append(uid)
        return True

    executor = executors.Executor(unused, unused, unused, unused, look_up, releases, lambda: "1")
    snapshot = gang.one.snapshot()
    for uid in gang.given_up.pods:
        placement = msgspec.structs.replace(snapshot.placements[uid], planned=False)
        snapshot = projections.project(snapshot, events.PlacementsCommitted(placements=(placement,)))
    executor.submit(dataclasses.replace(gang.given_up, after=15), snapshot)
    assert looked_up == []
    executor.submit(gang.given_up, snapshot)
    assert looked_up == list(gang.given_up.pods)


def test_a_request_that_comes_during_a_release_is_kept(gang: Gang) -> None:
    """It may be computed from a later state than the one in which nothing was released."""
    asked: list[bool] = []

    def release(_: joint_releases.Renewed) -> int:
        if not asked:
            releases.submit(gang.given_up, "1")
        asked.append(True)
        return 0

    releases = joint_releases.JointReleases(release, lambda: "1")
    releases.submit(gang.given_up, "1")
    for _ in range(3):
        releases.run_once()
    assert len(asked) == 2


def test_a_request_ends_with_the_leadership_in_which_it_was_computed(gang: Gang) -> None:
    """The next one computes what is wanted then."""
    term, asked = ["1"], list[joint_releases.Renewed]()
    releases = joint_releases.JointReleases(asked.append, lambda: term[0])
    releases.submit(gang.given_up, "1")
    term[0] = "2"
    releases.run_once()
    term[0] = "1"
    releases.run_once()
    assert asked == []


def test_a_request_is_kept_while_its_plugin_fails(gang: Gang) -> None:
    failing = [True]

    def renewed(snapshot: snapshots.Snapshot) -> effects.ReleasePlacements | None:
        if failing:
            raise ValueError(failing.pop())
        assert gang.given_up.renewed is not None
        return gang.given_up.renewed(snapshot)

    context = gang.one.context
    release = functools.partial(placement_releases.release_together, context.state, context.log)
    releases = joint_releases.JointReleases(release, lambda: "1")
    releases.submit(dataclasses.replace(gang.given_up, renewed=renewed), "1")
    assert [releases.run_once() for _ in range(3)] == [0, 3, 0]


def test_all_placements_of_the_largest_commitment_are_released_in_one_append(gang: Gang) -> None:
    """A thousand, each on a node of its own."""
    pods = [
        model.Pod(uid=f"uid-{at}", namespace="shop", name=f"large-{at}") for at in range(plans.MAX_PLACEMENTS)
    ]
    placements = tuple(
        model.Placement(pod, f"node-{at}", planned=True, data={"Coscheduling": {"gang": "sigs/shop/large"}})
        for at, pod in enumerate(pods)
    )
    made = events.PlacementsCommitted(placements=placements)
    before = gang.one.snapshot()
    projection = projections.Projection(before)
    projection.apply(made)
    gang.one.store.log.append(batches.Batch(events=(made,), increments=projection.increments))

    def renewed(snapshot: snapshots.Snapshot) -> effects.ReleasePlacements:
        uids = tuple(pod.uid for pod in pods)
        return effects.ReleasePlacements(uids, "of a test", subjects=tuple(f"pod:{uid}" for uid in uids))

    context = gang.one.context
    assert placement_releases.release_together(context.state, context.log, renewed) == len(pods)
    assert gang.seats() == {"g-1", "g-2", "g-3"}
    assert len({entry.at_ms for entry in gang.one.store.log.read(before.offset + 1, limit=2000)}) == 1
