"""A plugin of pytest: reports which acceptance scenarios were shown, by the marks of their tests."""

import itertools
import json
import pathlib

import pytest

_TESTS = pathlib.Path(__file__).parent.parent
_REPORTS = _TESTS.parent / "build"
_OUTCOMES: dict[str, dict[str, str]] = {}
"""Scenario -> test -> outcome."""
_SCENARIO = "scenario"
"""What a report names a scenario as among its properties."""
_APART = ("browser", "e2e")
"""Markers that are also the names of folders."""
_WORST = ("failed", "skipped", "passed")
"""One failed test fails the scenario; a scenario that was only skipped was not shown."""


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
    found = {identity: _OUTCOMES[identity] for identity in sorted(_OUTCOMES, key=_natural)}
    terminalreporter.section("scenarios")
    config = terminalreporter.config
    name = None
    # Some tests would not cover the rest.
    if not config.getoption("keyword") and not config.getoption("lf", default=False):
        name = file_of(config.getoption("markexpr"), [pathlib.Path(each).resolve() for each in config.args])
    if name is not None:
        _REPORTS.mkdir(exist_ok=True)
        (_REPORTS / name).write_text(json.dumps(document(found), indent=2) + "\n")
        terminalreporter.write_line(f"outcomes: build/{name}")
    for outcome in _WORST:
        named = [identity for identity, tests in found.items() if _outcome(tests) == outcome]
        if named:
            terminalreporter.write_line(f"{outcome} ({len(named)}): {' '.join(named)}")


def file_of(markers: str, folders: list[pathlib.Path]) -> str | None:
    """The name of the report of a run, by its expression of markers; None if it is not a run of all tests.

    The tests in Chromium and with a control plane have reports of their own: some show again what a test
    without them shows.
    """
    if markers in _APART:
        return f"scenarios-{markers}.json" if folders == [_TESTS / markers] else None
    return "scenarios.json" if folders == [_TESTS] else None


def document(found: dict[str, dict[str, str]]) -> dict[str, object]:
    """The report: each scenario with its outcome and its tests. ``found``: scenario -> test -> outcome."""
    return {
        identity: {"outcome": _outcome(tests), "tests": dict(sorted(tests.items()))}
        for identity, tests in found.items()
    }


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
