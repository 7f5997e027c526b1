"""Sets that outlive the call: the same results as any sets have, made once."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain import lasting

NODES = st.frozensets(st.sampled_from("abcdef"))
KIND = st.sampled_from([frozenset, lasting.Lasting])


@given(one=NODES, other=NODES, kind=KIND, other_kind=KIND)
def test_remembered_results_are_those_of_sets(
    one: frozenset[str], other: frozenset[str], kind: type[frozenset[str]], other_kind: type[frozenset[str]]
) -> None:
    nodes, others = kind(one), other_kind(other)
    assert lasting.minus(nodes, others) == one - other
    assert lasting.common(nodes, others) == one & other
    assert lasting.union(nodes, others) == one | other
    assert lasting.union(nodes) == one


def test_what_follows_from_lasting_sets_lasts() -> None:
    nodes, others = lasting.Lasting("abc"), lasting.Lasting("bcd")
    for operation in (lasting.minus, lasting.common, lasting.union):
        first = operation(nodes, others)
        assert isinstance(first, lasting.Lasting)
        assert operation(lasting.Lasting("abc"), others) is first
        assert not isinstance(operation(nodes, frozenset("bcd")), lasting.Lasting)


def test_a_part_is_itself_what_it_has_in_common_with_the_whole() -> None:
    part = frozenset("ab")
    assert lasting.common(part, frozenset("abc")) is part


@given(whole=NODES, other=NODES, data=st.data())
def test_a_set_that_is_part_of_a_lasting_one_has_the_results_of_any_set(
    whole: frozenset[str], other: frozenset[str], data: st.DataObject
) -> None:
    some = data.draw(st.frozensets(st.sampled_from(sorted(whole)))) if whole else frozenset()
    part = lasting.Among(some, lasting.Lasting(whole))
    assert part == some
    for kind in (frozenset, lasting.Lasting):
        others = kind(other)
        assert lasting.minus(part, others) == some - other
        assert lasting.common(part, others) == some & other
        assert lasting.minus(others, part) == other - some
        assert lasting.common(others, part) == other & some
    if whole <= other:
        assert lasting.common(part, lasting.Lasting(other)) is part
