"""Details are computed when somebody looks, once."""

from collections.abc import Mapping

from app.domain import verdicts
from app.framework import deferring


def test_nothing_is_computed_until_somebody_looks_and_then_once() -> None:
    calls = []

    def compute() -> Mapping[str, verdicts.Names]:
        calls.append(1)
        return {"a": frozenset("xy")}

    details = deferring.Details(compute)
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
        verdicts.Refusal("r", frozenset("x"), deferring.Details(lambda: {"a": frozenset("x")}))
        for _ in range(2)
    )
    assert one == two == verdicts.Refusal("r", frozenset("x"), {"a": frozenset("x")})
