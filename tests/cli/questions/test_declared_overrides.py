"""Options of overrides that plugins declare: each value becomes a field."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
import pytest
from click import testing

from app import cli
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
    @click.command(cls=declared_overrides.Question)
    @click.option("--pod")
    @question_options.situation_options
    def ask(pod: str | None, **options: object) -> None:
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


class CordonRack(supposed_operations.Operation, frozen=True, tag="cordonRack"):
    """Has the name of a usual option."""

    usage = "--cordon RACK"
    rack: str


class Pod(supposed_operations.Operation, frozen=True, tag="pod"):
    """Has the name of an option of the command."""

    pod: str


class CloseAll(supposed_operations.Operation, frozen=True, tag="closeAll"):
    """Has no field."""


@pytest.mark.usefixtures("declared")
def test_an_operation_whose_name_is_taken_has_no_option(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    further = map(supposed_operations.described, (CordonRack, Pod, CloseAll))
    monkeypatch.setattr(declared_overrides, "DECLARED", (*declared_overrides.DECLARED, *further))
    done = called("--cordon", "n1", "--pod", "shop/web", "--close-rack", "r1")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["overrides"] == [
        {"op": "cordon", "nodes": ["n1"]},
        {"op": "closeRack", "rack": "r1"},
    ]
    assert not recwarn.list
    assert "No such option" in called("--close-all", "r1").output


def commands(held: click.Command) -> Iterator[click.Command]:
    if isinstance(held, click.Group):
        context = click.Context(held)
        for name in held.list_commands(context):
            found = held.get_command(context, name)
            assert found is not None
            yield from commands(found)
    else:
        yield held


def test_every_command_with_such_options_keeps_its_own() -> None:
    scaling = [
        one for one in commands(cli.topolog) if any("--scale-gang" in each.opts for each in one.params)
    ]
    assert {one.name for one in scaling} == {"simulate", "fit", "replay", "diff", "set"}
    assert {type(one) for one in scaling} == {declared_overrides.Question}


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
