"""Annotations that are written with a status, and what remains of both without a right or the subresource."""

import json
from typing import Any

import structlog

from app.framework import effects
from app.simulation.apiserver import faults
from tests.support.workers import status_writers

Json = dict[str, Any]


def annotated(writing: status_writers.Writing, placed: int, **annotations: str | None) -> dict[str, int]:
    """Submit a status with annotations and write what is due; the outcomes."""
    found = effects.PatchStatus(
        status_writers.KIND, "ns/p", {"placed": placed}, generation=False, annotations=dict(annotations)
    )
    writing.writer.submit(found, writing.snapshot, status_writers.TERM)
    return writing.written(after=1.0)


def annotations(writing: status_writers.Writing) -> Json:
    found: Json = json.loads(writing.cluster.client.get(status_writers.path("p")))["metadata"].get(
        "annotations", {}
    )
    return found


def test_annotations_are_set_and_removed_and_others_are_kept(writing: status_writers.Writing) -> None:
    writing.cluster.patch(
        status_writers.path("p"), {"metadata": {"annotations": {"own": "kept", "old": "x"}}}
    )
    writing.asked()
    assert annotated(writing, 1, runtime="5", old=None) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH", "PATCH"]
    assert annotations(writing) == {"own": "kept", "runtime": "5"}
    assert writing.status("p") == {"placed": 1}
    assert annotated(writing, 1, runtime="5", old=None) == {"unchanged": 1}
    writing.asked()
    assert annotated(writing, 2, runtime="5", old=None) == {"patched": 1}
    assert writing.asked() == ["PATCH"]
    assert annotated(writing, 2, runtime="6", old=None) == {"patched": 1}
    assert annotations(writing) == {"own": "kept", "runtime": "6"}
    assert writing.status("p") == {"placed": 2}


def test_without_the_right_to_patch_objects_the_status_alone_is_written(
    writing: status_writers.Writing,
) -> None:
    of_object = faults.calls("PATCH", "/workloadpolicies/p")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, of_object, status=403, times=1)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"patched": 1}
        assert annotated(writing, 2, runtime="6") == {"patched": 1}
    assert [line["event"] for line in lines] == ["cannot write annotations"]
    assert (writing.status("p"), annotations(writing)) == ({"placed": 2}, {})
    writing.writer.verify()
    assert annotated(writing, 2, runtime="6") == {"patched": 1}
    assert annotations(writing) == {"runtime": "6"}


def test_without_the_subresource_the_status_is_written_with_the_object(
    writing: status_writers.Writing,
) -> None:
    writing.cluster.server.objects.define_status(status_writers.KIND, False)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"patched": 1}
        assert (writing.status("p"), annotations(writing)) == ({"placed": 1}, {"runtime": "5"})
        # The status alone differs: the subresource is missed, and the object is patched instead.
        assert annotated(writing, 2, runtime="5") == {"failed": 1}
        assert writing.written(after=1.0) == {"patched": 1}
        assert writing.status("p") == {"placed": 2}
        writing.asked()
        assert annotated(writing, 3, runtime="5") == {"patched": 1}
    assert writing.asked() == ["PATCH"]
    assert lines == []


def test_without_subresource_and_right_the_kind_is_suspended(writing: status_writers.Writing) -> None:
    writing.cluster.server.objects.define_status(status_writers.KIND, False)
    of_object = faults.calls("PATCH", "/workloadpolicies/p")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, of_object, status=403, times=1)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"refused": 1}
        assert annotated(writing, 2, runtime="5") == {"suspended": 1}
    assert [line["event"] for line in lines] == ["cannot write annotations", "cannot write a status"]


def test_annotations_of_an_object_that_changed_meanwhile_are_written_to_the_changed_one(
    writing: status_writers.Writing,
) -> None:
    assert annotated(writing, 1, runtime="5") == {"patched": 1}
    writing.cluster.patch(status_writers.path("p"), {"metadata": {"annotations": {"own": "kept"}}})
    assert annotated(writing, 1, runtime="6") == {"conflict": 1}
    assert writing.written(after=1.0) == {"patched": 1}
    assert annotations(writing) == {"own": "kept", "runtime": "6"}
