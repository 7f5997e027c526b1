"""A group whose members are nominated already breaks up no gang (decision 47)."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.campaigns import sizes
from tests.support.decisions import group_cycles


def judged(seeds: Iterable[int]) -> Counter[str]:
    """How many groups are bound, preempt, and wait."""
    outcomes = Counter[str]()
    for seed in seeds:
        outcome, broken = group_cycles.generated(seed).outcome()
        assert not broken, (seed, broken)
        outcomes[outcome] += 1
    return outcomes


@pytest.mark.parametrize("block", range(4))
def test_no_gang_is_broken_up_for_members_that_are_nominated(block: int) -> None:
    outcomes = judged(range(block * 1000, block * 1000 + sizes.examples(250)))
    assert min(outcomes[name] for name in ("bound", "preempts", "none")) > 10


@pytest.mark.campaign
def test_no_gang_is_broken_up_for_members_that_are_nominated_in_any_case() -> None:
    first = sizes.first_seed()
    judged(range(first, first + sizes.of("GROUP_CYCLES", 20_000)))


@pytest.mark.campaign
def test_rules_that_are_not_modelled_seldom_break_up_a_gang() -> None:
    """They reject a fifth of all nodes: kube-scheduler then preempts for nodes of several plans."""
    first, count = sizes.first_seed(), sizes.of("GROUP_CYCLES", 20_000)
    cycles = (group_cycles.generated(seed, modelled=False) for seed in range(first, first + count))
    assert sum(bool(one.outcome()[1]) for one in cycles) < count / 500


@pytest.mark.parametrize("seed", [760, 2033, 3900])
def test_a_group_that_once_broke_up_a_gang(seed: int) -> None:
    """More members were nominated for a node than it takes, or for others than those of the plan."""
    judged([seed])
