"""Keeps the latest answers to questions at a resolved position: ten viewers of one page cost one answer."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext

MOST = 64
MOST_BYTES = 32 * 1024**2


class KeptAnswers:
    """Answers by question, the least recently used dropped first; thread-safe."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(
        self,
        question: Hashable,
        compute: Callable[[], bytes],
        turn: AbstractContextManager[None] | None = None,
    ) -> bytes:
        """The kept answer, or the computed one, which is kept; an error of ``compute`` is not.

        ``turn``: is held while it is computed; raises what entering it raises.
        """
        found = self._find(question)
        if found is None:
            with turn or nullcontext():
                # Of those that ask together, the first one has computed it while the others waited.
                found = self._find(question)
                if found is None:
                    found = compute()
                    self._keep(question, found)
        return found

    def _find(self, question: Hashable) -> bytes | None:
        with self._lock:
            found = self._kept.get(question)
            if found is not None:
                self._kept.move_to_end(question)
            return found

    def _keep(self, question: Hashable, answer: bytes) -> None:
        with self._lock:
            if question not in self._kept:
                self._kept[question] = answer
                self._size += len(answer)
            while self._kept and (len(self._kept) > self._most or self._size > self._most_bytes):
                _, dropped = self._kept.popitem(last=False)
                self._size -= len(dropped)
