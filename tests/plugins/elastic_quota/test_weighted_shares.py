"""Sharing between quotas: against an independent computation, and exact at any size."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import forests, runtimes, weighted_shares
from tests.support.decisions import quota_oracle, small_quotas

amounts = st.one_of(st.integers(0, 12), st.integers(0, 2**62))


@st.composite
def plain_trees(draw: st.DrawFn) -> quota_oracle.Tree:
    """Trees of up to three levels; small numbers make ties and scaled mins likely."""
    names = draw(st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1, max_size=8))
    rows: dict[str, quota_oracle.Plain] = {}
    for at, name in enumerate(names):
        least = draw(amounts)
        rows[name] = quota_oracle.Plain(
            parent=draw(st.sampled_from(["", *names[:at]])),
            least=least,
            most=draw(st.one_of(st.none(), st.integers(least, least + 20), st.just(2**62))),
            weight=draw(st.one_of(st.integers(0, 4), amounts)),
            lends=draw(st.booleans()),
            asked=draw(amounts),
            held=draw(amounts),
        )
        if rows[name].most is None:
            rows[name] = quota_oracle.Plain(parent=rows[name].parent, asked=rows[name].asked)
    return quota_oracle.Tree(rows, draw(amounts), draw(st.booleans()), draw(st.booleans()))


def as_quotas(tree: quota_oracle.Tree) -> list[Quota]:
    parents = {row.parent for row in tree.rows.values()}
    return [
        Quota(
            uid=f"uid-{name}",
            namespace="n",
            name=name,
            parent=row.parent,
            is_parent=name in parents,
            lends=row.lends,
            min={} if row.most is None else {"r": row.least},
            # The second resource shows that a weight of zero is one, and not a missing annotation.
            max={"other": 1} if row.most is None else {"r": row.most},
            weight={"r": row.weight, "other": 1},
        )
        for name, row in tree.rows.items()
    ]


def derived(tree: quota_oracle.Tree) -> runtimes.Runtimes:
    grown = forests.grown(as_quotas(tree)).trees[""]
    return runtimes.derive(
        grown,
        {"r": tree.total},
        small_quotas.columns(grown, {name: {"r": row.asked} for name, row in tree.rows.items()}),
        small_quotas.columns(grown, {name: {"r": row.held} for name, row in tree.rows.items()}),
        runtimes.RuntimeRules(scale=tree.scale, guarantee=tree.guarantee),
    )


@given(plain_trees())
def test_runtimes_equal_an_independent_computation(tree: quota_oracle.Tree) -> None:
    found = derived(tree)
    shown = {name: found.runtime(name)["r"] for name, row in tree.rows.items() if row.most is not None}
    assert shown == tree.runtimes()


@given(plain_trees())
def test_every_round_hands_out_exactly_what_was_left(tree: quota_oracle.Tree) -> None:
    found = derived(tree)
    for line in found.lines.values():
        for division, _ in filter(None, map(line.division, range(len(found.tree.quotas)))):
            shares, lends = division.shares, division.group.members.lends
            start = sum(
                base if request > base or not may_lend or tree.guarantee else request
                for base, request, may_lend in zip(shares.bases, division.requests, lends, strict=True)
            )
            for one in shares.rounds:
                assert sum(one.shares.values()) == one.left > 0
            if shares.rounds:
                assert shares.rounds[0].left == division.total - start
            assert sum(shares.runtimes) <= max(division.total, start)
            for later, former in itertools.pairwise(reversed(shares.rounds)):
                assert later.shares.keys() < former.shares.keys()


@pytest.mark.parametrize(
    ("total", "expected"),
    [(75, (30, 30, 15)), (50, (20, 20, 10)), (7, (2, 2, 1)), (0, (0, 0, 0)), (-5, (0, 0, 0))],
)
def test_mins_are_scaled_to_a_total_that_is_too_small(total: int, expected: tuple[int, ...]) -> None:
    assert weighted_shares.scaled_minimums(total, (30, 30, 15)) == expected


def test_bases_above_the_total_are_kept_and_nothing_is_shared() -> None:
    members = weighted_shares.Members(("a", "b"), (30, 30), (1, 1), (True, True))
    shares = weighted_shares.divide(50, members, (40, 40), scale=False)
    assert shares.runtimes == (30, 30)
    assert shares.rounds == ()
