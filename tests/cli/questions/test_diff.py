"""``topolog diff`` against a real API."""

import pathlib

import pytest

from app.cli.client import api_client
from app.cli.questions import question_options
from tests.support.extender import api_worlds, questions
from tests.support.extender.questions import Run


def test_differences_are_rows_and_exit_code_one(run: Run) -> None:
    start = run.world.store.follower.catch_up().offset
    run.world.append(api_worlds.pod_seen("a-5", "host-4"))
    done = run("diff", str(start))
    assert done.returncode == 1, done.stderr
    assert "counts   changed  shop/spread|role=host  count: 3 -> 4" in done.stdout
    assert questions.differing(run, str(start)) == [
        "counts/shop/spread|role=host",
        "pending/shop/a-5",
        "pods/shop/a-5",
    ]


def test_equal_moments_are_exit_code_zero(run: Run) -> None:
    done = run("diff", "5", "5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing differs\n")
    assert run("diff", "999999").returncode == 2


def test_the_moments_of_a_diff_are_waited_for_as_its_situations_are(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are the same work."""
    waits: list[float] = []
    patient = api_client.ExtenderClient._patient

    def noted(client: api_client.ExtenderClient, timeout: float) -> api_client.ExtenderClient:
        waits.append(timeout)
        return patient(client, timeout)

    monkeypatch.setattr(api_client.ExtenderClient, "_patient", noted)
    run("diff", "5", "5")
    run("diff", "5", "5", "--cordon", "host-1")
    assert waits == [question_options.MAX_WAIT] * 2


def test_the_effect_of_overrides_is_shown(run: Run, tmp_path: pathlib.Path) -> None:
    done = run("diff", "--cordon", "host-1", "--only", "nodes")
    assert done.returncode == 1, done.stderr
    assert "nodes    changed  host-1  unschedulable: - -> true" in done.stdout
    file = tmp_path / "situation.json"
    file.write_text('{"overrides": [{"op": "cordon", "nodes": ["host-1"]}]}')
    both = ("--from-situation", str(file), "--situation", str(file))
    assert run("diff", *both).returncode == 0
    assert questions.differing(run, *both, "--uncordon", "host-1") == ["nodes/host-1"]


def test_a_measure_counts_the_nodes_that_have_more_and_wide_shows_what_began(run: Run) -> None:
    start = str(run.world.store.follower.catch_up().offset)
    run.world.append(api_worlds.pod_seen("a-5", "host-4"), api_worlds.pod_seen("new"))
    done = run("diff", start, "--measure", "pods")
    assert "PODS      NODES\nthe same  5\nless      0\nmore      1\ngone      0\nnew       0" in done.stdout
    assert "namespace: - -> shop" not in done.stdout
    wide = run("diff", start, "--only", "pods", "-o", "wide")
    assert "namespace: - -> shop" in wide.stdout
    assert run("diff", start, "--measure", "colour").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a moment or a situation"),
        (("5", "--from-situation", "x"), "FROM and --from-situation exclude each other"),
        (("--cordon", "n9"), "topolog: --cordon: there is no node n9"),
    ],
)
def test_a_mistake_is_a_usage_error(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run("diff", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
