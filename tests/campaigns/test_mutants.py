"""Every mistake in the function and in the fold is noticed by a test, or explained: one in ten at most."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.campaigns import mutation
from tests.support.campaigns import sizes

ROOT = pathlib.Path(__file__).parent.parent.parent
SHARE = 0.1


def tried(subject: str, *words: str) -> list[mutation.Outcome]:
    """What became of the mutants; in a process of its own, which forks."""
    command = [sys.executable, "-m", "tests.campaigns.mutation", subject, *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [
        mutation.Outcome(**json.loads(line)) for line in ended.stdout.splitlines() if line.startswith("{")
    ]
    assert found, ended.stderr
    return found


def survivors(subject: str, found: list[mutation.Outcome]) -> list[str]:
    """The mutants that no test noticed, and what to type to try them again."""
    broken = [one for one in found if one.outcome not in ("killed", "late", "survived", "invalid")]
    assert not broken
    return [
        f"python -m tests.campaigns.mutation {subject} {one.name!r}"
        for one in found
        if one.outcome == "survived"
    ]


@pytest.mark.parametrize("subject", sorted(mutation.SUBJECTS))
def test_a_few_mutants_are_noticed(subject: str) -> None:
    """Conditions that are negated: who does not notice that notices nothing."""
    sample, seed = sizes.of("FEW_MUTANTS", 1), sizes.first_seed()
    found = tried(subject, "--sample", str(sample), "--seed", str(seed), "--operator", "negate")
    assert len(found) == sample
    assert survivors(subject, found) == []


@pytest.mark.parametrize("subject", sorted(mutation.SUBJECTS))
def test_what_is_explained_is_there(subject: str) -> None:
    """An explanation outlives its mutant when code changes: then it has to go."""
    assert set(mutation.explained(subject)) <= set(mutation.chosen(subject))


@pytest.mark.campaign
@pytest.mark.parametrize("subject", sorted(mutation.SUBJECTS))
def test_all_mutants_are_noticed_or_explained(subject: str) -> None:
    """CAMPAIGN_MUTANTS: a sample of so many of those that are not explained; 0 for all there are."""
    sample = sizes.of("MUTANTS", 0)
    words = ["--sample", str(sample), "--seed", str(sizes.first_seed())] if sample else []
    found = tried(subject, *words)
    excused = mutation.explained(subject)
    valid = [one for one in found if one.outcome != "invalid"]
    survived = [one.name for one in valid if one.outcome == "survived"]
    print(f"{subject}: {len(valid)} mutants, {len(survived)} survived")
    unexplained = [one for one in valid if one.name not in excused]
    assert survivors(subject, unexplained) == []
    assert len(survived) <= SHARE * len(valid)
