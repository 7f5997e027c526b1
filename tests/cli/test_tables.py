"""Cells, headings and columns of tables."""

import sys
import types

import click
import pytest

from app.cli.get import printers
from app.cli.output import markdown_text, tables


def test_objects_of_a_list_are_apart_in_a_cell() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    assert tables.cell(taints) == "key=a, effect=NoSchedule; key=b, effect=NoExecute"
    assert tables.cell(["a", "b"]) == "a, b"
    assert tables.cell(["one, or another", "a third"]) == "one, or another; a third"


@pytest.mark.parametrize(
    ("field", "heading"),
    [("name", "NAME"), ("inFlight", "IN FLIGHT"), ("waitingForBindChildren", "WAITING FOR BIND CHILDREN")],
)
def test_a_heading_has_the_words_of_the_field(field: str, heading: str) -> None:
    assert tables.heading(field) == heading


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0s"), (119.0, "119s"), (120.0, "2m"), (7_200.0, "2h"), (15_674_460.0, "181d"), (None, None)],
)
def test_an_age_is_in_its_largest_unit(seconds: float | None, shown: str | None) -> None:
    assert tables.pick({"age": seconds}, "age~") == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0.0s"), (0.379, "0.4s"), (10.2, "10s"), (1158.772, "19m"), (-1.0, "-")]
)
def test_a_duration_of_an_object_has_its_unit(
    seconds: float, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printers.show_one({"age": seconds, "seconds": seconds, "epoch": 1.5}, "nodes")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["age", shown], ["seconds", shown], ["epoch", "1.5"]]


def test_a_number_that_would_be_read_as_a_count_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    printers.show_one({"facts": {"nodes": 12}, "passes": 2}, "consistency")
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["facts (offset when last compared)", "nodes=12"]
    assert rows[2][0] == "passes"


def test_an_object_begins_with_the_fields_of_its_list_and_each_nested_field_has_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = {"spec": {"taints": [], "unschedulable": True}, "metadata": {"labels": {"zone": "a", "rack": "b"}}}
    printers.show_one({"allocatable": {"cpu": 8}, "node": node, "remaining": {"cpu": 7}}, "nodes")
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        "remaining cpu=7",
        "allocatable cpu=8",
        "node.spec.taints -",
        "node.spec.unschedulable yes",
        "node.metadata.labels zone=a, rack=b",
    ]


def test_rows_of_an_object_begin_with_namespace_name_and_state(capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"created": "", "name": "web-0", "namespace": "shop", "state": "bound"}
    printers.show_one({"pods": [pod]}, "nodes")
    assert "NAMESPACE  NAME   STATE  CREATED" in capsys.readouterr().out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 20 columns."""
    stdout = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("app.cli.output.tables.sys", types.SimpleNamespace(stdout=stdout))
    monkeypatch.setenv("COLUMNS", "20")


@pytest.mark.usefixtures("terminal")
def test_a_line_that_does_not_fit_on_the_terminal_shows_that_it_was_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("web-0", "no capacity in zone a"), ("web-1", "fits here 20")]
    with click.Context(click.Command("get")):
        tables.show(["POD", "REASON"], rows)
        tables.show(["POD", "REASON"], rows)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:3] == ["POD    REASON", "web-0  no capacit...", "web-1  fits here 20"]
    assert shown.err == "lines are cut at 20 columns; through a pipe (| cat) they are whole\n"


def test_columns_of_words_share_the_width_that_names_leave(
    terminal: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = ("shop/web-0", "no capacity in zone a of the policy", "one more replica")
    with click.Context(click.Command("get")):
        tables.Table(["POD", "REASON", "CHANGE"], wide=True).write([row, ("x", "short one", "-")])
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "POD         REASON         CHANGE",
        "shop/web-0  no capacit...  one more r...",
        "x           short one      -",
    ]
    assert (
        shown.err == "lines are cut at 40 columns; with -o wide, or through a pipe (| cat), they are whole\n"
    )
    monkeypatch.setenv("COLUMNS", "30")
    tables.Table(["POD", "REASON", "CHANGE"]).write([row])
    assert capsys.readouterr().out.splitlines()[1] == "shop/web-0  no capacity in ..."


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("0 of 12 nodes fit: 12 no capacity", "no capacity"),
        ("0 of 12 nodes fit: 11 no capacity; 1 other", "0 of 12 nodes fit: 11 no capacity; 1 other"),
        ("0 of 12 nodes fit: 1 no capacity", "0 of 12 nodes fit: 1 no capacity"),
        ("", ""),
        (None, None),
    ],
)
def test_a_reason_of_all_nodes_has_no_number_of_nodes(reason: str | None, shown: str | None) -> None:
    assert tables.pick({"reason": reason}, "reason!") == shown


@pytest.mark.usefixtures("terminal")
def test_what_fits_and_a_whole_table_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(["POD"], [("x" * 20,)])
    tables.Table(["POD"], whole=True).write([("x" * 21,)])
    shown = capsys.readouterr()
    assert shown.out.split() == ["POD", "x" * 20, "POD", "x" * 21]
    assert shown.err == ""


def test_a_text_in_markdown_is_rendered_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# shop/web-0\n\n| node | score |\n| --- | ---: |\n| n1 | 7 |"
    markdown_text.show(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    markdown_text.show(text)
    shown = capsys.readouterr().out
    assert "shop/web-0" in shown
    assert "| ---" not in shown
    monkeypatch.setitem(sys.modules, "rich", None)
    markdown_text.show(text)
    assert capsys.readouterr().out == f"{text}\n"
