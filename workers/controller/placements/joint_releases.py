"""Releases the planned placements of a group that is given up together, without a look-up.

A planned placement has no Binding (decision 23), so its release is safe at any time.
"""

import functools
import threading
from collections.abc import Callable

from app import telemetry
from app.domain import snapshots
from app.framework import effects
from workers.controller import plugin_calls

Renewed = Callable[[snapshots.Snapshot], effects.ReleasePlacements | None]
"""What is released together in a state (effects.ReleasePlacements.renewed)."""


class PluginFailed(Exception):
    """Whether a release is still wanted is unknown."""


class JointReleases:
    """Releases planned placements that go together, once none of them has a Binding."""

    def __init__(self, release: Callable[[Renewed], int | None], term: Callable[[], str | None]) -> None:
        """``release``: placement_releases.release_together; ``term``: the epoch of the present leadership,
        None without one.
        """
        self._release = release
        self._term = term
        self._calls = plugin_calls.PluginCalls()
        self._lock = threading.Lock()
        self._wanted: dict[tuple[effects.ReleasePlacements, str], None] = {}
        """Each with the leadership in which it was computed."""

    def submit(self, found: effects.ReleasePlacements, term: str) -> bool:
        """Release them in the next run in which that is possible, if it is wanted by then. Thread-safe.

        False if that was requested already, and is not done yet.
        """
        with self._lock:
            known = (found, term) in self._wanted
            self._wanted.setdefault((found, term))
            return not known

    def run_once(self) -> int:
        """Release what can be; the number of placements released. Used by one thread."""
        term = self._term()
        with self._lock:
            self._wanted = {key: None for key in self._wanted if key[1] == term}
            wanted = list(self._wanted)
        return sum(self._release_one(found, made) for found, made in wanted)

    def _release_one(self, found: effects.ReleasePlacements, term: str) -> int:
        with self._lock:
            # A request that comes from now on may be computed from a later state than this release.
            del self._wanted[found, term]
        released = None
        try:
            released = self._release(functools.partial(self._renewed, found))
        except PluginFailed:
            pass
        finally:
            if released is None:
                with self._lock:
                    self._wanted.setdefault((found, term))
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
