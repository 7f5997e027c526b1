"""Questions about a range of which the log no longer has the first events."""

import pytest

from app.verbs.questions import replays
from tests.support.extender import api_worlds, questions


@pytest.fixture
def trimmed(six: api_worlds.World) -> api_worlds.World:
    """F6, whose first event is gone: the oldest state is that of a checkpoint between two decisions."""
    store = six.store
    api_worlds.decide(six, api_worlds.pod("a-5"))
    six.append(api_worlds.pod_seen("later"))
    store.follower.catch_up()
    snapshot, at = store.follower.dated()
    header = store.checkpoints.write(snapshot, at or 0)
    six.append(api_worlds.pod_seen("newest"))
    api_worlds.decide(six, api_worlds.pod("a-6"))
    assert store.log.trim(2, header.offset, reader_timeout=-1.0)
    assert 1 < store.log.oldest() < store.histories.reachable()
    return six


@pytest.mark.parametrize("chain", [(), ("--chain",)])
def test_a_gate_whose_time_is_older_than_the_log_begins_at_its_oldest_state(
    run: questions.Run, trimmed: api_worlds.World, chain: tuple[str, ...]
) -> None:
    done = run("replay", "--since", "2000-01-01T00:00:00Z", "--fail-on", "refused", *chain)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, ONE)
    oldest = trimmed.store.histories.reachable()
    assert f"note: events before offset {oldest} are no longer kept\n" in done.stderr


def test_the_rest_of_a_range_does_not_name_its_start_again(
    trimmed: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events may be gone by then."""
    monkeypatch.setattr(replays, "MOST", 1)
    asked = {"from": "2000-01-01T00:00:00Z"}
    first = questions.ask(trimmed, "replay", **asked)
    rest = questions.ask(trimmed, "replay", **asked, **{"continue": first["continue"]})
    kept = [[limit for limit in one["limits"] if "no longer kept" in limit] for one in (first, rest)]
    assert [len(sentences) for sentences in kept] == [1, 0]


ONE = "1 decisions compared, 1 would have been the same"


def test_a_range_without_from_begins_at_the_oldest_state(
    run: questions.Run, trimmed: api_worlds.World
) -> None:
    played = run("replay", "--chain")
    assert (played.returncode, played.stdout.splitlines()[0]) == (0, ONE), played.stderr
    start = trimmed.store.histories.at(trimmed.store.histories.reachable()).position
    for condition in (("--exists", "node:host-1"), ("shop/a-5",)):
        found = run("bisect", *condition)
        assert f"; no change since {start}" in found.stdout, found.stderr
