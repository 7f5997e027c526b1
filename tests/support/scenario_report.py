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


def _report(config: pytest.Config) -> pathlib.Path | None:
    """Where the outcomes go; nowhere if only some tests were chosen, which would not cover the rest.

    The end-to-end run shows some of them once more, and leaves the list of the whole run alone.
    """
    folders = [pathlib.Path(each).resolve() for each in config.args]
    if config.getoption("keyword") or config.getoption("lf", default=False):
        return None
    if config.getoption("markexpr") == "e2e":
        return _REPORTS / "scenarios-e2e.json" if folders == [_TESTS / "e2e"] else None
    return _REPORTS / "scenarios.json" if folders == [_TESTS] else None


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
