"""``--save``: the situation of a question is kept in a file, and asked about again."""

import json
import pathlib

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.questions import Run

GIVEN = """
overrides: [{op: cordon, nodes: [host-1]}]
configuration:
  scoreMax: 20
  weights: {JobAffinity: 2, WorkloadPolicy: 2}
  args: {JobAffinity: {all_namespaces: true}, WorkloadPolicy: {enforce: selected, max_woken: 5}}
"""
"""A situation of a file; options add to it."""
EDIT = (
    *("--scale", "shop/spread", "host=5", "--weights", "WorkloadPolicy=3"),
    *("--configuration", '{"args": {"WorkloadPolicy": {"max_woken": 6}}}'),
)
WHOLE = {
    "overrides": [
        {"op": "cordon", "nodes": ["host-1"]},
        {"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "5"}},
    ],
    "configuration": {
        "scoreMax": 20,
        "weights": {"JobAffinity": 2, "WorkloadPolicy": 3},
        "args": {
            "JobAffinity": {"all_namespaces": True},
            "WorkloadPolicy": {"enforce": "selected", "max_woken": 6},
        },
    },
}


@pytest.fixture
def decided(six: api_worlds.World) -> None:
    """The two that wait were decided about."""
    api_worlds.decide(six, api_worlds.pod("a-5"), api_worlds.pod("a-6"))


@pytest.mark.usefixtures("decided")
@pytest.mark.parametrize(
    ("question", "moment"),
    [
        (("simulate", "--pending"), ("--at", "12")),
        (("fit", "shop/a-5"), ("--at", "12")),
        (("diff", "2"), ("12",)),
        (("replay", "--from", "1"), ()),
    ],
)
def test_a_situation_is_saved_whole_over_what_the_file_had(
    run: Run, tmp_path: pathlib.Path, question: tuple[str, ...], moment: tuple[str, ...]
) -> None:
    given, saved = tmp_path / "given.yaml", tmp_path / "saved.json"
    given.write_text(GIVEN)
    saved.write_text("x" * 10_000)
    asked = run(*question, *moment, "--situation", str(given), *EDIT, "--save", str(saved), "-o", "json")
    assert asked.returncode in (0, 1), asked.stderr
    assert json.loads(saved.read_text()) == {**WHOLE, **({"at": "12"} if moment else {})}
    again = run(*question, "--situation", str(saved), "-o", "json")
    answer, other = (json.loads(one.stdout) for one in (asked, again))
    assert {**answer, "spentMs": 0} == {**other, "spentMs": 0}


@pytest.mark.parametrize(
    "question", [("simulate", "--pending"), ("fit", "shop/a-5"), ("diff", "2"), ("replay",)]
)
def test_a_file_that_cannot_be_written_is_named(run: Run, question: tuple[str, ...]) -> None:
    done = run(*question, "--save", "/proc/nonexistent/a")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "topolog: cannot write /proc/nonexistent/a: No such file or directory\n"


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (("simulate", "--pending", "--preemption"), "--preemption requires one pod"),
        (("fit", "shop/a-5", "--group", "shop/a"), "--group names the pods"),
        (("diff",), "name a moment or a situation"),
        (("replay",), "not of the moment `at`"),
        (("replay", "--choice", "best"), "--choice requires --chain"),
    ],
)
def test_a_mistake_replaces_no_saved_situation(
    run: Run, tmp_path: pathlib.Path, question: tuple[str, ...], sentence: str
) -> None:
    saved, given = tmp_path / "saved.json", tmp_path / "given.json"
    saved.write_text("{}")
    given.write_text('{"at": "9"}')
    situation = () if question[0] == "diff" else ("--situation", str(given))
    done = run(*question, *situation, "--save", str(saved))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert saved.read_text() == "{}"
