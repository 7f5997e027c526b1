"""A plugin that puts off a part of a call gets it back in the next one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from app.domain import snapshots
from app.framework import effects
from tests.support.decisions import fake_plugins
from tests.support.workers.reconciliations import Following, Recording, seen
from workers.controller import reconciliation


@dataclass(frozen=True)
class Dividing(fake_plugins.Idle):
    """Does one of two parts of the changes in a call."""

    name: str = "Dividing"
    statuses: ClassVar[tuple[str, ...]] = ()
    asked: list[effects.Changes] = field(default_factory=list)
    lefts: list[object] = field(default_factory=list)
    raising: list[bool] = field(default_factory=list)

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.Effect]:
        self.asked.append(changes)
        self.lefts.append(changes.left)
        yield effects.WakePods((), f"{changes.left or 'first'} at {snapshot.offset}")
        if self.raising:
            raise ValueError("cannot reconcile")
        if changes.left is None:
            yield effects.PutOff("second")


def test_a_part_that_was_put_off_follows_without_an_event_and_concerns_no_other_plugin() -> None:
    plugin, other = Dividing(), Recording()
    following = Following(plugin, other)
    following.append(seen("a"))
    assert following.run() == ["first at 1", "Recording of 1"]
    assert following.run(after=0.5) == []
    assert following.run(after=0.5) == ["second at 1"]
    assert plugin.asked[-1] == effects.Changes(following.snapshot)
    assert following.run() == []
    assert len(other.asked) == 1


def test_a_part_that_was_put_off_is_done_with_the_next_events() -> None:
    plugin = Dividing()
    following = Following(plugin)
    following.append(seen("a"))
    following.run()
    following.append(seen("b"))
    assert following.run() == ["second at 2"]
    assert plugin.asked[-1].events == (seen("b"),)


def test_nothing_is_put_off_beyond_a_call_that_is_about_missed_events() -> None:
    plugin = Dividing()
    following = Following(plugin)
    following.append(seen("a"))
    following.run()
    following.reconciliation.resume()
    assert following.run() == ["first at 1"]
    assert plugin.lefts == [None, None]


def test_what_a_plugin_has_put_off_is_dropped_if_it_raises() -> None:
    plugin = Dividing()
    following = Following(plugin)
    following.append(seen("a"))
    following.run()
    plugin.raising.append(True)
    assert following.run() == []
    plugin.raising.clear()
    assert following.run(after=reconciliation.PAUSE) == ["first at 1"]
    assert plugin.asked[-1].missed


def test_a_standby_keeps_no_state() -> None:
    plugin = Dividing()
    following = Following(plugin)
    following.append(seen("a"))
    following.run()
    following.append(seen("b"))
    following.reconciliation.forget()
    assert following.run() == []
    following.append(seen("c"))
    assert following.run() == ["first at 3"]
    assert plugin.asked[-1].events == (seen("c"),)
