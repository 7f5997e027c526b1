"""Reasons and remarks about gangs: they state what keeps the gang waiting, and nothing that does not."""

import msgspec

from app.framework import cycles
from app.plugins.coscheduling import endpoints
from app.plugins.coscheduling.plugin import Coscheduling
from tests.support.decisions.gang_effects import everything, posted
from tests.support.decisions.small_gangs import Cluster, defined, gang, node

BOTH = '["x/a", "x/b"]'


def shown(small: Cluster, name: str) -> tuple[str, str]:
    """The reason and what is missing in the view of a gang."""
    found = defined(small, name)
    question, plan = endpoints.planned(Coscheduling(), small.snapshot, found, cycles.ALONE)
    return plan.reason, endpoints.missing(found, question, plan)


def test_members_that_run_are_no_shortage_for_only_waiting() -> None:
    four = gang("g", 4, match_policy="only-waiting")
    small = Cluster(node("n1", 64), *four)
    for one in four[:3]:
        small.run(one, "n1")
    reason = "gang koordinator/x/g: 1 of 4 members wait; those that run do not count (only-waiting)"
    assert small.why(four[3]) == reason
    assert shown(small, "g") == (reason, "")
    assert posted(everything(small)) == [("x/g3", reason)]
    small.run(four[3], "n1")
    assert shown(small, "g") == ("", "")
    extra = msgspec.structs.replace(four[0], name="g4", uid="uid-x-g4")
    small.see(extra)
    assert small.why(extra) == reason


def test_a_seat_that_is_not_bound_counts_for_only_waiting() -> None:
    four = gang("g", 4, minimum=3, match_policy="only-waiting")
    small = Cluster(node("n1", 3), *four)
    small.commit(four[0], "n1")
    small.run(four[0], "n1")
    assert shown(small, "g") == (
        "gang koordinator/x/g: no capacity for 1 member",
        "0 of 1 seats in the cluster; cpu 1 of 1 missing",
    )


def test_a_gang_is_refused_for_another_one_of_its_group_of_which_all_members_run() -> None:
    a, b = gang("a", 2, groups=BOTH), gang("b", 2, groups=BOTH, match_policy="only-waiting")
    small = Cluster(node("n1", 64), *a, *b)
    for one in b:
        small.run(one, "n1")
    reason = "gang koordinator/x/b: 0 of 2 members wait; those that run do not count (only-waiting)"
    assert small.why(a[0]) == reason
    assert posted(everything(small)) == [("x/a0", reason)]
    assert shown(small, "b") == (reason, "")


def test_what_another_gang_of_the_group_lacks_in_members_is_no_shortage() -> None:
    a, b = gang("a", 2, groups=BOTH), gang("b", 2, groups=BOTH)
    small = Cluster(node("n1", 64), *a, b[0])
    assert shown(small, "a") == ("gang koordinator/x/b: 1 of 2 members exist", "")
