"""The demo with a smaller cluster: every result is as expected, and one that is not is reported."""

import contextlib
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
from app.kube.client import clients, cluster_identity
from app.simulation import demo, scenes, stages, traces
from app.simulation.apiserver import apiservers
from tests.support import commands, declared, polling
from tests.support.kube import plain_access


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """Reduce the number of nodes and pods; return the directory of all temporary files."""
    generate = traces.generate
    monkeypatch.setattr(traces, "generate", lambda: generate(nodes=300, pods=240))
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, pods=240))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def played() -> click.testing.Result:
    """``topolog demo`` in this process."""
    return click.testing.CliRunner().invoke(cli.topolog, ["demo"], catch_exceptions=False)


def test_every_scene_has_the_expected_results_and_all_files_are_removed(small: pathlib.Path) -> None:
    done = played()
    assert done.exit_code == 0, done.output
    assert "WRONG" not in done.output
    for title in (
        "soft quotas",
        "hard quotas",
        "priority by node label",
        "a job of eight",
        "two gangs",
        "two teams",
        "at scale",
    ):
        assert title in done.output
    assert "pods placed" in done.output
    assert "What would let it fit" in done.output
    assert "topolog explain " in done.output
    end = done.output[done.output.index("The dashboard") :]
    assert "topolog demo --keep" in end
    assert "Two questions to try there" in end
    assert list(small.iterdir()) == []


def test_an_unexpected_result_is_exit_code_one(small: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(stage: stages.Stage) -> Iterator[scenes.Outcome]:
        """A scene with an unexpected result."""
        found = str(len(stage.server.objects.all("nodes")))
        yield scenes.Outcome("wrong scene", "nodes known", "7", found, ("no node was created",))

    monkeypatch.setattr(scenes, "SCENES", (wrong,))
    done = played()
    assert done.exit_code == 1
    assert "WRONG nodes known: 0  (expected: 7)" in done.output
    assert "pending: no node was created" in done.output
    assert list(small.iterdir()) == []


def test_with_keep_the_demo_ends_when_topolog_exits_and_shows_its_log(tmp_path: pathlib.Path) -> None:
    (tmp_path / "topolog.log").write_text("topolog up: stopped\n")
    for name in ("ca.crt", "viewer.crt", "viewer.key"):
        (tmp_path / name).touch()
    with apiservers.ApiServer(declared.SCHEMA) as server:
        up = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
        stage = stages.Stage(tmp_path, server, "https://127.0.0.1:1", up)
        with pytest.raises(stages.StageFailed, match=r"ended with exit code 3(.|\n)*topolog up: stopped"):
            demo.until_interrupted(stage)


@pytest.mark.parametrize(
    ("terminal", "arguments", "kept"),
    [(True, [], True), (False, [], False), (True, ["--end"], False), (False, ["--keep"], True)],
)
def test_the_demo_is_kept_on_a_terminal_unless_an_option_ends_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, arguments: list[str], kept: bool
) -> None:
    asked: list[bool] = []

    def run(_: object, *, keep: bool, dashboard: object) -> bool:
        asked.append(keep)
        return dashboard is not None

    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr("app.cli.demo.on_terminal", lambda: terminal)
    done = click.testing.CliRunner().invoke(cli.topolog, ["demo", *arguments], catch_exceptions=False)
    assert (done.exit_code, asked) == (0, [kept])


def test_commands_find_the_demo_by_its_environment(small: pathlib.Path) -> None:
    with stages.open_stage() as stage:
        node = {"metadata": {"name": "n1", "labels": {}}, "status": {"allocatable": {"pods": "2"}}}
        stage.create("nodes", node)

        def printed(command: str) -> str:
            script = f". {stage.folder / stages.ENVIRONMENT} && {command}"
            clean = {"HOME": str(small), "PATH": "/usr/bin:/bin"}
            done = subprocess.run(
                ["/bin/sh", "-c", script], env=clean, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        polling.eventually(lambda: "n1" in printed("topolog get nodes -o name"), "the node is listed")
        status = printed("topolog status")
        assert "cluster demo" in status
        for process in ("extender", "recorder", "controller", "auditor", "compactor", "view"):
            assert f"\n{process} " in status
        # It asks view.
        assert printed("topolog bisect --exists node:n1").startswith("yes, node:n1 exists, since ")


def test_a_stage_that_fails_to_start_is_one_sentence(
    small: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fallen() -> NoReturn:
        raise stages.StageFailed("topolog up ended with exit code 4")

    monkeypatch.setattr(stages, "open_stage", fallen)
    done = played()
    assert done.exit_code == 1
    assert "the demo failed: topolog up ended with exit code 4" in done.output


def test_a_trace_that_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOG_TRACE", "/nowhere")
    done = played()
    assert done.exit_code == 1
    sentence = " ".join(done.output.split())
    assert "the demo failed: /nowhere/openb_node_list_all_node.csv: No such file or directory" in sentence
    assert "TOPOLOG_TRACE must name a folder" in sentence


def test_without_rich_only_the_demo_ends_with_one_sentence() -> None:
    program = "import sys\nsys.modules['rich'] = None\nfrom app import cli\ncli.main()"
    done = commands.run(["-c", program, "demo"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("topolog: the demo needs the package rich")
    for command in ("score", "get", "status", "doctor", "migrate", "archive"):
        assert commands.run(["-c", program, command, "--help"]).returncode == 0, command


def test_the_cluster_of_a_stage_is_identified_as_a_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_topolog", lambda *_: contextlib.nullcontext(("http://127.0.0.1:9", None)))
    with stages.open_stage() as stage:
        client = clients.Client(plain_access.of(stage.server.url))
        assert cluster_identity.Identity(client).uid()
