"""Options of overrides that plugins declare: each value becomes a field."""

import json
import re
from collections.abc import Sequence
from typing import Any

import click
import pytest
from click import testing

from app.cli.questions import declared_overrides, question_options
from app.framework import supposed_operations
from tests.support.decisions import rack_operations as racks


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[type[supposed_operations.Operation]] = [
        racks.DrainRack,
        racks.RenameRack,
        racks.CloseRack,
        racks.WeighRacks,
    ]
    described = tuple(supposed_operations.described(one) for one in found)
    monkeypatch.setattr(declared_overrides, "DECLARED", described)


def called(*words: str) -> testing.Result:
    @click.command()
    @question_options.situation_options
    def ask(**options: object) -> None:
        click.echo(json.dumps(question_options.situation(options)))

    return testing.CliRunner().invoke(ask, words)


@pytest.mark.parametrize(
    ("words", "override"),
    [
        (("--rename", "r1", "1"), {"op": "renameRack", "rack": "r1", "name": "1"}),
        (("--close-rack", "r1"), {"op": "closeRack", "rack": "r1"}),
        (
            ("--weigh-racks", "a", "r1=2,r=2=3"),
            {"op": "weighRacks", "row": "a", "weights": {"r1": 2, "r=2": 3}},
        ),
        (
            ("--drain-rack", "r1", "limits.cpu=2,but=n1,share=0.5,limits.gpu=few"),
            {
                "op": "drainRack",
                "rack": "r1",
                "limits": {"cpu": 2, "gpu": "few"},
                "but": ["n1"],
                "share": "0.5",
            },
        ),
    ],
)
@pytest.mark.usefixtures("declared")
def test_the_values_become_fields_of_the_override(words: Sequence[str], override: dict[str, Any]) -> None:
    done = called("--cordon", "n1", *words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["overrides"] == [{"op": "cordon", "nodes": ["n1"]}, override]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (("--weigh-racks", "a", "r1"), "--weigh-racks: r1 is not NAME=VALUE"),
        (("--drain-rack", "a", "limit.cpu=1"), "there is no field limit; known: but, limits, share"),
        (("--drain-rack", "a", "limits=1"), "limits needs a key: limits.KEY=1"),
    ],
)
@pytest.mark.usefixtures("declared")
def test_a_mistake_names_the_option(words: Sequence[str], mistake: str) -> None:
    done = called(*words)
    assert done.exit_code == 2
    assert mistake in re.sub(r"\s+", " ", done.output)


def test_the_amounts_of_a_quota_are_changed() -> None:
    done = called("--scale-quota", "quotas/team-a", "max.nvidia.com/gpu=+2,min.cpu=4")
    assert json.loads(done.output)["overrides"] == [
        {"op": "scaleQuota", "quota": "quotas/team-a", "max": {"nvidia.com/gpu": "+2"}, "min": {"cpu": "4"}}
    ]


def test_the_configuration_as_json_is_completed_by_the_other_options() -> None:
    given = {"args": {"WorkloadPolicy": {"max_woken": 5}}, "weights": {"JobAffinity": 1, "WorkloadPolicy": 1}}
    done = called("--configuration", json.dumps(given), "--weights", "WorkloadPolicy=3", "--enable", "A,B")
    assert json.loads(done.output) == {
        "configuration": {
            "args": given["args"],
            "weights": {"JobAffinity": 1, "WorkloadPolicy": 3},
            "enabled": ["A", "B"],
        }
    }
    wrong = called("--configuration", "[]")
    assert (wrong.exit_code, "--configuration: must be an object" in wrong.output) == (2, True)
