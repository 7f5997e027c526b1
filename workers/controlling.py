"""The controller: what the log means for the cluster beyond facts.

It wakes pending pods when a policy makes room or their refusal is outdated, takes back promises that
nobody kept, and tells people about refusals by Events. It follows the log like any other reader and
holds no state that matters: it may be killed at any time. Of several one works and the others stand
by; two at once, for the moment of a takeover, would say some things twice and break nothing.
"""

import datetime
import functools
import threading
from collections.abc import Callable, Mapping

from app import telemetry
from app.domain import events, model, snapshots
from app.framework import registry
from app.kube import backoffs, binding, clients, event_posting
from app.store import errors, logs, opening
from app.verbs import releasing
from workers import announcing, leading, reconsidering, settling, telling

GATHER = 0.1
"""Seconds between two readings of the log: nobody waits for what is done here so urgently."""
SETTLE_EVERY = 5.0
TELL_EVERY = 1.0
RECONSIDER_EVERY = 0.25
_LONGEST_PAUSE = 5.0


class Controller:
    """Controls one cluster; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: opening.Store,
        client: clients.Client,
        plugins: registry.Registry,
        *,
        clock: backoffs.RealClock | None = None,
        old: float = settling.OLD,
        elector: leading.Leadership | None = None,
    ) -> None:
        """``old``: seconds after which a placement is looked up. Without an ``elector`` it always works."""
        self._store = store
        self._clock = clock or backoffs.RealClock()
        self._stopped = threading.Event()
        self._elector = elector or leading.Alone()
        self._led = ("", "", 0)
        """Under which tenure, in which incarnation and after how many jumps policies were caught up on."""
        follower = store.follower
        self.announcer = announcing.Announcer(
            client, plugins, lambda: follower.snapshot, self._clock, now=_second
        )
        self.settler = settling.Settler(
            binding.ApiBinder(client),
            lambda: follower.snapshot,
            self.release,
            self._clock,
            old=old,
        )
        self.poster = event_posting.Poster(client, self._clock, now=_second)
        self.teller = telling.Teller(store.decisions, self.poster)
        self.reconsiderer = reconsidering.Reconsiderer(
            store.decisions, plugins, lambda: follower.snapshot, self.announcer
        )

        self.subscribed = False
        """What is appended from now on is heard."""

    def release(self, uid: model.Uid, promise: model.Position, cause: events.Cause, reason: str) -> bool:
        """Take the promise made at that position back in the log; true if there is none any more."""
        follower, log = self._store.follower, self._store.log
        return releasing.release(follower, log, uid, cause, reason, promise=promise)

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on, and what is wrong with it."""
        follower = self._store.follower
        reading = f"reading the log: {follower.snapshot.offset} of {follower.head_seen}"
        return {
            **(leading.standing(self._elector) if self._elector.tenure is None else {}),
            "election": self._elector.trouble or None,
            "store": str(follower.error) if follower.error is not None else None,
            "state": None if follower.caught_up else reading,
        }

    def run(self) -> None:
        """Control until stopped."""
        follower = self._store.follower
        follower.start(gather=GATHER)
        while not follower.wait_until_caught_up(timeout=0.2):
            if self._stopped.is_set():
                return
        follower.subscribe(self._heard)
        self.subscribed = True
        self._elector.start()
        hands = [
            self._hand("catching up", self._catch_up, pause=0.2),
            self._hand("announcing", lambda: self.announcer.turn(timeout=1.0), pause=0.0),
            self._hand("settling", self.settler.turn, pause=SETTLE_EVERY),
            self._hand("telling", self.teller.turn, pause=TELL_EVERY),
            self._hand("reconsidering", self.reconsiderer.turn, pause=RECONSIDER_EVERY),
        ]
        self._stopped.wait()
        for hand in hands:
            hand.join(timeout=5.0)
        self._elector.stop()

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()
        self._clock.stop()
        self.announcer.wake()

    def _heard(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: logs.Entry) -> None:
        if self._elector.tenure is not None:
            self.announcer.heard(before, after, entry)
            self.teller.heard(before, after, entry)

    def _catch_up(self) -> None:
        """At the begin of each tenure, in each new incarnation of the store, and if events went unheard."""
        tenure, snapshot = self._elector.tenure, self._store.follower.snapshot
        telemetry.metrics.LEADER.set(tenure is not None)
        if tenure is None or not self._store.follower.caught_up or snapshot.unlisted:
            return
        led = (tenure.epoch, snapshot.position.incarnation, self._store.follower.jumps)
        if led != self._led:
            self._led = led
            self._catch_up_on_policies(snapshot)

    def _catch_up_on_policies(self, snapshot: snapshots.Snapshot) -> None:
        """A policy may have made room while no controller was there: say so as if it were new."""
        for policy in snapshot.policies.values():
            seen = logs.Entry(snapshot.offset, 0, events.PolicySeen(policy=policy))
            self.announcer.heard(snapshot, snapshot, seen)

    def _hand(self, name: str, turn: Callable[[], object], *, pause: float) -> telemetry.loops.Loop:
        repeat = functools.partial(self._repeat, name, turn, pause)
        return telemetry.loops.Loop(name, repeat, wait=self._stopped.wait, longest=_LONGEST_PAUSE).start()

    def _repeat(self, name: str, turn: Callable[[], object], pause: float) -> None:
        while not self._stopped.is_set():
            wait = pause
            try:
                if self._elector.tenure is not None or name == "catching up":
                    turn()
                else:
                    wait = max(pause, 0.2)
            except errors.StoreError as problem:
                telemetry.log.debug("the store is away", part=name, error=str(problem))
                wait = max(pause, 1.0)
            if wait and self._stopped.wait(wait):
                return


def _second() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
