"""Seeded histories of everything that can happen, and whether they would show a mistake.

A seed that fails is named by the line that repeats it.
"""

from collections.abc import Iterator

import pytest

from app.store import embedded
from tests.campaigns import planting, seeds, sizes

HERE = range(40)
"""Seeds of the default run."""
EASY = (
    "expected versions are not compared",
    "the expected head is not compared",
    "a lost race loses the facts",
    "a promise is given up while its Binding",
)
"""Bugs that the default run plants: each is found within a few seeds."""


@pytest.fixture(scope="module")
def own() -> Iterator[embedded.Server]:
    """A server that a simulation may empty."""
    server = embedded.Server()
    yield server
    server.stop()


def test_every_promise_holds_in_every_history(own: embedded.Server) -> None:
    assert seeds.failing(HERE, own.url) == []


@pytest.mark.parametrize("name", EASY)
def test_a_planted_bug_is_found(own: embedded.Server, name: str) -> None:
    assert seeds.first_to_find(planting.named(name), range(100), own.url) is not None


@pytest.mark.parametrize("bug", planting.BUGS, ids=lambda bug: bug.name)
def test_every_bug_can_be_planted(bug: planting.Bug) -> None:
    with planting.planted(bug):
        pass


@pytest.mark.campaign
def test_every_promise_holds_in_very_many_histories(own: embedded.Server) -> None:
    first = sizes.first_seed()
    assert seeds.failing(range(first, first + sizes.of("SEEDS", 20_000)), own.url) == []


@pytest.mark.campaign
def test_planted_bugs_are_found(own: embedded.Server) -> None:
    """Of twenty at least nineteen, and of more in proportion."""
    many = range(sizes.of("PLANTED_SEEDS", 1000))
    missed = [bug.name for bug in planting.BUGS if seeds.first_to_find(bug, many, own.url) is None]
    print(f"{len(planting.BUGS) - len(missed)} of {len(planting.BUGS)} bugs found; missed: {missed}")
    assert len(planting.BUGS) >= 20
    assert len(missed) * 20 <= len(planting.BUGS), missed
