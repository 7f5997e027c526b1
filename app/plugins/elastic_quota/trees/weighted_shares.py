"""Divides one resource of a parent between its children.

Each child first gets its base, or its request if that is smaller and the child lends. What is left is
divided by weight between the children whose request is larger than their base, in rounds: a child that
reaches its request is cut to it, and the excess is divided again. The rule is Koordinator's
(runtime_quota_calculator.go); all amounts are integers, and every round hands out exactly what was left.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Members(NamedTuple):
    """The children of one parent in one resource, each tuple in the same order: what their quotas state."""

    names: tuple[str, ...]
    """They break ties between equal remainders."""
    minimums: tuple[int, ...]
    weights: tuple[int, ...]
    lends: tuple[bool, ...]
    """A child that does not lend keeps its base even if it requests less."""


class Round(NamedTuple):
    """One round: how much was left, and what each open child got of it before it was cut to its request."""

    left: int
    shares: dict[int, int]
    """Place of an open child among the members -> its share."""


class Shares(NamedTuple):
    """The outcome, each tuple in the order of the members."""

    scaled: tuple[int, ...]
    """The mins, scaled down if the total is smaller than their sum."""
    bases: tuple[int, ...]
    runtimes: tuple[int, ...]
    """A guarantee may take one over the max of its member, which then may use no more than max."""
    rounds: tuple[Round, ...]


def scaled_minimums(total: int, minimums: Sequence[int]) -> tuple[int, ...]:
    """The mins in proportion to a total that is smaller than their sum; 0 if there is no total."""
    wanted = sum(minimums)
    if total >= wanted:
        return tuple(minimums)
    if total <= 0:
        return (0,) * len(minimums)
    return tuple([total * minimum // wanted for minimum in minimums])


def divide(
    total: int,
    members: Members,
    requests: Sequence[int],
    guarantees: Sequence[int] = (),
    *,
    scale: bool = True,
) -> Shares:
    """The share of each member; the sum exceeds the total only if the bases do.

    ``requests`` are limited to the members' max. With ``guarantees``, a base is at least the member's
    guarantee, and no member lends.
    """
    scaled = scaled_minimums(total, members.minimums) if scale else members.minimums
    if guarantees:
        bases = tuple(map(max, scaled, guarantees))
        runtimes = list(bases)
    else:
        bases = scaled
        runtimes = [
            request if lends and request < base else base
            for base, request, lends in zip(bases, requests, members.lends, strict=True)
        ]
    rounds: list[Round] = []
    left = total - sum(runtimes)
    if left > 0:
        weights = members.weights
        waiting = [at for at, base in enumerate(bases) if requests[at] > base and weights[at] > 0]
        while left > 0 and waiting:
            shares = _portions(left, waiting, members)
            rounds.append(Round(left, shares))
            left, still = 0, []
            for at, share in shares.items():
                reached, wanted = runtimes[at] + share, requests[at]
                if reached >= wanted:
                    left += reached - wanted
                    runtimes[at] = wanted
                else:
                    runtimes[at] = reached
                    still.append(at)
            waiting = still
    return Shares(scaled, bases, tuple(runtimes), tuple(rounds))


def _portions(left: int, waiting: Sequence[int], members: Members) -> dict[int, int]:
    """What is left, divided by weight with the largest remainders first; the sum is exact."""
    weights = members.weights
    whole = sum([weights[at] for at in waiting])
    shares = {at: weights[at] * left // whole for at in waiting}
    missing = left - sum(shares.values())
    if missing:
        names = members.names
        order = sorted(waiting, key=lambda at: (-(weights[at] * left % whole), names[at]))
        for at in order[:missing]:
            shares[at] += 1
    return shares
