"""Ctrl-C during `python -m tests.bench`: what was measured is not lost, and what is missing is named."""

import pathlib
from collections.abc import Iterator
from unittest import mock

import pytest
import rich.console

from tests.bench import __main__ as command
from tests.bench import cases, rows, runs


def quick(_: runs.Bench) -> Iterator[rows.Row]:
    yield rows.at_most("quick", "s", ours=1.0, bar=2.0)


def interrupted(_: runs.Bench) -> Iterator[rows.Row]:
    yield rows.at_most("part", "s", ours=1.0, bar=2.0)
    raise KeyboardInterrupt


def test_an_interrupt_ends_the_run_and_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    found = {"quick": quick, "interrupted": interrupted, "later": quick}
    monkeypatch.setattr(cases, "CASES", found)
    bench = runs.Bench(tmp_path, tmp_path, mock.sentinel.programs, 1.0)
    measured, missing = command.measure(rich.console.Console(quiet=True), bench, list(found))
    assert [row.case for row in measured] == ["quick", "part"]
    assert [(each.case, each.reason) for each in missing] == [
        ("interrupted", "interrupted"),
        ("later", "interrupted"),
    ]
