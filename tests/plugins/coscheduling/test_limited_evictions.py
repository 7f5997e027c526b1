"""The evictions for a group under a policy, against every arrangement on small clusters (PR 8, CS 18)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from app.domain import model
from app.plugins.coscheduling.planner import other_plugins
from tests.support.campaigns import sizes
from tests.support.decisions import call_counts, limited_evictions, small_gangs
from tests.support.decisions.group_evictions import GROUP
from tests.support.decisions.limited_evictions import LIMITED, LimitedCase


def judged(seeds: Iterable[int]) -> Counter[str]:
    """How many groups go with evictions, without, and not at all."""
    outcomes = Counter[str]()
    for seed in seeds:
        case = limited_evictions.generated(seed)
        found, preempting = case.answers()
        assert not case.problem(found, preempting=preempting), (seed, found)
        outcomes["none" if not any(found) else "evicting" if preempting else "beside"] += 1
    return outcomes


@pytest.mark.parametrize("block", range(4))
def test_no_pod_goes_for_nothing_and_no_group_waits_that_could_go(block: int) -> None:
    outcomes = judged(range(block * 100, block * 100 + 100))
    assert min(outcomes[name] for name in ("none", "evicting", "beside")) > 5


@pytest.mark.campaign
def test_no_pod_goes_for_nothing_and_no_group_waits_that_could_go_in_any_case() -> None:
    first = sizes.first_seed()
    judged(range(first, first + sizes.of("EVICTIONS", 20_000)))


def test_a_group_goes_of_which_others_than_the_first_members_do_less_harm() -> None:
    """Two of four are needed, and the third needs less capacity than the second."""
    judged([58_825])


def case_of(nodes: dict[str, int], running: list[model.Pod], members: list[model.Pod]) -> LimitedCase:
    """Each node is an area that takes one pod of the policy."""
    areas = {name: name for name in nodes}
    return LimitedCase(
        nodes, running, members, areas=areas, quotas=dict.fromkeys(nodes, 1), minimum=len(members)
    )


def running(name: str, node: str, cpu: int, priority: int = 0) -> model.Pod:
    return small_gangs.pod(name, cpu, node=node, priority=priority, started="2026-01-01T00:00:00Z")


def member(number: int, cpu: int) -> model.Pod:
    return small_gangs.pod(f"m{number}", cpu, group="g", priority=GROUP, labels=LIMITED)


def test_the_least_harm_is_that_of_the_arrangements_that_the_policy_admits() -> None:
    """Both fit on n0, where the least important pod runs, but only one of them is admitted there."""
    low = [running("a", "n0", 8, 0), running("b", "n1", 8, 2), running("c", "n2", 8, 1)]
    case = case_of({"n0": 8, "n1": 8, "n2": 8}, low, [member(0, 4), member(1, 4)])
    assert sorted(case.answers()[0]) == ["n0", "n2"]


def test_a_gang_is_placed_where_only_one_arrangement_is_admitted() -> None:
    """The large one takes the large node, and the policy admits no other member beside it."""
    members = [member(0, 2), member(1, 6)]
    case = case_of({"n0": 8, "n1": 3}, [], members)
    assert case.answers() == (["n1", "n0"], False)


def hopeless(count: int) -> tuple[small_gangs.Cluster, list[model.Pod]]:
    """So many members on as many nodes with capacity for two each, of which the policy admits one fewer."""
    members = [member(number, 4) for number in range(count)]
    case = case_of({f"n{at:02}": 8 for at in range(count)}, [], members)
    return replace(case, quotas={**case.quotas, "n00": 0}).cluster(), members


@pytest.mark.parametrize(("count", "least", "most"), [(16, 50, 100), (33, 0, 0)])
def test_arrangements_are_tried_within_bounds(count: int, least: int, most: int) -> None:
    small, members = hopeless(count)
    with call_counts.counted(other_plugins.Beside, "plus") as tried:
        found = small.filter(members[0], list(small.snapshot.nodes), offered=True)
    assert not found.kept
    assert "gang native/x/g: workload policy x/limit: no capacity" in found.reasons()["n01"]
    assert least <= tried.call_count <= most


def test_members_of_many_kinds_are_arranged_on_nodes_for_one_each() -> None:
    """As above, beside members each of which is tried on all nodes that others have taken."""
    nodes = {"n0": 8, "n1": 3, **{f"o{at:02}": 4 for at in range(22)}}
    others = [
        small_gangs.pod(f"o{at:02}", 4, group="g", priority=GROUP, labels={**LIMITED, "index": str(at)})
        for at in range(22)
    ]
    case = case_of(nodes, [], [member(0, 2), member(1, 6), *others])
    found, preempting = replace(case, quotas={**dict.fromkeys(nodes, 5), "n0": 1}).answers()
    assert found[:2] == ["n1", "n0"]
    assert sorted(found) == sorted(nodes)
    assert not preempting


def test_needed_members_are_placed_whose_sizes_and_nodes_differ() -> None:
    """Largest first, the nearest node goes to the one that could take the other node, too."""
    members = [
        small_gangs.pod("m0", 4, group="g", priority=GROUP),
        member(1, 1),
        member(2, 4),
        member(3, 3),
    ]
    case = replace(case_of({"n0": 6, "n1": 4}, [], members), minimum=3, quotas={"n0": 3})
    assert case.answers() == (["n1", "n0", "n0", ""], False)


def test_members_beyond_the_minimum_go_if_evictions_free_capacity_for_all() -> None:
    """Three of the four would do less harm."""
    case = limited_evictions.generated(1269)
    found, preempting = case.answers()
    assert preempting
    assert len([name for name in found if name]) == 4 > case.minimum
