"""``topolog_ready``: the checks of /readyz, also where nothing asks for them."""

import threading
import wsgiref.types
from collections.abc import Iterator

import pytest
from prometheus_client import registry

from app.serving import probe_server
from app.telemetry import metrics, probes, readiness
from tests.support import polling

WITHIN = 30.0
"""Seconds."""
PROBLEMS: dict[str, str | None] = {}


@pytest.fixture
def shown() -> Iterator[registry.CollectorRegistry]:
    """The metrics of a controller whose checks are those in PROBLEMS."""
    made = registry.CollectorRegistry()
    made.register(readiness.READY)
    PROBLEMS.clear()
    yield made
    readiness.READY.clear()


def ready(made: registry.CollectorRegistry) -> float | None:
    return made.get_sample_value("topolog_ready", {"process": metrics.CONTROLLER})


def probed(application: wsgiref.types.WSGIApplication, path: str) -> bytes:
    return probe_server.respond(application, f"GET {path} HTTP/1.1\r\n\r\n".encode())


def test_readiness_follows_the_checks_without_a_probe(shown: registry.CollectorRegistry) -> None:
    measured = readiness.Readiness(metrics.CONTROLLER, lambda: PROBLEMS)
    assert ready(shown) is None
    measured.start()
    try:
        polling.eventually(lambda: ready(shown) == 1, "the checks run", within=WITHIN)
    finally:
        measured.stop()


def test_a_probe_sets_the_metric_too(shown: registry.CollectorRegistry) -> None:
    application = probes.application(readiness.Readiness(metrics.CONTROLLER, lambda: PROBLEMS).measure, shown)
    for problems, value, status in (
        ({"store": None, "lag": "40 s behind"}, 0, b"503"),
        ({"store": None, "lag": None}, 1, b"200"),
    ):
        PROBLEMS.update(problems)
        assert probed(application, "/readyz").split()[1] == status
        line = f'topolog_ready{{process="controller"}} {float(value)}\n'.encode()
        assert line in probed(application, "/metrics")


def test_a_scrape_does_not_wait_for_the_checks(shown: registry.CollectorRegistry) -> None:
    """As of a store that hangs; before their first result a process is not ready."""
    asked, answered = threading.Event(), threading.Event()

    def checks() -> dict[str, str | None]:
        asked.set()
        assert answered.wait(WITHIN)
        return {}

    measured = readiness.Readiness(metrics.CONTROLLER, checks)
    application = probes.application(measured.measure, shown)
    measured.start()
    try:
        assert asked.wait(WITHIN)
        assert b'topolog_ready{process="controller"} 0.0\n' in probed(application, "/metrics")
        assert not answered.is_set()
        answered.set()
        polling.eventually(lambda: ready(shown) == 1, "the checks have passed", within=WITHIN)
    finally:
        answered.set()
        measured.stop()


def test_checks_that_raise_an_error_have_not_passed(shown: registry.CollectorRegistry) -> None:
    def failing() -> dict[str, str | None]:
        raise KeyError("lag")

    readiness.Readiness(metrics.CONTROLLER, lambda: {}).measure()
    assert ready(shown) == 1
    with pytest.raises(KeyError):
        readiness.Readiness(metrics.CONTROLLER, failing).measure()
    assert ready(shown) == 0


def test_the_checks_of_a_later_part_of_a_process_count(shown: registry.CollectorRegistry) -> None:
    """As of a process that has waited for its store."""
    readiness.Readiness(metrics.CONTROLLER, lambda: {}).measure()
    later = readiness.Readiness(metrics.CONTROLLER, lambda: {"state": "reading the log"})
    assert ready(shown) == 1
    later.measure()
    assert ready(shown) == 0


def test_a_result_that_is_older_than_the_one_shown_is_dropped(shown: registry.CollectorRegistry) -> None:
    """A run that began while the process was ready ends after one that found a problem."""
    begun, go_on = threading.Event(), threading.Event()
    problems: list[dict[str, str | None]] = [{"store": "away"}, {}]

    def checks() -> dict[str, str | None]:
        found = problems.pop()
        if not found:
            begun.set()
            assert go_on.wait(WITHIN)
        return found

    measured = readiness.Readiness(metrics.CONTROLLER, checks)
    older = threading.Thread(target=measured.measure)
    older.start()
    try:
        assert begun.wait(WITHIN)
        measured.measure()
    finally:
        go_on.set()
        older.join()
    assert ready(shown) == 0
