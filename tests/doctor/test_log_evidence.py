"""What calls and bound pods show, in cases that a test cannot bring about in seconds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from app.doctor.scheduler import log_evidence, testimony

Call = log_evidence.Call
POD = Call(100.0, "filter", "kept", "shop/a", "uid-a", "one", 3, whole=False)


def call(at: float, verb: str, outcome: str, pod: str = "a") -> Call:
    return dataclasses.replace(POD, at=at, verb=verb, outcome=outcome, pod=f"shop/{pod}", uid=f"uid-{pod}")


def bypass(at: float, pod: str = "a", created: float = 99.0) -> log_evidence.Bypass:
    return log_evidence.Bypass(f"shop/{pod}", f"uid-{pod}", "one", created, at, "n1")


ERROR = call(100.0, "filter", "error")
CASES: dict[str, tuple[list[Call], list[log_evidence.Bypass], bool | None]] = {
    "nothing": ([], [], None),
    "an error that ends the calls": ([ERROR], [], None),
    "an error, and another attempt": ([ERROR, call(101.2, "filter", "kept")], [], True),
    "a preemption decides nothing": (
        [ERROR, call(100.1, "preempt", "kept"), call(101.2, "filter", "kept")],
        [],
        True,
    ),
    "scored right after an error": ([ERROR, call(100.1, "prioritize", "scored")], [], False),
    "bound right after an error": ([ERROR, call(100.1, "bind", "bound")], [], False),
    # The record of the attempt that was answered is missing.
    "bound long after an error": ([ERROR, call(101.2, "bind", "bound")], [], None),
    "bound in spite of an error": ([ERROR], [bypass(100.2)], False),
    "a bind without the store, bound all the same": (
        [POD, call(100.1, "bind", "error")],
        [bypass(100.2)],
        False,
    ),
    "a bind that failed at the API server is tried again": (
        [POD, call(100.1, "bind", "error"), call(101.2, "filter", "kept")],
        [],
        None,
    ),
    "obeyed since": (
        [
            *(ERROR, call(100.1, "bind", "bound")),
            *(call(200.0, "bind", "refused", "b"), call(200.1, "filter", "kept", "b")),
        ],
        [],
        True,
    ),
    "ignored since": (
        [ERROR, call(101.2, "filter", "kept"), call(200.0, "filter", "error", "b")],
        [bypass(200.1, "b")],
        False,
    ),
    "not called, while others were": (
        [call(90.0, "filter", "kept", "b"), call(110.0, "filter", "kept", "c")],
        [bypass(100.0)],
        False,
    ),
    "not called, before all others": ([call(110.0, "filter", "kept", "c")], [bypass(100.0)], None),
    "not called, after all others": ([call(90.0, "filter", "kept", "b")], [bypass(100.0)], None),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_are_obeyed_or_ignored(name: str) -> None:
    calls, bypasses, expected = CASES[name]
    found = log_evidence.ignored(log_evidence.LogEvidence(tuple(calls), tuple(bypasses)))
    assert (found.holds if found is not None else None) == expected


@pytest.mark.parametrize(
    ("calls", "bypasses", "expected"),
    [
        ([POD], [], None),
        ([POD], [bypass(101.0)], False),
        ([POD, call(100.1, "bind", "error")], [bypass(101.0)], True),
        ([call(50.0, "bind", "bound", "b"), POD], [bypass(101.0)], False),
        ([POD, call(200.0, "bind", "bound", "b")], [bypass(101.0)], True),
        ([call(100.0, "filter", "refused")], [bypass(101.0)], None),
    ],
)
def test_pods_are_bound_by_bind_or_without(
    calls: list[Call], bypasses: list[log_evidence.Bypass], expected: bool | None
) -> None:
    found = log_evidence.bound(log_evidence.LogEvidence(tuple(calls), tuple(bypasses)))
    assert (found.holds if found is not None else None) == expected


def offer(offered: int, fitting: int, nodes: int, *, exact: bool = True) -> log_evidence.Offer:
    return log_evidence.Offer(100.0, "shop/a", "one", offered, fitting, exact, nodes)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (offer(100, 150, 150), False),
        (offer(150, 150, 150), True),
        (offer(148, 148, 150), True),  # Two nodes with taints.
        (offer(148, 150, 150), None),  # Two more than the log has seen full.
        (offer(140, 140, 150), None),  # All that fit; a percentage of 94 would offer them, too.
        (offer(100, 150, 150, exact=False), None),
        (offer(99, 150, 150), None),  # A sample has 100 at least.
        (offer(100, 100, 100), None),
    ],
)
def test_a_sample_is_distinguished_from_nodes_that_do_not_fit(
    made: log_evidence.Offer, expected: bool | None
) -> None:
    found = log_evidence.sampled(log_evidence.LogEvidence(offers=(made,)))
    assert (found.holds if found is not None else None) == expected


LATER = dataclasses.replace(POD, at=101.0)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (dataclasses.replace(LATER, whole=True), False),
        (dataclasses.replace(LATER, whole=False), True),
        # Recorded by an earlier version: the one before counts.
        (dataclasses.replace(LATER, whole=None), True),
        # The pod was too large to be read.
        (dataclasses.replace(LATER, whole=True, offered=0), True),
        (dataclasses.replace(LATER, whole=True, verb="preempt"), True),
    ],
)
def test_the_latest_call_with_nodes_counts(last: Call, expected: bool) -> None:
    found = log_evidence.named(log_evidence.LogEvidence((POD, last)))
    assert found is not None
    assert found.holds == expected


def test_only_pods_of_the_scheduler_count_and_only_since_its_start() -> None:
    log = log_evidence.LogEvidence(
        (POD, call(200.0, "bind", "bound")), (bypass(101.0),), (offer(100, 150, 150),)
    )
    assert log.of(("other",)) == log_evidence.LogEvidence()
    assert log.of(("one",)) == log
    assert log.of(("one",), 150.0) == log_evidence.LogEvidence((log.calls[1],))


class Pages:
    """Decisions, newest first, of which a page has a few, whatever number is asked for."""

    def __init__(self, number: int, page: int) -> None:
        self.number = number
        self.page = page

    def get(self, path: str, **query: object) -> Mapping[str, Any]:
        assert path == "/apis/v1/decisions"
        begin = int(str(query.get("continue", 0)))
        end = min(self.number, begin + min(self.page, int(str(query["limit"]))))
        more = str(end) if end < self.number else None
        return {"items": [self._row(at) for at in range(begin, end)], "metadata": {"continue": more}}

    def ask(self, path: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AssertionError(path, question)

    def _row(self, at: int) -> Mapping[str, Any]:
        return {
            "at": f"2026-01-01T00:00:{59 - at * 59 // self.number:02}Z",
            "verb": "filter",
            "outcome": "kept",
            "pod": {"namespace": "shop", "name": f"a-{at}", "uid": f"uid-{at}"},
            "candidates": 3,
        }


@pytest.mark.parametrize(("number", "read"), [(0, 0), (700, 700), (2500, 1000)])
def test_the_latest_decisions_are_read_also_if_pages_are_short(number: int, read: int) -> None:
    found = testimony.gather(Pages(number, 300), nodes=1).calls
    assert sorted(int(one.uid.removeprefix("uid-")) for one in found) == list(range(read))
