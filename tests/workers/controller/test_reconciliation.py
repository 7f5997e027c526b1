"""Which plugins are asked for effects, about which changes, and how often."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import structlog

from app.domain import events, model, snapshots
from app.framework import effects
from tests.support.decisions import fake_plugins, small_clusters
from tests.support.kube import fake_clock
from tests.support.monitoring import samples
from tests.support.workers.reconciliations import Following, Recording, seen
from workers.controller import reconciliation


@dataclass(frozen=True)
class Raising(fake_plugins.Idle):
    """Raises, in the call or later, while its effects are read."""

    name: str = "Raising"
    statuses: ClassVar[tuple[str, ...]] = ()
    broken: list[bool] = field(default_factory=lambda: [True])

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        raise ValueError("cannot wake")

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.Effect]:
        yield effects.WakePods((), "half")
        if self.broken[0]:
            raise ValueError("cannot reconcile")


def failures(method: str) -> float:
    return samples.value("topolog_plugin_failures_total", plugin="Raising", method=method)


def test_a_plugin_is_asked_to_wake_after_each_run_of_events_and_to_reconcile_about_several() -> None:
    plugin = Recording()
    following = Following(plugin)
    first = following.snapshot
    following.append(seen("a"), more=True)
    following.append(seen("b"))
    following.append(seen("c"))
    following.reconciliation.on_run()
    assert following.executor.found == [
        (f"Recording at {at} after {count} events", model.Position("i", at)) for at, count in ((2, 2), (3, 1))
    ]
    assert following.run() == ["Recording of 3"]
    (changes,) = plugin.asked
    assert changes.before is first
    assert changes.events == tuple(seen(name) for name in ("a", "b", "c"))
    assert not changes.missed


@pytest.mark.scenario("TR-11")
def test_a_plugin_without_its_controller_wakes_pods_and_reconciles_nothing() -> None:
    silent, other = Recording(name="Silent"), Recording(name="Other")
    following = Following(silent, other, controllers=["*", "-Silent"])
    following.append(seen("a"))
    assert [message for message, _ in following.executor.found] == [
        f"{name} at 1 after 1 events" for name in ("Silent", "Other")
    ]
    assert following.run() == ["Other of 1"]
    assert (len(silent.asked), len(other.asked)) == (0, 1)


def test_a_plugin_gets_the_objections_of_all_plugins_to_an_eviction() -> None:
    asked, refusing = Recording(), fake_plugins.Filtering(refused=frozenset(("n1",)))
    following = Following(asked, refusing)
    following.append(seen("n1"))
    following.append(seen("n2"))
    following.run()
    (changes,), pod = asked.asked, small_clusters.pod("p", priority=5)
    victim = small_clusters.pod("v")
    found = [changes.objection(following.snapshot, pod, name, (victim,)) for name in ("n1", "n2")]
    assert found == ["refused (0 held)", None]


def test_a_plugin_gets_what_all_plugins_protect_and_place_together() -> None:
    pods = [small_clusters.pod(name) for name in ("one", "other")]

    class Joined(fake_plugins.Grouping):
        def companions(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> tuple[model.Pod, ...]:
            return tuple(one for one in pods if one != pod)

    asked = Recording()
    following = Following(asked, fake_plugins.Preempting(), Joined())
    following.append(seen("n1"))
    following.run()
    (changes,) = asked.asked
    assert changes.protection(following.snapshot, pods) == {one.uid for one in pods}
    assert changes.companions(following.snapshot, pods[0]) == (pods[1],)


def test_nothing_is_asked_without_an_event() -> None:
    plugin = Recording()
    following = Following(plugin)
    assert following.run(after=30.0) == []
    assert plugin.asked == []


def test_a_plugin_is_asked_at_most_once_a_second_and_about_each_event_once() -> None:
    plugin = Recording()
    following = Following(plugin)
    following.append(seen("a"))
    assert following.run() == ["Recording of 1"]
    following.append(seen("b"))
    assert following.run(after=0.5) == []
    following.append(seen("c"))
    assert following.run(after=0.5) == ["Recording of 3"]
    assert [changes.events for changes in plugin.asked] == [(seen("a"),), (seen("b"), seen("c"))]
    assert plugin.asked[1].before is plugin.states[0]


def test_a_state_is_not_earlier_than_its_events() -> None:
    """A subscriber may be notified of an event before the follower shows its state."""
    plugin = Recording()
    following = Following(plugin)
    following.append(seen("a"), shown=False)
    assert following.run() == ["Recording of 1"]


def test_a_new_leader_reconciles_everything() -> None:
    plugin = Recording()
    following = Following(plugin)
    following.append(seen("a"))
    following.reconciliation.resume()
    following.append(seen("b"))
    assert following.run() == ["Recording of 2"]
    assert plugin.asked == [effects.Changes(before=None, events=(), missed=True)]
    following.append(seen("c"))
    assert following.run() == ["Recording of 3"]
    assert plugin.asked[1].events == (seen("c"),)


def test_more_events_than_are_kept_reconcile_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "MAX_EVENTS", 3)
    plugin = Recording()
    following = Following(plugin)
    for name in ("a", "b", "c", "d", "e"):
        following.append(seen(name))
    following.run()
    assert plugin.asked == [effects.Changes(missed=True)]


def test_everything_is_verified_from_time_to_time_without_waking_for_it() -> None:
    plugin = Recording()
    following = Following(plugin)
    assert following.run(after=reconciliation.VERIFIED_EVERY - 1.0) == []
    assert following.run(after=1.0) == ["Recording of 0"]
    assert following.executor.verified == 1
    assert plugin.asked == [effects.Changes(before=None, missed=False)]
    assert following.run(after=reconciliation.VERIFIED_EVERY - 1.0) == []


def test_events_before_a_verification_are_reconciled_before_it() -> None:
    """What they report, as the Event of a gang that was placed, does not follow from the state."""
    plugin = Recording()
    following = Following(plugin)
    first = following.snapshot
    following.run(after=reconciliation.VERIFIED_EVERY - 0.5)
    following.append(seen("a"))
    assert following.run(after=0.5) == ["Recording of 1"] * 2
    assert plugin.asked == [effects.Changes(first, (seen("a"),)), effects.Changes()]
    assert following.executor.verified == 1
    assert following.run() == []
    following.append(seen("b"))
    following.run()
    assert plugin.asked[2:] == [effects.Changes(plugin.states[0], (seen("b"),))]


def test_a_verification_at_the_begin_of_a_tenure_reconciles_everything_once() -> None:
    plugin = Recording()
    following = Following(plugin)
    following.reconciliation.resume()
    assert following.run(after=reconciliation.VERIFIED_EVERY) == ["Recording of 0"]
    assert plugin.asked == [effects.Changes(missed=True)]
    assert following.executor.verified == 1


def test_a_reconciliation_takes_at_most_a_tenth_of_the_time() -> None:
    @dataclass(frozen=True)
    class Slow(Recording):
        clock: list[fake_clock.VirtualClock] = field(default_factory=list)

        def reconcile(
            self, snapshot: snapshots.Snapshot, changes: effects.Changes
        ) -> Iterable[effects.Effect]:
            self.clock[0].now += 2.0
            return super().reconcile(snapshot, changes)

    plugin = Slow()
    following = Following(plugin)
    plugin.clock.append(following.clock)
    following.append(seen("a"))
    assert following.run() == ["Recording of 1"]
    following.append(seen("b"))
    assert following.run(after=17.9) == []
    assert following.run(after=0.1) == ["Recording of 2"]


def test_a_plugin_that_raises_is_reported_once_and_the_others_go_on() -> None:
    following = Following(Raising(), Recording())
    before = failures("wake"), failures("reconcile")
    with structlog.testing.capture_logs() as lines:
        for name in ("a", "b", "c"):
            following.append(seen(name))
            assert following.executor.found[-1][0].startswith("Recording at ")
            # Of a plugin that raises, no effect is carried out.
            assert following.run(after=reconciliation.PAUSE) == [f"Recording of {following.head.offset}"]
    assert [(line["event"], line["plugin"], line["method"], line["exc_info"]) for line in lines] == [
        ("a plugin failed", "Raising", "wake", True),
        ("a plugin failed", "Raising", "reconcile", True),
    ]
    assert (failures("wake") - before[0], failures("reconcile") - before[1]) == (3, 3)


def test_a_plugin_that_raised_is_asked_about_everything_next_time() -> None:
    @dataclass(frozen=True)
    class Once(Recording):
        def reconcile(
            self, snapshot: snapshots.Snapshot, changes: effects.Changes
        ) -> Iterable[effects.Effect]:
            found = super().reconcile(snapshot, changes)
            if len(self.asked) == 1:
                raise ValueError("only once")
            return found

    plugin = Once()
    following = Following(plugin)
    for name in ("a", "b", "c"):
        following.append(seen(name))
        following.run(after=reconciliation.PAUSE)
    assert [changes.missed for changes in plugin.asked] == [False, True, False]
    assert [changes.before is None for changes in plugin.asked] == [False, True, False]


def test_a_plugin_that_raises_is_asked_again_after_a_pause_also_without_an_event() -> None:
    broken = [True]
    following = Following(Raising(broken=broken), Recording())
    before = failures("reconcile")
    following.append(seen("a"))
    assert following.run() == ["Recording of 1"]
    broken[0] = False
    following.append(seen("b"))
    assert following.run(after=reconciliation.PAUSE - 1.0) == ["Recording of 2"]
    assert following.run() == ["half"]
    following.append(seen("c"))
    assert following.run() == ["half", "Recording of 3"]
    assert failures("reconcile") == before + 1


def test_a_plugin_that_is_slow_is_paused_and_delays_no_other() -> None:
    @dataclass(frozen=True)
    class Slow(Recording):
        name: str = "Raising"
        clock: list[fake_clock.VirtualClock] = field(default_factory=list)

        def reconcile(
            self, snapshot: snapshots.Snapshot, changes: effects.Changes
        ) -> Iterable[effects.Effect]:
            self.clock[0].now += reconciliation.SLOW + 1.0
            return super().reconcile(snapshot, changes)

    slow = Slow()
    following = Following(slow, Recording())
    slow.clock.append(following.clock)
    before = failures("reconcile")
    following.append(seen("a"))
    with structlog.testing.capture_logs() as lines:
        assert following.run() == ["Raising of 1", "Recording of 1"]
    assert lines == [
        {
            "event": "a plugin is slow",
            "log_level": "warning",
            "plugin": "Raising",
            "method": "reconcile",
            "seconds": 6.0,
        }
    ]
    following.append(seen("b"))
    assert following.run() == ["Recording of 2"], "a second later"
    # It takes at most a tenth of the time, too.
    assert following.run(after=reconciliation.SHARE * 6.0 - 1.0) == ["Raising of 2"]
    assert [changes.before is None for changes in slow.asked] == [False, True]
    assert failures("reconcile") == before + 2


def test_what_a_plugin_wanted_evicted_is_withdrawn_if_it_raises() -> None:
    @dataclass(frozen=True)
    class Evicts(Raising):
        evicts: ClassVar[bool] = True

    for plugin, expected in ((Evicts(), [effects.EvictPods("Raising")]), (Raising(), [])):
        following = Following(plugin)
        following.reconciliation.resume()
        following.run()
        assert following.executor.evicting == expected


def test_a_plugin_that_raises_again_after_a_success_is_reported_again() -> None:
    broken = [True]
    following = Following(Raising(broken=broken))
    reported = []
    for raises in (True, True, False, True):
        broken[0] = raises
        following.reconciliation.resume()
        with structlog.testing.capture_logs() as lines:
            following.run(after=reconciliation.PAUSE)
        reported.append(len(lines))
    assert reported == [1, 0, 0, 1]
