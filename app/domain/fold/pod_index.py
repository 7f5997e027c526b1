"""A persistent index (key -> pods) that is being changed.

Opening a persistent set for change costs more than changing it, so each set is opened once per batch of
events, and closed when it is read or when the batch ends.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import immutables

K = TypeVar("K")

Pods = immutables.Map[str, None]
"""Uids of pods, as the keys."""
NO_PODS: Pods = immutables.Map()


class Members(Protocol):
    """What an index holds for a key: a set of pods, and perhaps what is derived from it."""

    def mutate(self) -> "immutables.MapMutation[str, None]":
        """The set, opened for change."""

    def __iter__(self) -> Iterator[str]: ...


V = TypeVar("V", bound=Members)


def plain(pods: Pods) -> Pods:
    """For an index that holds nothing but sets."""
    return pods


class Index(Generic[K, V]):
    """Changes to an immutable index, which stays as it was. A key without pods is not in the index."""

    __slots__ = ("_closed", "_made", "_open", "_start")

    def __init__(self, start: "immutables.Map[K, V]", made: Callable[[Pods], V]) -> None:
        """``made`` is what is held of a changed set: a new value for every change."""
        self._start = start
        self._made = made
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

    def renew(self, key: K) -> None:
        """Have the value of the key made again: the pods are the same, and what follows from them is not."""
        if key not in self._open:
            self._opened(key)

    def pods(self, key: K) -> Iterable[str]:
        """The pods of the key now; the returned set does not reflect later changes."""
        members = self._open.pop(key, None)
        if members is not None:
            self._closed[key] = members.finish()
        found = self._closed.get(key)
        return self._start.get(key, NO_PODS) if found is None else found

    @property
    def opened(self) -> Iterable[K]:
        """The keys that were opened for change: all others are as they were at the start."""
        return (*self._open, *self._closed)

    def everything(self) -> Iterable[str]:
        """The pods of all keys now."""
        keys = {*self._start, *self._open, *self._closed}
        return [uid for key in keys for uid in self.pods(key)]

    def finish(self) -> "immutables.Map[K, V]":
        """The index after all changes, sharing every set that did not change."""
        if not (self._open or self._closed):
            return self._start
        result, made = self._start.mutate(), self._made
        closed = self._closed
        closed.update((key, members.finish()) for key, members in self._open.items())
        for key, pods in closed.items():
            if pods:
                result[key] = made(pods)
            else:
                result.pop(key, None)
        return result.finish()

    def _opened(self, key: K) -> "immutables.MapMutation[str, None]":
        pods: Members | None = self._closed.pop(key, None)
        if pods is None:
            pods = self._start.get(key)
        members = self._open[key] = (NO_PODS if pods is None else pods).mutate()
        return members
