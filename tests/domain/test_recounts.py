"""The counts that may differ between two snapshots follow from their steps."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.folding import recounts

keys = st.frozensets(st.sampled_from("abcdef"), max_size=3)


@given(st.lists(keys, max_size=5), st.lists(keys, max_size=5), st.lists(keys, min_size=1, max_size=5))
def test_states_differ_in_the_keys_of_the_steps_after_their_latest_common_one(
    here: list[frozenset[str]], there: list[frozenset[str]], shared: list[frozenset[str]]
) -> None:
    common: recounts.Steps = ()
    for changed in shared:
        common = recounts.then(common, changed)
    one = other = common
    for changed in here:
        one = recounts.then(one, changed)
    for changed in there:
        other = recounts.then(other, changed)
    expected = set().union(*here, *there)
    assert recounts.between(one, other) == recounts.between(other, one) == expected


def test_states_without_a_common_step_may_differ_anywhere() -> None:
    assert recounts.between((), ()) is None
    assert recounts.between(recounts.then((), ["a"]), recounts.then((), ["a"])) is None


def test_only_the_latest_steps_are_held() -> None:
    start = steps = recounts.then((), ["first"])
    for number in range(recounts.LENGTH - 1):
        steps = recounts.then(steps, [str(number)])
    assert recounts.between(start, steps) == set(map(str, range(recounts.LENGTH - 1)))
    steps = recounts.then(steps, ["last"])
    assert len(steps) == recounts.LENGTH
    assert recounts.between(start, steps) is None


def test_after_a_very_large_step_no_earlier_one_is_held() -> None:
    start = recounts.then((), ["first"])
    large = recounts.then(start, [str(number) for number in range(recounts.KEYS + 1)])
    assert recounts.between(start, large) is None
    assert recounts.between(large, recounts.then(large, ["a"])) == {"a"}
