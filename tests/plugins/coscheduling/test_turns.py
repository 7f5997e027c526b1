"""Many gangs that wait have their turns: a call of the controller plans a few of them."""

from unittest import mock

import pytest

from app.domain import events
from app.framework import effects
from app.plugins.coscheduling import endpoints, status
from app.plugins.coscheduling.membership import GangKey
from tests.support.decisions.gang_effects import PLUGIN, members, posted, woken
from tests.support.decisions.small_gangs import Cluster, node, pod, sigs

LIMIT, COUNT = 4, 15
NAMES = [f"g{number:02}" for number in range(COUNT)]


class Calls:
    """Calls of ``reconcile``, each of which gets what the former one has put off."""

    def __init__(self, small: Cluster) -> None:
        self.small = small
        self.left: object = None
        self.found: list[effects.Effect] = []

    def call(self, *happened: events.AnyEvent, everything: bool = False, missed: bool = False) -> None:
        before = None if everything else self.small.snapshot
        self.small.take(*happened)
        changes = effects.Changes(before, happened, missed=missed, left=self.left)
        with mock.patch.object(endpoints, "planned", wraps=endpoints.planned) as planned:
            found = list(PLUGIN.reconcile(self.small.snapshot, changes))
        keys: set[GangKey] = {call.args[2].key for call in planned.call_args_list}
        assert len(keys) <= LIMIT
        later = [one for one in found if isinstance(one, effects.PutOff)]
        self.left = later[0].left if later else None
        self.found += [one for one in found if not isinstance(one, effects.PutOff)]

    def finish(self) -> int:
        """Call without events until nothing is left; the number of calls."""
        calls = 0
        while self.left is not None:
            self.call()
            calls += 1
        return calls


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "PLANNED", LIMIT)


def waiting(cpu: int) -> Cluster:
    """Gangs of two pods that wait, and a pod without which each of them has capacity for itself."""
    groups = (sigs(name, 2) for name in NAMES)
    pods = (one for name in NAMES for one in members(name, 2))
    return Cluster(node("n1", cpu), pod("other", 2, node="n1"), *groups, *pods)


def seen(small: Cluster, name: str) -> events.PodSeen:
    """A member is seen again."""
    found = small.snapshot.pod_named("x", f"{name}0")
    assert found is not None
    return events.PodSeen(pod=found)


def about(found: list[effects.Effect]) -> set[str]:
    return {key.removeprefix("x/") for key, _ in posted(found)}


def gone(name: str) -> events.PodGone:
    return events.PodGone(uid=f"uid-x-{name}", namespace="x", name=name)


def test_all_statuses_are_in_the_first_call_and_all_events_after_several() -> None:
    calls = Calls(waiting(3))
    calls.call(everything=True)
    written = [one.identity for one in calls.found if isinstance(one, effects.PatchStatus)]
    assert written == [f"x/{name}" for name in NAMES]
    assert len(about(calls.found)) == LIMIT
    assert calls.finish() == 3
    assert sorted(about(calls.found)) == NAMES
    assert len(posted(calls.found)) == COUNT


def test_capacity_that_was_freed_wakes_each_gang_once_in_its_turn() -> None:
    calls = Calls(waiting(3))
    calls.call(gone("other"))
    assert len(woken(calls.found)) == 2 * LIMIT
    calls.finish()
    assert sorted(woken(calls.found)) == sorted(f"{name}{at}" for name in NAMES for at in range(2))


def test_events_that_follow_the_freed_capacity_cost_no_gang_its_wake_up() -> None:
    calls = Calls(waiting(3))
    calls.call(gone("other"))
    for number in range(COUNT):
        calls.call(gone(f"any{number}"))
    assert sorted(woken(calls.found)) == sorted(f"{name}{at}" for name in NAMES for at in range(2))


def test_capacity_that_is_taken_and_freed_again_wakes_the_gangs_that_were_put_off() -> None:
    calls = Calls(waiting(3))
    calls.small.take(gone("other"))
    calls.call(gone("any"))  # Every gang has capacity, and those beyond the limit are put off.
    calls.call(events.PodSeen(pod=pod("other", 2, node="n1")))
    calls.call(gone("other"))
    calls.finish()
    assert sorted(woken(calls.found)) == sorted(f"{name}{at}" for name in NAMES for at in range(2))


def test_a_gang_that_had_capacity_when_it_was_put_off_is_not_woken() -> None:
    calls = Calls(waiting(8))
    calls.call(gone("other"))
    calls.finish()
    assert woken(calls.found) == []


def test_a_call_after_missed_events_wakes_every_gang_that_has_capacity_in_its_turn() -> None:
    calls = Calls(waiting(8))
    calls.call(everything=True, missed=True)
    calls.finish()
    assert len(set(woken(calls.found))) == len(woken(calls.found)) == 2 * COUNT


@pytest.mark.parametrize("changing", [NAMES[:LIMIT], NAMES[-1:], NAMES])
def test_no_gang_is_kept_waiting_by_others_that_change_in_each_call(changing: list[str]) -> None:
    calls = Calls(waiting(3))
    calls.call(everything=True)
    for number in range(COUNT):
        calls.call(gone(f"any{number}"), *(seen(calls.small, name) for name in changing))
    assert sorted(about(calls.found)) == NAMES


def test_a_gang_that_has_changed_does_not_wait_for_those_that_were_put_off() -> None:
    calls = Calls(waiting(3))
    calls.call(everything=True)
    calls.found.clear()
    calls.call(seen(calls.small, NAMES[-1]))
    assert NAMES[-1] in about(calls.found)


def test_a_gang_that_no_longer_waits_is_not_put_off() -> None:
    calls = Calls(waiting(3))
    calls.call(everything=True)
    calls.call(*(gone(f"{name}{at}") for name in NAMES for at in range(2)))
    assert calls.left is None
