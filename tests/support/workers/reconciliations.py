"""A reconciliation on a virtual clock, and a plugin that records what it is asked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from app.domain import events, model, projections, snapshots
from app.framework import effects, registry
from tests.support import declared
from tests.support.decisions import fake_plugins, small_clusters
from tests.support.kube import fake_clock
from workers.controller import reconciliation


@dataclass(frozen=True)
class Recording(fake_plugins.Idle):
    """Records what it is asked, and returns an effect for each question."""

    name: str = "Recording"
    statuses: ClassVar[tuple[str, ...]] = ()
    asked: list[effects.Changes] = field(default_factory=list)
    states: list[snapshots.Snapshot] = field(default_factory=list)

    def wake(
        self, before: snapshots.Snapshot, after: snapshots.Snapshot, happened: Sequence[events.AnyEvent]
    ) -> effects.WakePods | None:
        assert after.offset - before.offset == len(happened)
        return effects.WakePods((), f"{self.name} at {after.offset} after {len(happened)} events")

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        self.asked.append(changes)
        self.states.append(snapshot)
        return (effects.WakePods((), f"{self.name} of {snapshot.offset}"),)


@dataclass
class Executor:
    """Records effects instead of carrying them out."""

    found: list[tuple[str, model.Position | None]] = field(default_factory=list)
    evicting: list[effects.EvictPods] = field(default_factory=list)
    verified: int = 0

    def submit(
        self, found: effects.Effect, snapshot: snapshots.Snapshot, *, position: model.Position | None = None
    ) -> None:
        if isinstance(found, effects.EvictPods):
            self.evicting.append(found)
            return
        assert isinstance(found, effects.WakePods)
        self.found.append((found.message, position))

    def verify(self) -> None:
        self.verified += 1


class Following:
    """A reconciliation on a virtual clock, and the log that it follows."""

    def __init__(self, *plugins: fake_plugins.Idle, controllers: Sequence[str] = ("*",)) -> None:
        self.clock = fake_clock.VirtualClock()
        self.executor = Executor()
        self.snapshot = self.head = snapshots.empty(schema=declared.SCHEMA, incarnation="i")
        self.reconciliation = reconciliation.Reconciliation(
            registry.Registry(plugins, controllers=controllers),
            lambda: self.snapshot,
            self.executor,
            self.clock,
        )

    def append(self, event: events.AnyEvent, *, shown: bool = True, more: bool = False) -> None:
        """Append an event; ``shown``: the follower shows its state already; ``more``: the run goes on."""
        before, after = self.head, projections.project(self.head, event)
        self.head = after
        if shown:
            self.snapshot = after
        self.reconciliation.on_event(before, event, after)
        if not more:
            self.reconciliation.on_run()

    def run(self, *, after: float = 1.0) -> list[str]:
        """The messages of the effects that are submitted."""
        self.clock.now += after
        self.executor.found.clear()
        self.reconciliation.run_once()
        return [message for message, _ in self.executor.found]


def seen(name: str) -> events.NodeSeen:
    return events.NodeSeen(node=small_clusters.node(name, {}))
