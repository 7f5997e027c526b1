"""What the matrix records, and the page that is made of it."""

import os
import pathlib
import platform
import stat
import subprocess

import msgspec
import pytest

from tests.e2e import control_plane_builds, go_programs
from tests.matrix import dimensions, page, reports, results

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="5" time="12.345">
<testcase classname="gangs" name="test_one" time="1"/>
<testcase classname="gangs" name="test_two" time="1"><failure message="x">...</failure></testcase>
<testcase classname="gangs" name="test_three" time="1"/>
<testcase classname="gangs" name="test_three" time="1"><error message="teardown"/></testcase>
<testcase classname="gangs" name="test_four"><skipped message="no
such gate"/></testcase>
</testsuite></testsuites>
"""


WHOLE = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="4" time="9.5" timestamp="2026-07-01T23:30:00-02:00">
<testcase classname="tests.e2e.gangs.test_gangs" name="test_one" time="1.5"/>
<testcase classname="tests.e2e.gangs.test_gangs.TestMore" name="test_two" time="1">
<failure message="x"/></testcase>
<testcase classname="tests.e2e.gangs.test_jobs" name="test_three" time="2">
<skipped message="no gate"/></testcase>
<testcase classname="tests.e2e.gangs.test_job" name="test_four" time="4"/>
</testsuite></testsuites>
"""


def result(tests: str, version: str = "1.37.0", **changes: object) -> results.Result:
    made = results.Result(
        dimension=dimensions.KUBERNETES,
        version=version,
        tests=tests,
        date="2026-07-01",
        topolog="0.1.0",
        beside="Python 3.11.2, Valkey 9.1.2",
        passed=3,
        seconds=90.0,
    )
    return msgspec.structs.replace(made, **changes)


def everything(version: str = "1.37.0") -> list[results.Result]:
    return [result(row, version) for row in dimensions.rows(dimensions.KUBERNETES)]


def kubernetes_line(recorded: list[results.Result]) -> str:
    (line,) = [each for each in page.summary(recorded).splitlines() if each.startswith("| Kubernetes")]
    return line


def test_a_report_is_counted_by_outcome() -> None:
    found = results.outcome(REPORT)
    assert found == results.Outcome(
        2,
        ("gangs.test_two", "gangs.test_three"),
        {"no such gate": 1},
        12.3,
    )


def test_a_run_of_all_tests_has_a_result_for_each_row_that_it_ran() -> None:
    found = list(reports.rows(WHOLE, dimensions.Version(dimensions.KUBERNETES, "1.37.0")))
    gangs, jobs = found
    assert (gangs.tests, gangs.passed, gangs.failed, gangs.seconds) == (
        "tests/e2e/gangs/test_gangs.py",
        1,
        ("tests.e2e.gangs.test_gangs.TestMore.test_two",),
        2.5,
    )
    assert (jobs.tests, jobs.passed, jobs.skipped) == ("tests/e2e/gangs/test_jobs.py", 0, {"no gate": 1})
    assert {each.date for each in found} == {"2026-07-02"}


def test_a_report_is_of_the_versions_that_it_was_made_with(tmp_path: pathlib.Path) -> None:
    assert list(reports.found(tmp_path)) == []
    for name in ("test.xml", "e2e.xml", "e2e-1.34.4.xml"):
        (tmp_path / name).write_text(WHOLE)
    found = [(path.name, version.dimension, version.name) for path, version in reports.found(tmp_path)]
    assert found == [
        ("test.xml", "Python", platform.python_version()),
        ("test.xml", "Store", dimensions.present_store()),
        ("e2e.xml", "Kubernetes", control_plane_builds.newest()),
        ("e2e-1.34.4.xml", "Kubernetes", "1.34.4"),
    ]


def test_make_leaves_a_report_of_a_run_of_all_tests_only() -> None:
    def command(*words: str) -> str:
        make = ["make", "--dry-run", "--assume-old=.venv/.made-from-the-lock", *words]
        environment = {"PATH": os.environ["PATH"]}
        done = subprocess.run(
            make, cwd=dimensions.ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "--junitxml=build/test.xml" in command("test")
    assert "--junitxml=build/e2e.xml" in command("e2e")
    assert "--junitxml=build/e2e-1.34.4.xml" in command("e2e", "KUBERNETES=1.34.4")
    assert "--junitxml" not in command("test", "TARGET=tests/store")


def test_a_new_result_replaces_that_of_the_same_tests_only(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "results.json"
    results.write(everything(), file)
    new = result("tests/e2e/gangs/test_gangs.py", passed=9)
    results.record([new], file)
    found = results.read(file)
    assert len(found) == len(everything())
    assert [each for each in found if each.passed == 9] == [new]


def test_a_cell_has_the_counts_and_the_day_and_what_was_not_run_is_shown_so() -> None:
    row = "tests/e2e/gangs/test_gangs.py"
    text = page.page([result(row, failed=("tests.e2e.gangs.test_gangs.test_two",), skipped={"no gate": 2})])
    (line,) = [each for each in text.splitlines() if each.startswith(f"| `{row}`")]
    at = control_plane_builds.versions().index("1.37.0")
    cells = [each.strip() for each in line.strip("|").split("|")][1:]
    assert cells[at] == "3 passed, 1 failed, 2 skipped; 2026-07-01"
    assert {*cells[:at], *cells[at + 1 :]} == {"not run"}
    assert "- failed: `tests.e2e.gangs.test_gangs.test_two`\n- 2 skipped: no gate\n" in text
    assert "1.37.0: by Topolog 0.1.0 with Python 3.11.2, Valkey 9.1.2." in text


def test_versions_without_a_column_are_named() -> None:
    text = page.page([])
    for program in go_programs.HELM.values():
        assert f"Helm {program.version.removeprefix('v')}" in text
    assert "3.14: not run." in text
    assert not [each for each in results.read() if each.version.startswith("3.14.")], "it has a column now"


def test_of_many_failures_the_first_are_named() -> None:
    failed = tuple(f"test_{number}" for number in range(8))
    text = page.page([result("tests/e2e/gangs/test_gangs.py", failed=failed)])
    assert "- failed: `test_4`\n- failed: 3 more of `tests/e2e/gangs/test_gangs.py`\n" in text


def test_the_readme_calls_a_version_tested_only_if_everything_passed() -> None:
    assert kubernetes_line([]) == "| Kubernetes | - | - |"
    assert kubernetes_line(everything()) == "| Kubernetes | 1.37.0 | - |"
    assert kubernetes_line(everything()[1:]) == "| Kubernetes | - | 1.37.0 |"
    failed = msgspec.structs.replace(everything()[0], failed=("test_one",))
    assert kubernetes_line([failed, *everything()[1:]]) == "| Kubernetes | - | 1.37.0 |"
    both = [*everything(), *everything("1.34.4"), result("tests/e2e/gangs/test_gangs.py", "1.4.0")]
    assert kubernetes_line(both) == "| Kubernetes | 1.34.4, 1.37.0 | 1.4.0 |"


def test_the_rows_are_the_tests_of_each_kind() -> None:
    rows = dimensions.rows(dimensions.KUBERNETES)
    assert "tests/e2e/gangs/test_gangs.py" in rows
    assert "tests/e2e/harness/test_modules.py" not in rows
    assert {"tests/store", "tests/plugins"} <= set(dimensions.rows(dimensions.PYTHON))
    assert "tests/e2e" not in dimensions.rows(dimensions.PYTHON)
    for dimension in dimensions.DIMENSIONS:
        assert all((dimensions.ROOT / row).exists() for row in dimensions.rows(dimension))


def test_versions_are_selected_by_their_start_and_unknown_ones_are_refused() -> None:
    def names(*wanted: str) -> list[str]:
        return [each.name for each in dimensions.selected(dimensions.KUBERNETES, wanted)]

    assert names("all") == control_plane_builds.versions()
    assert names("1.37", "1.37.0") == ["1.37.0"]
    with pytest.raises(dimensions.Unavailable, match=control_plane_builds.newest()):
        names("1.3")


def test_a_store_is_known_by_what_its_server_reports(tmp_path: pathlib.Path) -> None:
    server = tmp_path / "some-server"
    server.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=00000000:0 bits=64'\n")
    server.chmod(server.stat().st_mode | stat.S_IXUSR)
    (found,) = dimensions.selected(dimensions.STORE, [str(server)])
    assert [each.name for each in dimensions.selected(dimensions.STORE, ["valkey-9.0"])] == ["Valkey 9.0.0"]
    assert (found.name, found.path) == ("Redis 7.0.15", server)
    server.write_text("#!/bin/sh\necho something else\n")
    with pytest.raises(dimensions.Unavailable, match="neither Redis nor Valkey"):
        dimensions.store(server)
