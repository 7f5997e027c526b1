"""What is in a history: it follows from the seed, so that each kind of history is one of every few seeds."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """What happens in one history, beside that which happens in all."""

    steady: bool
    """Only pods change."""
    fails_over: bool
    """The store loses events."""
    selected: bool
    """Some pods are counted by policies that they do not name, there are two policies, and another scheduler
    binds pods, too.
    """
    planning: bool
    """Most pods belong to a set whose pods are placed together."""
    relabelling: bool
    """A pod of such a set may be changed so that its policy does not select it."""
    gathering: bool
    """Most pods belong to a gang, and capacity is scarce."""
    sharing: bool
    """Most pods belong to an elastic quota."""
    deep: bool
    """The tree of quotas has another layer, which is as tight as the teams below it, and most pods are of one
    team.
    """
    guaranteeing: bool
    """What quotas use counts as their min; the mins of the teams exceed the max of the quota above them."""
    narrowing: bool
    """A quota may be lowered while a placement of one of its pods is about to be appended."""
    evicting: bool
    """Pods of quotas have priorities, and budgets protect some: a controller evicts for quotas."""
    preempting: bool
    """Pods have priorities, and there are groups of kube-scheduler's own, which preempts."""
    falling_back: bool
    """A server that was demoted may be promoted again with older data."""
    orphaning: bool
    """A Binding may arrive before its fence."""
    arriving: bool
    """A pod may be bound to a node that no recorder has recorded, while the store does not answer."""
    labelling: bool
    """Users label pods into policies and quotas, or out of them, while they are bound or the log is late."""


def drawn(seed: int, rng: random.Random) -> Traits:
    """The traits of the seed; the first two are drawn from its generator."""
    steady, fails_over = rng.random() < 0.5, rng.random() < 0.35
    # From the seed, not from the generator, so that the histories of other seeds stay the same.
    deep, preempting = seed % 16 == 0, seed % 16 == 10
    return Traits(
        steady=steady,
        fails_over=fails_over,
        selected=seed % 4 == 3,
        planning=seed % 8 == 5,
        relabelling=seed % 16 == 13,
        gathering=seed % 8 == 1 or seed % 16 == 14 or preempting,
        sharing=seed % 8 == 6 or seed % 32 == 26 or deep,
        deep=deep,
        guaranteeing=seed % 32 == 16,
        narrowing=seed % 32 == 22,
        evicting=seed % 32 == 6,
        preempting=preempting,
        falling_back=seed % 8 == 2 and fails_over,
        # Where a store loses events, no Binding is in flight for that long.
        orphaning=seed % 8 == 4 and not fails_over,
        arriving=seed % 16 == 8 and not steady and not fails_over,
        labelling=(seed % 8 == 7 or seed % 32 in (17, 28, 30)) and not steady,
    )
