"""Every kind of run leaves a report of the scenarios that it has shown."""

import json
import pathlib
import re
import shlex
import subprocess

import pytest

from tests.project import reference_pages
from tests.support import scenario_report

TESTS = reference_pages.ROOT / "tests"


@pytest.mark.parametrize(
    ("target", "name"),
    [("test", "scenarios.json"), ("browser", "scenarios-browser.json"), ("e2e", "scenarios-e2e.json")],
)
def test_each_target_of_make_writes_its_report(target: str, name: str) -> None:
    command = ("make", "--dry-run", "--no-print-directory", target)
    printed = subprocess.run(command, cwd=reference_pages.ROOT, capture_output=True, text=True, check=True)
    (words,) = [found[1] for found in re.finditer(r"-m pytest( .* -m .*)", printed.stdout)]
    given = shlex.split(words)
    markers = given[given.index("-m") + 1]
    # Without a folder pytest runs the testpaths of setup.cfg.
    folders = [word for word in given if word.startswith("tests")] or ["tests"]
    asked = [reference_pages.ROOT / folder for folder in folders]
    assert scenario_report.file_of(markers, asked) == name
    assert name in (reference_pages.ROOT / "docs" / "design" / "scenarios.md").read_text()


@pytest.mark.parametrize(
    ("markers", "folder"),
    [("browser", TESTS), ("e2e", TESTS / "browser"), ("not browser", TESTS / "browser"), ("", TESTS / "api")],
)
def test_some_of_the_tests_leave_the_reports_alone(markers: str, folder: pathlib.Path) -> None:
    assert scenario_report.file_of(markers, [folder]) is None


def test_a_report_has_each_scenario_with_its_tests() -> None:
    found = {"UI-1": {"b": "skipped", "a": "passed"}, "UI-2": {"c": "skipped"}}
    assert json.loads(json.dumps(scenario_report.document(found))) == {
        "UI-1": {"outcome": "passed", "tests": {"a": "passed", "b": "skipped"}},
        "UI-2": {"outcome": "skipped", "tests": {"c": "skipped"}},
    }
