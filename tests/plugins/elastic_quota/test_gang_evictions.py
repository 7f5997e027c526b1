"""What the controller evicts for quotas where gangs wait, or hold what a quota uses too much."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import model, snapshots
from app.plugins.coscheduling import gangs, options
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import scheduling_driver, small_gangs, small_quotas
from tests.support.decisions.quota_evictions import (
    EVICTING,
    judged,
    names,
    pod,
    refusal,
    renewed,
    view,
    wanted,
)

ABOVE = ElasticQuota(runtime=False, overuse="evict")


def cluster(*things: scheduling_driver.Thing, rules: ElasticQuota = EVICTING) -> scheduling_driver.Cluster:
    """A cluster in which quotas and gangs decide."""
    return scheduling_driver.Cluster(*things, configured=[rules, Coscheduling()])


def member(name: str, gang: str, minimum: int, cpu: int) -> model.Pod:
    """A member that waits, of a gang whose quota is q."""
    marks = {options.NAME: gang, options.MINIMUM: str(minimum)}
    return pod(name, cpu, "q", priority=9, annotations=marks)


def running(name: str, gang: str, minimum: int, cpu: int, priority: int) -> model.Pod:
    """A member on n1."""
    marks = {options.NAME: gang, options.MINIMUM: str(minimum)} if gang else {}
    return pod(name, cpu, "q", "n1", priority, annotations=marks, phase="Running")


def test_nothing_is_evicted_for_a_gang_that_would_still_wait() -> None:
    labels = {membership.LABEL: "q"}
    members = [
        msgspec.structs.replace(one, labels=labels, priority=9, unscheduled=refusal("q"))
        for one in small_gangs.gang("g", 2, 4)
    ]
    small = cluster(
        *(small_gangs.node(f"n{number}", 8) for number in range(3)),
        small_quotas.quota("q", 0, 8),
        *(pod(f"low{number}", 4, "q", f"n{number}") for number in range(2)),
        *members,
    )
    assert names(wanted(small, changes=judged(small))) == []
    # One that waits behind the gang is helped.
    small.see(pod("late", 4, "q", priority=9, created="2026-01-02T00:00:00Z"))
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/late", ["low0"])]
    # One victim is enough for the gang.
    small.see(pod("low0", 8, "q", "n0"))
    small.gone(pod("low1", 4, "q"))
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/g0", ["low0"])]


@pytest.mark.scenario("EQ-26")
@pytest.mark.parametrize(("most", "fits"), [(4, 0), (8, 1), (9, 1)])
def test_a_gang_is_judged_as_a_whole_however_many_members_the_quota_admits(most: int, fits: int) -> None:
    """Without "low" the quota has capacity for both, at first for none or one."""
    members = [member(f"g{number}", "g", 2, 4 if fits else 2) for number in range(2)]
    small = cluster(
        *(small_gangs.node(name, 8) for name in ("n0", "n1")),
        small_quotas.quota("q", 0, most),
        pod("low", 4, "q", "n0"),
        *members,
    )
    (found,) = wanted(small, changes=judged(small)) or ()
    assert names([found]) == [("elastic quota q: pod x/g0", ["low"])]
    assert renewed(found, small) == found
    small.see(pod("low", 4, "q", "n0", terminating=True))
    assert renewed(found, small) is None
    assert wanted(small, changes=judged(small)) == ()


@pytest.mark.scenario("EQ-26")
def test_members_beyond_the_minimum_do_not_make_others_go() -> None:
    """The quota has capacity for the two that are needed."""
    members = [member(f"g{number}", "g", 2, 4) for number in range(3)]
    small = cluster(
        small_gangs.node("n0", 16), small_quotas.quota("q", 0, 12), pod("low", 4, "q", "n0"), *members
    )
    assert wanted(small, changes=judged(small)) == ()


@pytest.mark.scenario("EQ-26")
def test_a_gang_of_several_sizes_takes_what_terminates_once() -> None:
    """The launcher and the worker wait for it. The last pod gets what they leave of the quota."""
    small = cluster(
        *(small_gangs.node(name, 16) for name in ("n0", "n1")),
        small_quotas.quota("q", 0, 10),
        pod("going", 6, "q", "n0", terminating=True),
        pod("low", 2, "q", "n1", priority=1),
        member("g0", "g", 2, 2),
        member("g1", "g", 2, 4),
        pod("last", 2, "q", priority=9, created="2026-01-02T00:00:00Z"),
    )
    assert wanted(small, changes=judged(small)) == ()
    small.see(pod("last", 3, "q", priority=9, created="2026-01-02T00:00:00Z"))
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/last", ["low"])]


@pytest.mark.scenario("EQ-19")
@pytest.mark.parametrize("others", [(), ("other",), ("other", "more")], ids=len)
def test_above_a_runtime_others_go_in_place_of_pods_that_a_gang_protects(others: tuple[str, ...]) -> None:
    """The gang holds the least important pods, and needs all of them."""
    held = [running(f"g{number}", "g", 3, 4, number) for number in range(3)]
    rest = [running(name, "", 0, 4, at) for at, name in enumerate(others, 3)]
    small = cluster(
        small_gangs.node("n1", 64),
        small_quotas.quota("q", 0, 4 * len((*held, *rest)) - 4),
        *held,
        *rest,
        rules=ABOVE,
    )
    (found,) = wanted(small, ABOVE, judged(small)) or ()
    assert [one.name for one in found.pods] == (["other"] if others else ["g0"])
    assert renewed(found, small) == found
    shown = view(small, "q", ABOVE)["overuse"]
    assert isinstance(shown, list)
    assert [one["name"] for one in shown] == ["g0"], "by the quota alone"


@pytest.mark.scenario("EQ-19")
def test_above_a_runtime_a_gang_goes_that_goes_as_a_whole() -> None:
    held = [running(f"g{number}", "g", 2, 4, number) for number in range(2)]
    small = cluster(
        small_gangs.node("n1", 64),
        small_quotas.quota("q", 0, 4),
        *held,
        running("other", "", 0, 4, 9),
        rules=ABOVE,
    )
    (found,) = wanted(small, ABOVE, judged(small)) or ()
    assert [one.name for one in found.pods] == ["g0", "g1"]


@pytest.mark.scenario("EQ-19")
def test_above_a_runtime_members_beyond_the_minimum_go() -> None:
    held = [running(f"g{number}", "g", 2, 4, number) for number in range(3)]
    small = cluster(small_gangs.node("n1", 64), small_quotas.quota("q", 0, 4), *held, rules=ABOVE)
    (found,) = wanted(small, ABOVE, judged(small)) or ()
    assert [one.name for one in found.pods] == ["g0", "g1"], "the controller evicts the first that may go"
    assert small.plugins.protected(small.snapshot, found.pods[:1]) == set()


@pytest.mark.scenario("EQ-26")
@pytest.mark.parametrize(("low", "middle"), [(5, 0), (2, 4)])
def test_a_member_that_waits_for_what_terminates_counts_once_beside_one_that_does_not(
    low: int, middle: int
) -> None:
    """Three equal pods of two gangs take what terminates. The last pod lacks three cores."""
    owners = (model.Owner(kind="JobSet", name="j", uid="j", controller=True),)
    members = [member(name, name[0], 2, 2) for name in ("a0", "a1", "b0")]
    members.append(msgspec.structs.replace(member("b1", "b", 2, 3), created="2026-01-02T00:00:00Z"))
    small = cluster(
        *(small_gangs.node(name, 32) for name in ("n0", "n1", "n2")),
        small_quotas.quota("q", 0, 2 * (low + middle) + 6),
        pod("going", 6, "q", "n0", terminating=True),
        *(pod(f"low{number}", 2, "q", "n1", priority=1) for number in range(low)),
        *(pod(f"mid{number}", 2, "q", "n2", priority=5) for number in range(middle)),
        *(msgspec.structs.replace(one, owners=owners) for one in members),
    )
    going = [f"low{low - 1}", f"low{low - 2}"]
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/b1", going)]


@pytest.mark.scenario("EQ-26")
def test_a_member_beyond_the_minimum_is_planned_with_one_that_waits_for_what_terminates() -> None:
    late = msgspec.structs.replace(member("g2", "g", 2, 2), created="2026-01-02T00:00:00Z")
    small = cluster(
        *(small_gangs.node(name, 32) for name in ("n0", "n1")),
        small_quotas.quota("q", 0, 9),
        pod("going", 7, "q", "n0", terminating=True),
        pod("low", 2, "q", "n1", priority=1),
        member("g0", "g", 2, 3),
        member("g1", "g", 2, 4),
        late,
    )
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/g2", ["low"])]


@pytest.mark.scenario("EQ-26")
def test_a_nominated_member_of_a_gang_that_waits_for_what_terminates_counts_once() -> None:
    """The gang and the next pod get what terminates. The last pod lacks three cores."""
    nominated = msgspec.structs.replace(member("g1", "g", 2, 2), priority=5, nominated="n0")
    small = cluster(
        *(small_gangs.node(name, 32) for name in ("n0", "n1")),
        small_quotas.quota("q", 0, 10),
        pod("going", 6, "q", "n0", terminating=True),
        *(pod(f"low{number}", 2, "q", "n1", priority=1) for number in range(2)),
        member("g0", "g", 2, 2),
        nominated,
        pod("next", 2, "q", priority=5, created="2026-01-02T00:00:00Z"),
        pod("last", 3, "q", priority=5, created="2026-01-03T00:00:00Z"),
    )
    found = names(wanted(small, changes=judged(small)))
    assert found == [("elastic quota q: pod x/last", ["low1", "low0"])]


@pytest.mark.scenario("EQ-19")
def test_the_seats_of_a_gang_are_read_once_for_all_pods_that_it_protects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = list[object]()

    class Seats(tuple[gangs.Seat, ...]):
        def __iter__(self) -> Iterator[gangs.Seat]:
            reads.append(self)
            return super().__iter__()

    def find(snapshot: snapshots.Snapshot, key: GangKey) -> gangs.Gang | None:
        found = real(snapshot, key)
        return found and dataclasses.replace(found, seats=Seats(found.seats))

    real = gangs.find
    held = [running(f"g{number}", "g", 9, 1, number) for number in range(9)]
    small = cluster(small_gangs.node("n1", 64), *held, rules=ABOVE)
    monkeypatch.setattr(gangs, "find", find)
    assert all(small.plugins.protected(small.snapshot, [one]) for one in held)
    assert len(reads) == 2
