"""Those who listen to a follower: each event is told once, in order, and few may wait to be told."""

from collections import deque
from collections.abc import Callable

from app.domain import snapshots
from app.store import tailing

Callback = Callable[[snapshots.Snapshot, snapshots.Snapshot, tailing.Entry], None]
"""Called with the snapshots before and after an event, and its entry."""

MOST = 1000
"""Events that may wait to be told, give or take a read: each holds on to two snapshots."""


class Audience:
    """The callbacks of one follower, and what they have not heard yet. Told by one thread."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._untold: deque[tuple[snapshots.Snapshot, snapshots.Snapshot, tailing.Entry]] = deque()

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        return bool(self._callbacks)

    def __len__(self) -> int:
        """How many events wait to be told."""
        return len(self._untold)

    @property
    def full(self) -> bool:
        """So many events wait that the log is not to be read on."""
        return len(self._untold) >= MOST

    def add(self, callback: Callback) -> None:
        """Tell it of each event from now on."""
        self._callbacks = (*self._callbacks, callback)

    def put(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        """Have an event told."""
        self._untold.append((before, after, entry))

    def forget(self) -> None:
        """Tell nobody of what waits: it is of a history that has ended."""
        self._untold.clear()

    def tell(self) -> None:
        """Tell everybody what waits. An error of a callback stops nothing; the first is raised in the end."""
        failures: list[Exception] = []
        while self._untold:
            told = self._untold.popleft()
            for callback in self._callbacks:
                try:
                    callback(*told)
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]
