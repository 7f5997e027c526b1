"""A persistent index (key -> pods) that is being changed.

Opening a persistent set for change costs more than changing it, so each set is opened once per batch of
events, and closed when it is read or when the batch ends.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

import immutables

K = TypeVar("K")

Pods = immutables.Map[str, None]
"""Uids of pods, as the keys."""
NO_PODS: Pods = immutables.Map()


class Index(Generic[K]):
    """Changes to an immutable index, which stays as it was. A key without pods is not in the index."""

    __slots__ = ("_closed", "_open", "_start")

    def __init__(self, start: "immutables.Map[K, Pods]") -> None:
        self._start = start
        self._open: dict[K, immutables.MapMutation[str, None]] = {}
        self._closed: dict[K, Pods] = {}

    def add(self, key: K, uid: str) -> None:
        """Add the pod to the key."""
        members = self._open.get(key)
        if members is None:
            members = self._opened(key)
        members[uid] = None

    def discard(self, key: K, uid: str) -> None:
        """Remove the pod from the key."""
        members = self._open.get(key)
        if members is None:
            members = self._opened(key)
        members.pop(uid, None)

    def pods(self, key: K) -> Iterable[str]:
        """The pods of the key now; the returned set does not reflect later changes."""
        members = self._open.pop(key, None)
        if members is not None:
            self._closed[key] = members.finish()
        found = self._closed.get(key)
        return self._start.get(key, NO_PODS) if found is None else found

    def everything(self) -> Iterable[str]:
        """The pods of all keys now."""
        keys = {*self._start, *self._open, *self._closed}
        return [uid for key in keys for uid in self.pods(key)]

    def finish(self) -> "immutables.Map[K, Pods]":
        """The index after all changes, sharing every set that did not change."""
        if not (self._open or self._closed):
            return self._start
        result = self._start.mutate()
        closed = self._closed
        closed.update((key, members.finish()) for key, members in self._open.items())
        for key, pods in closed.items():
            if pods:
                result[key] = pods
            else:
                result.pop(key, None)
        return result.finish()

    def _opened(self, key: K) -> "immutables.MapMutation[str, None]":
        pods = self._closed.pop(key, None)
        if pods is None:
            pods = self._start.get(key, NO_PODS)
        members = self._open[key] = pods.mutate()
        return members
