"""By how much the counts of two snapshots differ follows from their steps."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.domain.fold import recounts

changes = st.dictionaries(st.sampled_from("abcdef"), st.integers(-3, 3), max_size=3)
runs = st.lists(changes, max_size=5)


def counts(steps: list[dict[str, int]]) -> Counter[str]:
    """The counts after these changes."""
    found = Counter[str]()
    for step in steps:
        found.update(step)
    return found


@given(runs, runs, st.lists(changes, min_size=1, max_size=5))
def test_counts_differ_by_the_steps_after_the_latest_common_one(
    here: list[dict[str, int]], there: list[dict[str, int]], shared: list[dict[str, int]]
) -> None:
    common: recounts.Steps = ()
    for changed in shared:
        common = recounts.then(common, changed)
    one = other = common
    for changed in here:
        one = recounts.then(one, changed)
    for changed in there:
        other = recounts.then(other, changed)
    before, after = counts([*shared, *here]), counts([*shared, *there])
    found, back = recounts.between(one, other), recounts.between(other, one)
    assert found is not None
    assert back is not None
    for key in "abcdef":
        assert found.get(key, 0) == -back.get(key, 0) == after[key] - before[key]
    assert found.keys() <= set().union(*here, *there), "no count outside of these steps is named"


def test_states_without_a_common_step_may_differ_anywhere() -> None:
    assert recounts.between((), ()) is None
    assert recounts.between(recounts.then((), {"a": 1}), recounts.then((), {"a": 1})) is None


def test_only_the_latest_steps_are_held() -> None:
    start = steps = recounts.then((), {"first": 1})
    for number in range(recounts.LENGTH - 1):
        steps = recounts.then(steps, {str(number): 1})
    assert recounts.between(start, steps) == dict.fromkeys(map(str, range(recounts.LENGTH - 1)), 1)
    steps = recounts.then(steps, {"last": 1})
    assert len(steps) == recounts.LENGTH
    assert recounts.between(start, steps) is None


def test_after_a_very_large_step_no_earlier_one_is_held() -> None:
    start = recounts.then((), {"first": 1})
    large = recounts.then(start, {str(number): 1 for number in range(recounts.KEYS + 1)})
    assert recounts.between(start, large) is None
    assert recounts.between(large, recounts.then(large, {"a": 1})) == {"a": 1}
    many = recounts.then(start, {}, [str(number) for number in range(recounts.KEYS + 1)])
    assert recounts.pods_between(start, many) is None


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=4), st.lists(st.sets(st.sampled_from("abcdef"))))
def test_the_pods_between_are_those_of_the_steps_after_the_common_one(
    here: list[set[str]], there: list[set[str]]
) -> None:
    common = one = other = recounts.then((), {"first": 1}, ("first",))
    for pods in here:
        one = recounts.then(one, {}, pods)
    for pods in there:
        other = recounts.then(other, {}, pods)
    expected = frozenset().union(*here, *there)
    assert recounts.pods_between(one, other) == recounts.pods_between(other, one) == expected
    assert recounts.pods_between(common, other) == frozenset().union(*there)
