"""Asks the plugins for effects: after each run of events of the log, and for the state once a second.

``Wakes`` is asked by the follower's thread about the events that it has read. ``Reconciles`` is asked by
another thread about those of a second. So the effects of a burst are computed once, and only while this
process leads. A plugin that raises or takes long is not asked for a while, and then about everything; the
others go on.
"""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from app import clocks, telemetry
from app.domain import events, model, snapshots
from app.framework import capabilities, effects, pipeline, registry
from workers.controller import plugin_calls

EVERY = 1.0
"""Seconds between two reconciliations, at least."""
SHARE = 9.0
"""Pause after a reconciliation in its own lengths: it takes at most a tenth of the time, however large the
cluster."""
SLOW = 5.0
"""Seconds that a plugin may take for a reconciliation; one that takes longer is paused."""
PAUSE = 30.0
"""Seconds for which a plugin that raised, or was slow, is not reconciled, at least."""
VERIFIED_EVERY = 600.0
"""Seconds after which all objects are reconciled again, also without an event: their statuses may have been
edited, or overwritten by a leader whose last call was delayed."""
MAX_EVENTS = 10_000
"""Events that may wait; beyond that everything is reconciled."""


class Executor(Protocol):
    """Carries out effects (executors.Executor)."""

    def submit(
        self, found: effects.Effect, snapshot: snapshots.Snapshot, *, position: model.Position | None = None
    ) -> None:
        """Carry out an effect computed from the snapshot; ``position``: of the event that caused it."""
        ...

    def verify(self) -> None:
        """Compare the next status of every object with the API server's, even if it was written before."""
        ...


@dataclass
class _Pending:
    """What happened since the former reconciliation."""

    everything: bool = False
    """All objects must be reconciled; no events are collected."""
    missed: bool = False
    before: snapshots.Snapshot | None = None
    """The state before the first event."""
    collected: list[events.AnyEvent] = field(default_factory=list)
    after: snapshots.Snapshot | None = None
    """The state after the last event."""

    def add(self, before: snapshots.Snapshot, event: events.AnyEvent, after: snapshots.Snapshot) -> None:
        """Note an event."""
        self.before = self.before or before
        self.collected.append(event)
        self.after = after


class Reconciliation:
    """Asks all plugins; ``run_once`` is used by one thread, ``on_event`` and ``on_run`` by the follower's."""

    def __init__(
        self,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        executor: Executor,
        clock: clocks.Clock,
    ) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        self._executor = executor
        self._clock = clock
        self._calls = plugin_calls.PluginCalls()
        self._run = _Pending()
        """Of the present run of events; used by the follower's thread alone."""
        self._pending = _Pending()
        self._lock = threading.Lock()
        self._verified = clock.monotonic()
        self._due = float("-inf")
        self._paused: dict[str, float] = {}
        """Plugin that raised, or was slow -> when it is asked about everything (monotonic)."""
        self._left: dict[str, object] = {}
        """Plugin -> what its latest call has put off."""

    def on_event(self, before: snapshots.Snapshot, event: events.AnyEvent, after: snapshots.Snapshot) -> None:
        """Note an event for the end of its run, and for the next reconciliation."""
        self._run.add(before, event, after)
        with self._lock:
            pending = self._pending
            if pending.everything:
                return
            pending.add(before, event, after)
            if len(pending.collected) > MAX_EVENTS:
                self._pending = _Pending(everything=True, missed=True)

    def on_run(self) -> None:
        """Wake pods for the capacity that the events since the last call free.

        A refusal between two of them, of what was free before and after, is decided again (stale_refusals).
        """
        run, self._run = self._run, _Pending()
        if run.before is None or run.after is None:
            return
        for plugin in self._plugins.wakes:
            wake = functools.partial(plugin.wake, run.before, run.after, tuple(run.collected))
            found = self._calls.call(plugin.name, "wake", wake)
            if found is not None:
                self._executor.submit(found, run.after, position=run.after.position)

    def resume(self) -> None:
        """Reconcile everything: events may have passed without a leader."""
        with self._lock:
            self._pending = _Pending(everything=True, missed=True)

    def forget(self) -> None:
        """Keep no state on standby: beside it, all that has changed since would take memory, too."""
        with self._lock:
            self._pending = _Pending()
        self._left.clear()

    def run_once(self) -> None:
        """Reconcile what has changed, if it is time."""
        started = self._clock.monotonic()
        if started < self._due:
            return
        with self._lock:
            pending, self._pending = self._pending, _Pending()
        snapshot = _later(self._snapshot(), pending.after)
        changes = []
        if pending.everything or pending.collected:
            changes.append(effects.Changes(pending.before, tuple(pending.collected), missed=pending.missed))
        if started - self._verified >= VERIFIED_EVERY:
            self._verified = started
            self._executor.verify()
            if not pending.everything:
                changes.append(effects.Changes())  # After the events: only their effects report them.
        if changes or self._left or any(until <= started for until in self._paused.values()):
            took = sum(self._reconcile(snapshot, one) for one in changes or (None,))
            self._due = self._clock.monotonic() + max(EVERY, SHARE * took)

    def _reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes | None) -> float:
        """Ask the plugins; those whose pause is over about everything, the others about the changes, if any,
        and what they have put off.

        Returns the seconds that those took that are not paused now.
        """
        total = 0.0
        for plugin in self._plugins.reconciles:
            began = self._clock.monotonic()
            until = self._paused.get(plugin.name)
            left = self._left.get(plugin.name)
            about = changes if until is None else effects.Changes(missed=True)
            if about is None and left is not None:
                about = effects.Changes(snapshot)
            if about is None or (until is not None and began < until):
                continue
            self._left.pop(plugin.name, None)
            about = replace(
                about,
                left=None if about.missed else left,
                objection=functools.partial(pipeline.objection, self._plugins),
                protection=self._plugins.protected,
                companions=self._plugins.companions,
                peers=pipeline.peers(self._plugins, plugin.name),
            )
            reconcile = functools.partial(_all, plugin, snapshot, about)
            found = self._calls.call(plugin.name, "reconcile", reconcile)
            total += self._taken(plugin.name, began, failed=found is None)
            if found is None and isinstance(plugin, capabilities.Evicts):
                found = [
                    effects.EvictPods(plugin.name)
                ]  # What it wanted before is not known to be wanted now.
            for one in found or ():
                if isinstance(one, effects.PutOff):
                    self._left[plugin.name] = one.left
                else:
                    self._executor.submit(one, snapshot)
        return total

    def _taken(self, plugin: str, began: float, *, failed: bool) -> float:
        """The seconds that a call took; 0 if the plugin is paused for it, which then pays for them alone."""
        ended = self._clock.monotonic()
        took = ended - began
        if not failed and took <= SLOW:
            self._paused.pop(plugin, None)
            return took
        if not failed:
            telemetry.metrics.PLUGIN_FAILURES.labels(plugin, "reconcile").inc()
            telemetry.log.warning(
                "a plugin is slow", plugin=plugin, method="reconcile", seconds=round(took, 1)
            )
        self._paused[plugin] = ended + max(PAUSE, SHARE * took)
        return 0.0


def _all(
    plugin: capabilities.Reconciles, snapshot: snapshots.Snapshot, changes: effects.Changes
) -> list[effects.Effect]:
    return list(plugin.reconcile(snapshot, changes))


def _later(one: snapshots.Snapshot, other: snapshots.Snapshot | None) -> snapshots.Snapshot:
    """The later snapshot: a subscriber may be notified of an event before the follower shows its state."""
    if other is None or other.position.incarnation != one.position.incarnation:
        return one
    return max(one, other, key=lambda snapshot: snapshot.offset)
