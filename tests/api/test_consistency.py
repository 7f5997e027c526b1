"""The consistency answer over the auditor's report; the report itself is tested in tests/workers."""

import msgspec
import pytest

from app.domain.audit import findings
from app.store import audit_reports
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import body

REPORT = findings.Report(
    incarnation="i",
    offset=42,
    at_ms=int(1000 * api_worlds.START),
    by="auditor-1",
    every=1.0,
    facts={"pods": 40},
    passes=2,
    complete=True,
    checkpoints={"17": 42},
)
DIFFERENCE = findings.Difference(
    kind="count",
    key="ns/p|zone=a",
    expected="2",
    found="5",
    first=41,
    last=42,
    blame="written bypassing the log",
)
WRONG = msgspec.structs.replace(REPORT, differences=(DIFFERENCE,), total=1)
STUCK = msgspec.structs.replace(REPORT, waiting={"counts": "offset 3 is missing"})


def write(world: api_worlds.World, report: findings.Report) -> None:
    audit_reports.Reports(world.store.client, world.store.keys).write(report)


@pytest.mark.parametrize(
    ("report", "later", "state"),
    [
        pytest.param(REPORT, 5, "consistent", id="everything agrees"),
        pytest.param(msgspec.structs.replace(REPORT, complete=False), 0, "auditing", id="not yet everything"),
        pytest.param(STUCK, 0, "auditing", id="the log cannot be folded"),
        pytest.param(WRONG, 5, "inconsistent", id="it differs"),
        pytest.param(REPORT, 600, "unknown", id="the auditor is dead"),
        pytest.param(None, 0, "unknown", id="there never was one"),
    ],
)
def test_the_state_is_what_can_be_relied_on(
    world: api_worlds.World, report: findings.Report | None, later: float, state: str
) -> None:
    if report is not None:
        write(world, report)
    world.now[0] += later
    assert body(world.client.get("/apis/v1/consistency"))["state"] == state


@pytest.mark.parametrize(("compared_ms", "age"), [(None, 5.0), (REPORT.at_ms - 90_000, 95.0), (0, -1.0)])
def test_the_age_is_that_of_the_last_comparison(
    world: api_worlds.World, compared_ms: int | None, age: float
) -> None:
    write(world, msgspec.structs.replace(STUCK, compared_ms=compared_ms))
    world.now[0] += 5
    found = body(world.client.get("/apis/v1/consistency"))
    assert (found["state"], found["age"], bool(found["at"])) == ("auditing", age, age >= 0)


def test_a_difference_is_shown_with_its_blame_and_a_repair_with_its_event(world: api_worlds.World) -> None:
    repair = findings.Repair(43, REPORT.at_ms, "counts", ("ns/p|zone=a",), "written bypassing the log")
    write(world, msgspec.structs.replace(WRONG, repairs=(repair,)))
    shown = body(world.client.get("/apis/v1/consistency"))
    assert (shown["position"], shown["age"], shown["checkpoints"]) == ("i/42", 0.0, {"17": 42})
    assert shown["differences"] == [{**msgspec.to_builtins(DIFFERENCE), "offset": 0, "writer": "", "run": ""}]
    assert shown["repairs"] == [
        {
            "offset": 43,
            "at": "2026-07-01T10:00:00.000Z",
            "what": "counts",
            "keys": ["ns/p|zone=a"],
            "reason": "written bypassing the log",
        }
    ]


def test_a_report_that_cannot_be_read_is_none(world: api_worlds.World) -> None:
    world.store.client.set(world.store.keys.audit, b"{")
    assert body(world.client.get("/apis/v1/consistency"))["state"] == "unknown"
