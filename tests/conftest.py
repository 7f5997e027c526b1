"""What every test may ask for: a real server, a fresh store on it, and the report of the scenarios."""

import itertools
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import hypothesis
import pytest

from app import settings
from app.store import schemas, stores
from app.store.server import connections, embedded
from app.telemetry import calls
from tests.support import declared

# How long one example takes is a matter of what else the machine does. A profile that was chosen stays.
hypothesis.settings.register_profile("unhurried", deadline=None)
if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.load_profile("unhurried")

_REPORTS = Path(__file__).parent.parent / "build"
_OUTCOMES: dict[str, dict[str, str]] = {}
"""Scenario -> test -> outcome."""
_SCENARIO = "scenario"
"""What a report names a scenario as among its properties."""
_WORST = ("failed", "skipped", "passed")
"""One failed test fails the scenario; a scenario that was only skipped was not shown."""


@pytest.fixture(scope="session", autouse=True)
def _nothing_hidden() -> Iterator[None]:
    """A process hides from the collector what it reads at its start; here thousands of them start in one."""
    with mock.patch("gc.freeze"):
        yield


@pytest.fixture(autouse=True)
def _call_lines() -> Iterator[None]:
    """The lines of calls are written a moment later: pytest captures them only before the test ends."""
    yield
    calls.out.flush()


@pytest.fixture(scope="session")
def store_server() -> Iterator[embedded.Server]:
    """One server process for the whole run; each test has a cluster of its own in it."""
    server = embedded.Server()
    yield server
    server.stop()


@pytest.fixture
def cluster() -> str:
    """A cluster name that no other test has."""
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def store(store_server: embedded.Server, cluster: str) -> Iterator[stores.Store]:
    """A fresh store, migrated and opened; its threads are not started."""
    client = connections.connect(store_server.url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()
    opened = stores.open_store(
        settings.Store(url=store_server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=("app", "rl-job-group"),
    )
    yield opened
    opened.close()


# -- the report of the scenarios -----------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name the scenarios in the reports, which come from another process if several run the tests."""
    for marker in item.iter_markers("scenario"):
        item.user_properties.extend((_SCENARIO, identity) for identity in marker.args)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what became of each test that shows a scenario."""
    decisive = report.when == "call" or report.outcome != "passed"
    for name, identity in report.user_properties if decisive else ():
        if name == _SCENARIO:
            tests = _OUTCOMES.setdefault(str(identity), {})
            tests[report.nodeid] = _worse(report.outcome, tests.get(report.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List each scenario with its outcome; a run of all tests leaves the list for others."""
    if not _OUTCOMES:
        return
    outcomes = {identity: _outcome(_OUTCOMES[identity]) for identity in sorted(_OUTCOMES, key=_natural)}
    terminalreporter.section("scenarios")
    report = _report(terminalreporter.config)
    if report is not None:
        report.parent.mkdir(exist_ok=True)
        report.write_text(json.dumps(outcomes, indent=2) + "\n")
        terminalreporter.write_line(f"outcomes: build/{report.name}")
    for outcome in _WORST:
        named = [identity for identity, found in outcomes.items() if found == outcome]
        if named:
            terminalreporter.write_line(f"{outcome} ({len(named)}): {' '.join(named)}")


def _report(config: pytest.Config) -> Path | None:
    """Where the outcomes go; nowhere if only some tests were chosen, which would not cover the rest.

    The end-to-end run shows some of them once more, and leaves the list of the whole run alone.
    """
    folders = [Path(each).resolve() for each in config.args]
    if config.getoption("keyword") or config.getoption("lf", default=False):
        return None
    if config.getoption("markexpr") == "e2e":
        return _REPORTS / "scenarios-e2e.json" if folders == [Path(__file__).parent / "e2e"] else None
    return _REPORTS / "scenarios.json" if folders == [Path(__file__).parent] else None


def _outcome(tests: dict[str, str]) -> str:
    """Failed beats passed; skipped tests count only if there is no other."""
    found = set(tests.values())
    return next(outcome for outcome in ("failed", "passed", "skipped") if outcome in found)


def _worse(outcome: str, before: str | None) -> str:
    return outcome if before is None else min(outcome, before, key=_WORST.index)


def _natural(identity: str) -> tuple[str, int, str]:
    kind, _, rest = identity.partition("-")
    digits = "".join(itertools.takewhile(str.isdigit, rest))
    return kind, int(digits or 0), rest
