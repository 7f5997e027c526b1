"""Laws of the search for a change, against a linear scan."""

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.plugins.workload_policy import kinds
from app.verbs.questions import bisection, question_schema
from tests.support import declared
from tests.support.decisions import small_clusters
from tests.support.decisions.cluster_strategies import ASKING, PLUGINS, unhurried


def history(
    planted: int, length: int, change: events.AnyEvent, before: Sequence[events.AnyEvent] = ()
) -> list[snapshots.Snapshot]:
    """The snapshots at offsets 0 to ``length``: F6 with its policy, noise, and the change at an offset."""
    first: list[events.AnyEvent] = [events.NodeSeen(node=node) for node in small_clusters.f6()]
    first.append(declared.observed(small_clusters.policy(required=True)))
    first.append(events.PodSeen(pod=ASKING))
    first += before
    states = [
        projections.project_all(snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS[10].indexed()), first)
    ]
    for offset in range(1, length + 1):
        noise = events.PodSeen(pod=small_clusters.pod(f"noise-{offset % 7}", {"at": str(offset)}))
        states.append(projections.project(states[-1], change if offset == planted else noise))
    return states


CAPACITY = {"pods": 110}


def cordoned(node: model.Node) -> events.NodeSeen:
    """A cordon of a node that has capacity."""
    return events.NodeSeen(node=msgspec.structs.replace(node, allocatable=CAPACITY, unschedulable=True))


def placed(number: int, node: str) -> events.PodSeen:
    """A counted pod on a node."""
    return events.PodSeen(pod=small_clusters.pod(f"placed-{number}", small_clusters.REPLICA, node=node))


FULL = small_clusters.policy({"member": 0, "host": 0}, required=True)
CHANGES: list[tuple[events.AnyEvent, dict[str, object]]] = [
    (declared.observed(FULL), {"fits": ASKING.key}),
    (kinds.POLICIES.gone(FULL.namespace, FULL.name, FULL.uid), {"fits": ASKING.key}),
    (
        events.PodSeen(pod=msgspec.structs.replace(ASKING, labels={small_clusters.LABEL: "missing"})),
        {"fits": ASKING.key},
    ),
    (
        events.PodSeen(pod=small_clusters.pod("one", small_clusters.REPLICA, node=small_clusters.HOSTS[0])),
        {"count": {"count": f"{FULL.key}|{small_clusters.KEY}=host", "atLeast": 1}},
    ),
    (
        events.NodeGone(small_clusters.HOSTS[0], f"uid-{small_clusters.HOSTS[0]}"),
        {"exists": f"node:{small_clusters.HOSTS[0]}"},
    ),
    (kinds.POLICIES.gone(FULL.namespace, FULL.name, FULL.uid), {"exists": f"workloadpolicies:{FULL.key}"}),
    (events.PodSeen(pod=small_clusters.pod("eight")), {"waiting": {"atLeast": 9}}),
]
REMAINDERS: list[tuple[list[events.AnyEvent], events.AnyEvent, dict[str, object]]] = [
    # The last node that is not cordoned.
    (
        [
            events.NodeSeen(node=msgspec.structs.replace(small_clusters.f6()[0], allocatable=CAPACITY)),
            *map(cordoned, small_clusters.f6()[1:]),
        ],
        cordoned(small_clusters.f6()[0]),
        {"fits": ASKING.key, "candidates": "roomy"},
    ),
    # The last place of a quota of member 1 and host 3.
    (
        [placed(1, small_clusters.MEMBERS[0]), *(placed(at, small_clusters.HOSTS[0]) for at in (2, 3))],
        placed(4, small_clusters.HOSTS[1]),
        {"fits": ASKING.key},
    ),
]
CASES = [*(([], change, question) for change, question in CHANGES), *REMAINDERS]
"""What is true before, the change, and the question whose answer it changes."""


@pytest.mark.scenario("WI-8")
@unhurried
@given(length=st.integers(20, 300), data=st.data())
@pytest.mark.parametrize(("before", "change", "question"), CASES)
def test_a_planted_change_is_found_at_its_offset(
    before: list[events.AnyEvent],
    change: events.AnyEvent,
    question: dict[str, object],
    length: int,
    data: st.DataObject,
) -> None:
    planted = data.draw(st.integers(12, length))
    states = history(planted, length, change, before)
    predicate = bisection.predicate(
        question_schema.read(question, question_schema.Bisect), PLUGINS[10], states[-1]
    )
    answers = [predicate(state) for state in states]
    (expected,) = [at for at in range(1, length + 1) if answers[at] != answers[at - 1]]
    assert expected == planted
    found = bisection.bisect(states.__getitem__, predicate, 0, length, lambda: True)
    assert found.now == answers[-1]
    assert found.examined <= 2 * math.log2(length) + 4
    assert found.complete
    assert (found.offset, found.low) == (expected, expected - 1)
    # Attempts are recorded at any offsets, some with another answer than the question has there.
    offsets = sorted(data.draw(st.sets(st.integers(0, length), max_size=8)), reverse=True)
    recorded = [(offset, answers[offset] != data.draw(st.booleans())) for offset in offsets]
    found = bisection.bisect(states.__getitem__, predicate, 0, length, lambda: True, recorded)
    assert (found.now, found.offset, found.low) == (answers[-1], expected, expected - 1)
    assert found.examined <= 2 * math.log2(length) + 6


@pytest.mark.scenario("WI-8")
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13, 64, 100, 257, 500])
def test_what_never_changed_is_not_a_change(length: int) -> None:
    states = history(0, length, events.Relisted("pods", since="1", until="2", reason="test"))
    predicate = bisection.predicate(question_schema.Bisect(fits=ASKING.key), PLUGINS[10], states[-1])
    found = bisection.bisect(states.__getitem__, predicate, 0, length, lambda: True)
    assert (found.now, found.offset, found.complete) == (True, None, True)
    assert found.examined <= 2 * math.log2(length) + 4


def test_a_spent_budget_leaves_a_range() -> None:
    empty = snapshots.empty(schema=declared.SCHEMA)
    seen = projections.project(empty, events.PodSeen(pod=small_clusters.pod("p", namespace="ns")))
    states = [empty] * 50 + [seen] * 50
    predicate = bisection.predicate(question_schema.Bisect(exists="pod:ns/p"), PLUGINS[10], states[-1])
    left = iter([True] * 8 + [False] * 99)
    found = bisection.bisect(states.__getitem__, predicate, 0, 99, lambda: next(left))
    assert not found.complete
    assert found.offset is not None
    assert found.low < 50 <= found.offset
