"""PatchStatus: which statuses are written, how often, and by which leadership."""

import dataclasses
from typing import Any

import pytest
import structlog

from app.framework import effects
from app.kube import call_limits
from app.kube.watch import kinds
from tests.support import declared, gadgets
from tests.support.workers import clusters, status_writers
from workers.controller import status_targets, statuses

Json = dict[str, Any]


# -- what is written -------------------------------------------------------------------------


def test_a_status_has_the_generation_that_it_is_about_and_the_time_of_each_change(
    writing: status_writers.Writing,
) -> None:
    assert writing.write("p", 1) == {"patched": 1}
    condition = {"type": "Accepted", "status": "True", "reason": "R", "message": "m"}
    first = {
        "placed": 1,
        "observedGeneration": 1,
        "conditions": [{**condition, "lastTransitionTime": status_writers.NOW}],
    }
    assert writing.status("p") == first
    writing.cluster.edit_policy("p", topologyKey="another")
    writing.observe("p")
    writing.now = "2026-07-01T11:00:00Z"
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"patched": 1}
    assert writing.status("p") == {**first, "placed": 2, "observedGeneration": 2}
    writing.clock.now += 1.0
    assert writing.write("p", 2, enforced="False") == {"patched": 1}
    (changed,) = writing.status("p")["conditions"]
    assert (changed["status"], changed["lastTransitionTime"]) == ("False", "2026-07-01T11:00:00Z")


@pytest.mark.scenario("TR-12")
def test_a_status_that_does_not_differ_is_not_written(writing: status_writers.Writing) -> None:
    assert writing.write("p", 1) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH"]
    writing.clock.now += 1.0
    assert writing.write("p", 1) == {"unchanged": 1}
    assert writing.asked() == []
    another = status_writers.Writing(writing.cluster)  # as the next leader, whose clock is another one
    another.observe("p")
    another.now = "2026-07-01T12:00:00Z"
    writing.asked()
    assert another.write("p", 1) == {"unchanged": 1}
    assert writing.asked() == ["GET"]


def test_a_status_without_generation_is_compared_without_it(writing: status_writers.Writing) -> None:
    """As of a definition that does not have the field."""
    found = effects.PatchStatus(status_writers.KIND, "ns/p", {"placed": 1}, generation=False)
    writing.writer.submit(found, writing.snapshot, status_writers.TERM)
    assert writing.written() == {"patched": 1}
    assert writing.status("p") == {"placed": 1}
    writing.writer.verify()
    writing.writer.submit(found, writing.snapshot, status_writers.TERM)
    assert writing.written(after=1.0) == {"unchanged": 1}


@pytest.mark.scenario("TR-14")
def test_an_object_is_written_at_most_once_a_second_with_the_latest_status(
    writing: status_writers.Writing,
) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    assert writing.write("p", 1) == {"patched": 1}
    for placed in range(2, 9):
        assert writing.write("p", placed) == {}
    assert writing.write("q", 1) == {"patched": 1}, "another object does not wait"
    assert writing.written(after=0.9) == {}
    assert writing.status("p")["placed"] == 1
    assert writing.written(after=0.1) == {"patched": 1}
    assert writing.status("p")["placed"] == 8


def test_a_churn_of_10000_pods_costs_one_write_a_second(writing: status_writers.Writing) -> None:
    """100 pods a second come and go, and the policy's status changes with each of them."""
    for second in range(100):
        for pod in range(100):
            writing.submit("p", 100 * second + pod)
            writing.written(after=0.01)
    written = writing.asked()
    assert written.count("GET") == 1
    assert 99 <= written.count("PATCH") <= 101
    writing.written(after=1.0)
    assert writing.status("p")["placed"] == 9_999


def test_a_field_that_a_status_no_longer_has_is_removed(writing: status_writers.Writing) -> None:
    writing.write("p", 1)
    writing.clock.now += 1.0
    writing.writer.submit(
        effects.PatchStatus(status_writers.KIND, "ns/p", {"desired": 3}),
        writing.snapshot,
        status_writers.TERM,
    )
    writing.written()
    assert writing.status("p") == {"desired": 3, "observedGeneration": 1}


def test_calls_are_limited_over_all_objects(cluster_side: clusters.Cluster) -> None:
    names = [f"p{at}" for at in range(10)]
    for name in names:
        cluster_side.policy(name, host=1)
    writing = status_writers.Writing(cluster_side, rate=2.0)
    writing.observe(*names)
    limit = call_limits.CallLimit(writing.clock, term=lambda: status_writers.TERM, burst=2.0, rate=2.0)
    writing.writer = statuses.StatusWriter(
        cluster_side.client,
        {status_writers.KIND: status_targets.KindTarget(kinds.declared(declared.POLICIES))},
        limit,
        writing.clock,
        now=lambda: status_writers.NOW,
    )
    for name in names:
        writing.submit(name, 1)
    assert writing.written() == {"patched": 10}
    # 20 calls: two at once, the others half a second apart.
    assert writing.clock.now - 1000.0 == pytest.approx(9.0)


def test_a_status_of_an_undeclared_kind_is_reported(writing: status_writers.Writing) -> None:
    with structlog.testing.capture_logs() as lines:
        found = effects.PatchStatus("pods", "ns/p", {"placed": 1})
        writing.writer.submit(found, writing.snapshot, status_writers.TERM)
    assert [(line["event"], line["kind"]) for line in lines] == [
        ("a plugin writes an undeclared status", "pods")
    ]
    assert writing.written() == {}
    assert status_writers.outcomes("pods")["undeclared"] >= 1


# -- what the API server has ----------------------------------------------------------------


def test_a_status_is_not_written_about_an_object_that_has_changed(writing: status_writers.Writing) -> None:
    writing.cluster.edit_policy("p", topologyKey="another")
    assert writing.write("p", 1) == {"outdated": 1}
    assert writing.status("p") == {}
    writing.observe("p")
    assert writing.write("p", 1) == {"patched": 1}


def test_a_recreated_object_gets_no_status_of_its_predecessor(writing: status_writers.Writing) -> None:
    writing.write("p", 1)
    writing.cluster.client.delete(status_writers.path("p"))
    writing.cluster.policy("p", host=3)
    assert writing.written(after=1.0) == {}
    assert writing.write("p", 2) == {"conflict": 1}
    assert writing.written(after=1.0) == {"outdated": 1}
    assert writing.status("p") == {}


def test_after_a_conflict_the_object_is_read_again(writing: status_writers.Writing) -> None:
    """A label is not kept in the log: no event, and no status, follows from it."""
    writing.write("p", 1)
    writing.cluster.patch(status_writers.path("p"), {"metadata": {"labels": {"team": "a"}}})
    writing.asked()
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"conflict": 1}
    assert writing.asked() == ["PATCH"]
    assert writing.written(after=1.0) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH"]
    assert writing.status("p")["placed"] == 2


def test_a_newer_status_replaces_the_one_that_conflicted(writing: status_writers.Writing) -> None:
    writing.write("p", 1)
    writing.cluster.patch(status_writers.path("p"), {"metadata": {"labels": {"team": "a"}}})
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"conflict": 1}
    writing.submit("p", 3)
    assert writing.written(after=1.0) == {"patched": 1}
    assert writing.status("p")["placed"] == 3
    assert writing.written(after=1.0) == {}


def test_a_deleted_object_is_left_alone(writing: status_writers.Writing) -> None:
    writing.cluster.client.delete(status_writers.path("p"))
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"gone": 1}
        assert writing.written(after=5.0) == {}
    assert lines == []


def test_an_object_that_is_deleted_after_it_was_read_is_left_alone(writing: status_writers.Writing) -> None:
    writing.write("p", 1)
    writing.cluster.client.delete(status_writers.path("p"))
    writing.clock.now += 1.0
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 2) == {"gone": 1}
    assert lines == []


def test_an_edited_status_is_restored_when_it_is_verified(writing: status_writers.Writing) -> None:
    writing.write("p", 1)
    before = writing.status("p")
    writing.cluster.patch(f"{status_writers.path('p')}/status", {"status": {"placed": 77}})
    writing.clock.now += 1.0
    assert writing.write("p", 1) == {"unchanged": 1}
    assert writing.status("p")["placed"] == 77
    writing.writer.verify()
    assert writing.write("p", 1) == {"patched": 1}
    assert writing.status("p") == before


def test_a_stamped_field_keeps_the_time_at_which_it_was_first_written(
    writing: status_writers.Writing,
) -> None:
    def write(placed: int, *stamped: str) -> Json:
        found = effects.PatchStatus(
            status_writers.KIND, "ns/p", {"placed": placed}, generation=False, stamped=stamped
        )
        writing.writer.submit(found, writing.snapshot, status_writers.TERM)
        writing.written(after=1.0)
        return writing.status("p")

    assert write(0) == {"placed": 0}
    assert write(1, "started") == {"placed": 1, "started": status_writers.NOW}
    writing.now = "2026-07-01T11:00:00Z"
    assert write(2, "started") == {"placed": 2, "started": status_writers.NOW}
    writing.writer.verify()  # As the next leader, which has to read it.
    assert write(3, "started") == {"placed": 3, "started": status_writers.NOW}


# -- leadership ---------------------------------------------------------------------------


def test_nothing_is_written_after_the_leadership_has_ended(writing: status_writers.Writing) -> None:
    writing.submit("p", 1)
    writing.term = lambda: None
    writing.asked()
    assert writing.written() == {"ended": 1}
    assert writing.asked() == []
    writing.term = lambda: "another term of this process"
    assert writing.write("p", 2) == {"ended": 1}
    assert writing.asked() == []
    assert writing.write("p", 3, term="another term of this process") == {"patched": 1}


def test_a_leadership_that_ends_between_reading_and_writing_writes_nothing(
    writing: status_writers.Writing,
) -> None:
    terms = iter([status_writers.TERM])
    writing.term = lambda: next(terms, None)
    assert writing.write("p", 1) == {"ended": 1}
    assert writing.asked() == ["GET"]
    assert writing.status("p") == {}


@pytest.mark.scenario("TR-13")
def test_a_former_leader_whose_call_was_delayed_overwrites_nothing(writing: status_writers.Writing) -> None:
    """Its call was admitted in time and arrives late: the version that it has read is not the present one."""
    successor = status_writers.Writing(writing.cluster)
    successor.observe("p")
    calls = 0

    def delayed() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:  # admitted, and not sent yet
            assert successor.write("p", 5) == {"patched": 1}
        return status_writers.TERM

    writing.term = delayed
    writing.submit("p", 1)
    writing.writer.run_once()
    assert writing.status("p")["placed"] == 5


def test_a_status_is_written_in_the_version_that_is_served(writing: status_writers.Writing) -> None:
    kind = dataclasses.replace(declared.POLICIES, versions=("v9", *declared.POLICIES.versions))
    writing.writer = writing.of(kind)
    assert writing.write("p", 1) == {"failed": 1}
    assert writing.written(after=1.0) == {"patched": 1}
    assert writing.status("p")["placed"] == 1
    writing.asked()
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"patched": 1}
    assert writing.asked() == ["PATCH"]


def test_the_status_of_an_object_that_no_version_has_is_not_written(writing: status_writers.Writing) -> None:
    kind = dataclasses.replace(declared.POLICIES, versions=("v9", *declared.POLICIES.versions))
    writing.writer = writing.of(kind)
    writing.cluster.server.objects.remove(status_writers.KIND, ("ns", "p"))
    assert writing.write("p", 1) == {"gone": 1}


def test_the_status_of_a_cluster_scoped_object_is_written_below_no_namespace() -> None:
    whole = dataclasses.replace(gadgets.GADGETS, namespaced=False)
    target = status_targets.KindTarget(kinds.declared(whole))
    assert target.paths("big") == ("/apis/example.org/v2/gadgets/big", "/apis/example.org/v1/gadgets/big")
    namespaced = status_targets.KindTarget(kinds.declared(gadgets.GADGETS))
    assert namespaced.paths("shop/big")[0] == "/apis/example.org/v2/namespaces/shop/gadgets/big"
