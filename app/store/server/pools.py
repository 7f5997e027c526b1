"""A fixed number of connections, lent to one thread at a time."""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from app.store import errors


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class Pool(Generic[T]):
    """Lends the connection used last first, so that few are opened; thread-safe."""

    def __init__(self, make: Callable[[], T], size: int) -> None:
        """``make`` creates a connection that opens itself when it is first used."""
        self._idle: queue.LifoQueue[T] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(make())

    @contextmanager
    def borrowed(self, seconds: float) -> Iterator[T]:
        """One connection for the block; raises StoreAway if none is free within the seconds."""
        try:
            one = self._idle.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise errors.StoreAway(f"all connections to the store are in use for {seconds:.1f} s") from None
        try:
            yield one
        finally:
            self._idle.put(one)

    def close(self) -> None:
        """Close the connections that are idle."""
        with self._idle.mutex:
            for one in self._idle.queue:
                one.close()
