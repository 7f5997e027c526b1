"""The demo, with a smaller crowd: its scenes come out as they say, and what does not is told and counted."""

import functools
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NoReturn

import click.testing
import pytest

from app import cli
from app.simulation import apiservers, demo, scenes, stages, traces


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """Play with few nodes and pods; the folder that everything temporary is made in."""
    generate = traces.generate
    monkeypatch.setattr(traces, "generate", lambda: generate(nodes=300, pods=240))
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, pods=240))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def played() -> click.testing.Result:
    """``topolog demo`` in this process."""
    return click.testing.CliRunner().invoke(cli.topolog, ["demo"], catch_exceptions=False)


def test_every_scene_comes_out_as_it_says_and_nothing_is_left_behind(small: pathlib.Path) -> None:
    done = played()
    assert done.exit_code == 0, done.output
    assert "WRONG" not in done.output
    for title in ("003/1 soft", "003/2 hard", "001 nodes", "000 a job", "at scale"):
        assert title in done.output
    assert "pods placed" in done.output
    assert "What would let it fit" in done.output
    assert "curl -s $A 'https://" in done.output
    assert list(small.iterdir()) == []


def test_an_outcome_that_is_not_what_the_scene_says_is_exit_code_one(
    small: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(stage: stages.Stage) -> Iterator[scenes.Outcome]:
        """A scene that goes wrong."""
        yield scenes.Outcome("wrong scene", "nodes known", "7", str(len(stage.server.objects.all("nodes"))))

    monkeypatch.setattr(scenes, "STORIES", (wrong,))
    done = played()
    assert done.exit_code == 1
    assert "WRONG nodes known: 0  (expected: 7)" in done.output
    assert list(small.iterdir()) == []


def test_what_is_kept_ends_with_topolog_and_says_how(tmp_path: pathlib.Path) -> None:
    (tmp_path / "topolog.log").write_text("topolog up: stopped\n")
    for name in ("ca.crt", "viewer.crt", "viewer.key"):
        (tmp_path / name).touch()
    with apiservers.ApiServer() as server:
        up = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
        stage = stages.Stage(tmp_path, server, "https://127.0.0.1:1", up)
        with pytest.raises(stages.StageFailed, match=r"ended with exit code 3(.|\n)*topolog up: stopped"):
            demo.until_interrupted(stage)


def test_a_stage_that_does_not_come_up_is_one_sentence(
    small: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fallen() -> NoReturn:
        raise stages.StageFailed("topolog up ended with exit code 4")

    monkeypatch.setattr(stages, "raised", fallen)
    done = played()
    assert done.exit_code == 1
    assert "the demo stopped: topolog up ended with exit code 4" in done.output
