"""Details are computed at first use, once."""

from collections.abc import Mapping

from app.domain import node_sets, verdicts


def test_details_are_computed_at_first_use_and_only_once() -> None:
    calls = []

    def compute() -> Mapping[str, node_sets.Names]:
        calls.append(1)
        return {"a": frozenset("xy")}

    details = verdicts.LazyDetails(compute)
    assert calls == []
    assert details == {"a": frozenset("xy")}
    assert (len(details), details["a"], list(details), repr(details)) == (
        1,
        frozenset("xy"),
        ["a"],
        repr({"a": frozenset("xy")}),
    )
    assert calls == [1]


def test_refusals_with_equal_details_are_equal() -> None:
    one, two = (
        verdicts.Refusal("r", frozenset("x"), verdicts.LazyDetails(lambda: {"a": frozenset("x")}))
        for _ in range(2)
    )
    assert one == two == verdicts.Refusal("r", frozenset("x"), {"a": frozenset("x")})
