"""``topolog fit`` against a real API: what it prints is what simulate takes."""

import shlex

import pytest

from app.verbs.questions import minimal_changes
from tests.support.extender.questions import Run


@pytest.mark.scenario("WI-3")
def test_the_printed_options_make_simulate_fit(run: Run) -> None:
    done = run("fit", "a-5", "-n", "shop")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("0 of 6 nodes fit: 6 workload policy shop/spread: no capacity")
    lines = [line for line in done.stdout.splitlines() if line.startswith("  --override")]
    assert len(lines) == 4
    simulated = run("simulate", "shop/a-5", *shlex.split(lines[0]))
    assert simulated.returncode == 0, simulated.stderr


def test_changes_that_are_not_shown_are_announced(run: Run) -> None:
    assert "\n\n... and more (--most)\n" in run("fit", "shop/a-5", "--most", "3").stdout
    assert "--most" not in run("fit", "shop/a-5", "--most", "4").stdout


def test_an_incomplete_search_names_both_causes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer budget is no remedy for too many changes."""
    monkeypatch.setattr(minimal_changes, "EVALUATED", 0)
    done = run("fit", "shop/a-5", "--allow", "objects")
    assert "too many, or too little time (--budget)" in done.stderr


def test_a_pod_that_fits_is_exit_code_zero(run: Run) -> None:
    done = run("fit", "shop/a-5", "--scale", "shop/spread", "host=9")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stdout.startswith("4 of 6 nodes fit: 2 workload policy shop/spread: no capacity")


@pytest.mark.scenario("WI-11")
def test_a_mistake_is_one_line(run: Run) -> None:
    assert run("fit").returncode == 2
    done = run("fit", "shop/a-5", "--allow", "objcts")
    assert done.returncode == 2
    assert "topolog: --allow: invalid enum value 'objcts'; known: " in done.stderr
