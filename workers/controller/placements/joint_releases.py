"""Releases the planned placements of a group that is given up together, without a look-up.

A planned placement has no Binding (decision 23), so its release is safe at any time.
"""

import functools
import threading
from collections.abc import Callable
from typing import NamedTuple

from app import clocks, telemetry
from app.domain import model, snapshots
from app.framework import effects
from workers.controller import plugin_calls

Renewed = Callable[[snapshots.Snapshot], effects.ReleasePlacements | None]
"""What is released together in a state (effects.ReleasePlacements.renewed)."""


class PluginFailed(Exception):
    """Whether a release is still wanted is unknown."""


class _Key(NamedTuple):
    """What makes requests one: each computes again which pods it releases."""

    plugin: str
    reason: str
    awaited: model.Uid
    term: str
    """The leadership in which it was computed."""


class _Request(NamedTuple):
    """The latest request of a release."""

    found: effects.ReleasePlacements
    due: float
    """By the monotonic clock."""


class JointReleases:
    """Releases planned placements that go together, once none of them has a Binding."""

    def __init__(
        self,
        release: Callable[[Renewed], int | None],
        term: Callable[[], str | None],
        clock: clocks.Clock | None = None,
    ) -> None:
        """``release``: placement_releases.release_together; ``term``: the epoch of the present leadership,
        None without one.
        """
        self._release = release
        self._term = term
        self._clock = clock or clocks.RealClock()
        self._calls = plugin_calls.PluginCalls()
        self._lock = threading.Lock()
        self._wanted: dict[_Key, _Request] = {}

    def submit(self, found: effects.ReleasePlacements, term: str) -> bool:
        """Release them in the next run in which that is possible, if it is wanted by then. Thread-safe.

        At the earliest ``found.after`` seconds after the latest request. False if that was requested already,
        and is not done yet.
        """
        key = _Key(found.plugin, found.reason, found.awaited, term)
        with self._lock:
            known = key in self._wanted
            self._wanted[key] = _Request(found, self._clock.monotonic() + found.after)
        return not known

    def run_once(self) -> int:
        """Release what can be; the number of placements released. Used by one thread."""
        term, now = self._term(), self._clock.monotonic()
        with self._lock:
            self._wanted = {key: one for key, one in self._wanted.items() if key.term == term}
            wanted = [key for key, one in self._wanted.items() if one.due <= now]
        return sum(self._release_one(key, now) for key in wanted)

    def _release_one(self, key: _Key, now: float) -> int:
        """Release those of a request that was due at ``now``, unless it was made again since."""
        with self._lock:
            request = self._wanted[key]
            if request.due > now:
                return 0
            # A request that comes from now on may be computed from a later state than this release.
            del self._wanted[key]
        found, released = request.found, None
        try:
            released = self._release(functools.partial(self._renewed, found))
        except PluginFailed:
            pass
        finally:
            if released is None:
                with self._lock:
                    self._wanted.setdefault(key, _Request(found, self._clock.monotonic()))
        if released:
            telemetry.log.info("released placements together", pods=released, reason=found.reason)
        return released or 0

    def _renewed(
        self, found: effects.ReleasePlacements, snapshot: snapshots.Snapshot
    ) -> effects.ReleasePlacements | None:
        """The release as of that state; None if it is not wanted there. Raises PluginFailed."""
        if (renewed := found.renewed) is None:
            return None
        answer = self._calls.call(found.plugin, "renewed", lambda: (renewed(snapshot),))
        if answer is None:
            raise PluginFailed(found.plugin)
        return answer[0]
