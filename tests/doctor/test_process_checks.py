"""The checks of ``topolog doctor run`` on processes that are made up."""

import time
from collections.abc import Mapping

import pytest
from prometheus_client import registry

from app import following_process, settings
from app.doctor.run import checks, process_facts, processes
from app.serving import ports, probe_server
from app.telemetry import metrics, probes
from tests.support import child_processes


def test_a_view_counts_as_a_process_and_is_not_required() -> None:
    samples: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {
        "topolog_build_info": (({"version": "1", "schema": "2"}, 1.0),),
        "topolog_store_up": (({}, 1.0),),
    }
    away = {
        one.id
        for one in checks.of_processes([], time.time(), "topolog-system")
        if metrics.VIEW in one.subject
    }
    assert away == set()
    ready = process_facts.Process("topolog-view-a", metrics.VIEW, ready=True, samples=samples)
    found = [
        one for one in checks.of_processes([ready], time.time(), "topolog-system") if "view" in one.subject
    ]
    assert [(one.verdict, one.subject) for one in found] == [("ok", "view topolog-view-a")] * 2
    behind = process_facts.Process("topolog-view-a", metrics.VIEW, problems=("lag: 40 s behind",))
    (result,) = [
        one for one in checks.of_processes([behind], time.time(), "topolog-system") if "view" in one.subject
    ]
    assert (result.verdict, result.seen) == ("problem", "lag: 40 s behind")


@pytest.mark.parametrize(
    ("problem", "verdict", "seen"), [(None, "ok", "ready"), ("40 s behind", "problem", "lag: 40 s behind")]
)
def test_an_extender_of_several_workers_is_as_ready_as_it_answers(
    problem: str | None, verdict: str, seen: str
) -> None:
    application = probes.application(lambda: {"lag": problem}, registry.CollectorRegistry(), alone=False)
    with ports.listen("127.0.0.1", 0) as listener:
        server = probe_server.ProbeServer(listener, application)
        server.start()
        found = processes.by_urls([f"http://127.0.0.1:{listener.getsockname()[1]}"])
        server.stop()
    results = {
        one.id: (one.verdict, one.seen)
        for one in checks.of_processes(found, time.time(), "topolog-system")
        if one.subject.startswith(metrics.EXTENDER)
    }
    assert results["R01"] == (verdict, seen)
    assert results["R02"] == ("ok", "1")
    assert {results.pop(each)[0] for each in ("R04", "R05", "R07", "R09", "R12", "R13")} == {"unsure"}
    assert set(results) == {"R01", "R02"}


def test_a_view_that_waits_for_the_store_does_not_count_as_an_extender() -> None:
    port = child_processes.free_port()
    server = settings.Server(bind="127.0.0.1", health_port=port, workers=2)
    shown = metrics.registry_of(metrics.VIEW, version="1", schema=2)
    waiting = following_process.Standby(metrics.VIEW, server, shown)
    try:
        waiting.without_store("it does not answer")
        (found,) = processes.by_urls([f"http://127.0.0.1:{port}"])
    finally:
        waiting.__exit__()
    assert (found.role, found.problems) == (metrics.VIEW, ("store: it does not answer",))


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [(86_400.0, 5.0, "warning"), (86_400.0, 899.0, "warning"), (86_400.0, 901.0, "problem")],
)
def test_an_upgrade_has_fifteen_minutes(old: float, new: float, verdict: str) -> None:
    """From the first process of the new version; those that follow it do not prolong the time."""
    now = time.time()

    def process(name: str, version: str, age: float) -> process_facts.Process:
        samples: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {
            "topolog_build_info": (({"version": version, "schema": "2"}, 1.0),),
            "process_start_time_seconds": (({}, now - age),),
        }
        return process_facts.Process(name, metrics.EXTENDER, ready=True, samples=samples)

    found = [process("a", "1", old), process("b", "2", new), process("c", "2", 1.0)]
    (result,) = [one for one in checks.of_processes(found, now, "topolog-system") if one.id == "R04"]
    assert (result.verdict, "version 1" in result.seen, "version 2" in result.seen) == (verdict, True, True)


def test_a_missing_process_is_named_with_what_is_lost_and_its_command() -> None:
    found = [one for one in checks.of_processes([], time.time(), "topolog-system") if one.id == "R02"]
    assert [one.subject for one in found] == list(metrics.PROCESSES)
    for one in found:
        assert f" {one.subject} " in one.why
        assert not any(f" {role} " in one.why for role in metrics.PROCESSES if role != one.subject)
    commands = ["extender", "record", "control", "audit", "compact"]
    assert [one.fix for one in found] == [f"topolog {command}" for command in commands]


def recorder(*, quarantined: float, received: bool) -> list[str]:
    """The verdicts of R15 about a recorder with these counts."""
    samples: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {
        "topolog_quarantined_total": (({"kind": "pods"}, quarantined),)
    }
    if received:
        samples["topolog_watch_last_progress_timestamp_seconds"] = (({"kind": "pods"}, time.time()),)
    found = [process_facts.Process("a", metrics.RECORDER, ready=True, samples=samples)]
    return [one.verdict for one in checks.of_processes(found, time.time(), "home") if one.id == "R15"]


def test_a_recorder_that_has_received_nothing_has_decoded_nothing() -> None:
    """As one on standby; one that has led before keeps its count."""
    assert recorder(quarantined=0, received=False) == []
    assert recorder(quarantined=0, received=True) == ["ok"]
    assert recorder(quarantined=1, received=True) == recorder(quarantined=1, received=False) == ["warning"]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("topolog-system/recorder-a", "kubectl -n topolog-system logs recorder-a --all-containers"),
        ("http://127.0.0.1:8082", "see the log of the process at http://127.0.0.1:8082"),
    ],
)
def test_the_log_of_a_process_is_named(name: str, fix: str) -> None:
    stale: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {
        "topolog_watch_last_progress_timestamp_seconds": (({"kind": "pods"}, 0.0),)
    }
    process = process_facts.Process(name, metrics.RECORDER, problems=("lag: 40 s behind",), samples=stale)
    found = {one.id: one for one in checks.of_processes([process], time.time(), "topolog-system")}
    assert found["R01"].fix == f"{fix}, which has the reason of what was seen"
    assert found["R06"].fix == f"{fix}, which has the failures of its watches"
