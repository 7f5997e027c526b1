"""Every boundary of every append, bind, takeover, failover, checkpoint, trim and migration, times three.

A process dies before its call takes effect, or after, or lives and the answer is lost: in the end it is as
if nothing had happened.
"""

import pathlib
import random
from collections.abc import Callable, Iterator

import pytest

from app.store.server import embedded
from tests.support.campaigns import crash_matrix, crash_story, migration_crashes, sizes
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lossy_calls

Make = Callable[[int, str], crash_story.Story | migration_crashes.Migration]
SCHEMAS = (0, 1)


@pytest.fixture
def server() -> Iterator[embedded.Server]:
    """Its own: it is emptied time and again."""
    made = embedded.Server()
    yield made
    made.stop()


def crash(make: Make, sample: int, what: str) -> crash_matrix.Matrix:
    """Crash at every boundary in every way, or at a sample of them; return the undisturbed run."""
    undisturbed = make(-1, "")
    expected = undisturbed.run()
    cases = [(boundary, way) for boundary in range(len(undisturbed.passed)) for way in lossy_calls.WAYS]
    only = sizes.of("BOUNDARY", len(cases))
    if only < len(cases):
        cases = [case for case in cases if case[0] == only]
    elif sample:
        cases = random.Random(sizes.first_seed()).sample(cases, min(sample, len(cases)))
    for boundary, way in cases:
        case = f"{what}: {way} {undisturbed.passed[boundary]}, boundary {boundary}"
        made = make(boundary, way)
        try:
            found = made.run()
        except guarantees.Broken as broken:
            raise AssertionError(f"{case}: {broken}; {_repeat(boundary)}") from broken
        assert len(made.passed) > boundary, case
        assert found == expected, f"{case}: {_differences(expected, found)}; {_repeat(boundary)}"
    print(f"{what}: {len(undisturbed.passed)} boundaries, {len(cases)} crashes")
    return undisturbed


def _differences(expected: dict[str, object], found: dict[str, object]) -> dict[str, object]:
    return {key: (value, found[key]) for key, value in expected.items() if value != found[key]}


def _repeat(boundary: int) -> str:
    return f"repeat: make campaign TARGET=tests/campaigns/test_crashes.py CAMPAIGN_BOUNDARY={boundary}"


def test_wherever_a_process_dies_the_end_is_the_same(server: embedded.Server, tmp_path: pathlib.Path) -> None:
    crash(lambda *at: crash_story.Story(server.url, tmp_path, *at), sizes.of("FEW_CRASHES", 8), "the story")
    crash(lambda *at: migration_crashes.Migration(server.url, 1, *at), sizes.of("FEW_CRASHES", 8), "schema 1")


@pytest.mark.campaign
def test_every_crash_of_the_story(server: embedded.Server, tmp_path: pathlib.Path) -> None:
    made = crash(lambda *at: crash_story.Story(server.url, tmp_path, *at), 0, "the story")
    assert set(made.passed) == {
        *("APPEND", "REWIND", "DOUBT", "TRIM", "Binding", "Lease", "SET", "transaction", "file")
    }


@pytest.mark.campaign
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_crash_of_a_migration(server: embedded.Server, schema: int) -> None:
    made = crash(lambda *at: migration_crashes.Migration(server.url, schema, *at), 0, f"schema {schema}")
    assert made.passed
