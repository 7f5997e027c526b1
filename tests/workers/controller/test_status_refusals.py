"""Statuses that the API server refuses: what is reported, suspended, delayed and written again."""

import itertools

import pytest
import structlog

from app.simulation.apiserver import faults
from tests.support.workers import status_writers

PATCH = faults.calls("PATCH", "/status")


@pytest.mark.parametrize("served", [False, True], ids=["as before", "with the subresource"])
def test_a_kind_without_status_subresource_is_reported_once_and_tried_again_later(
    writing: status_writers.Writing, served: bool
) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.objects.define_status(status_writers.KIND, False)
    writing.asked()
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.asked() == ["GET", "PATCH", "GET"]
        for placed in range(5):
            assert writing.write("q", placed) == {"suspended": 1}
    assert writing.asked() == []
    ((level, event, kind, problem),) = (
        (line["log_level"], line["event"], line["kind"], line["problem"]) for line in lines
    )
    assert (level, event, kind) == ("warning", "cannot write a status", status_writers.KIND)
    assert "has no status subresource" in problem
    writing.cluster.server.objects.define_status(status_writers.KIND, served)
    writing.writer.verify()
    assert writing.write("q", 1) == {"patched" if served else "refused": 1}


@pytest.mark.scenario("TR-15")
def test_a_missing_right_is_reported_and_the_kind_suspended(writing: status_writers.Writing) -> None:
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, status=403)
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.write("p", 2) == {}
        assert writing.written(after=1.0) == {"suspended": 1}
    assert [line["event"] for line in lines] == ["cannot write a status"]
    assert "403" in lines[0]["problem"]


def test_a_status_that_the_schema_rejects_affects_no_other_object(writing: status_writers.Writing) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, status=422)
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.written(after=5.0) == {}
    assert [line["object"] for line in lines] == ["ns/p"]
    assert writing.write("q", 1) == {"patched": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_delays_all_calls_and_loses_no_status(
    writing: status_writers.Writing, status: int
) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, times=2, status=status, retry_after=3)
    writing.submit("p", 1)
    writing.submit("q", 2)
    waited = len(writing.clock.waits)
    assert writing.written() == {"failed": 2, "patched": 2}
    assert sum(writing.clock.waits[waited:]) >= 6.0, "each failure delays all calls as long as requested"
    assert (writing.status("p")["placed"], writing.status("q")["placed"]) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "status"),
    [(faults.FaultKind.FAIL, 429), (faults.FaultKind.FAIL, 503), (faults.FaultKind.DROP, 0)],
)
def test_a_deleted_object_that_cannot_be_read_again_suspends_no_kind(
    writing: status_writers.Writing, kind: faults.FaultKind, status: int
) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.client.delete(status_writers.path("p"))
    reads, of_p = itertools.count(), faults.calls("GET", status_writers.path("p"))
    writing.cluster.server.faults.add(kind, lambda asked: of_p(asked) and next(reads) == 1, status=status)
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"failed": 1}
        assert writing.write("q", 1) == {"patched": 1}
        assert writing.written(after=30.0) == {"gone": 1}
    assert lines == []


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.LOSE])
def test_a_status_whose_reply_is_lost_is_written_once(
    writing: status_writers.Writing, kind: faults.FaultKind
) -> None:
    writing.cluster.server.faults.add(kind, PATCH)
    assert writing.write("p", 1) == {"failed": 1}
    again = "patched" if kind is faults.FaultKind.DROP else "unchanged"
    assert writing.written(after=30.0) == {again: 1}
    assert writing.status("p")["placed"] == 1
