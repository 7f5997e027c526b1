"""The boundaries at which a run of the crash matrix can be disturbed.

A boundary is one call that changes something: of the store's functions (append, rewind, doubt, trim),
of the API server (a Binding, a Lease), a command by which a checkpoint or a migration is written, a
file of the archive that is brought to the disk. At each, the process that makes the call dies before it
takes effect or after, or the answer is lost and the process lives.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import TypeVar
from unittest import mock

import redis
from redis import client as redis_client

from tests.support.simulation.store import lossy_calls

T = TypeVar("T")

_WRITES = (
    "SET",
    "HSET",
    "HSETNX",
    "HDEL",
    "HINCRBY",
    "RENAME",
    "UNLINK",
    "FUNCTION LOAD",
    "PERSIST",
    "EXPIRE",
)


class Matrix:
    """Counts boundaries, and lets one thing happen at one of them."""

    def __init__(self, boundary: int = -1, way: str = "") -> None:
        """``boundary``: the number of the call at which it happens; ``way``: what happens there."""
        self.passed: list[str] = []
        """What was done at each boundary so far."""
        self.sheltered = True
        self._boundary = boundary
        self._way = way

    def pass_(self, what: str, call: Callable[[], T], lost: Callable[[], BaseException]) -> T:
        """Do it, unless this is where something happens."""
        if self.sheltered:
            return call()
        self.passed.append(what)
        way = self._way if len(self.passed) - 1 == self._boundary else ""
        if way == "before":
            raise lossy_calls.Crashed(f"before {what}")
        found = call()
        if way == "after":
            raise lossy_calls.Crashed(f"after {what}")
        if way == "lost":
            raise lost()
        return found

    @contextlib.contextmanager
    def shelter(self) -> Iterator[None]:
        """Nothing happens meanwhile, and nothing counts."""
        before, self.sheltered = self.sheltered, True
        try:
            yield
        finally:
            self.sheltered = before

    @contextlib.contextmanager
    def plainly(self) -> Iterator[None]:
        """Plain commands that write, transactions and files are boundaries too."""
        execute: Callable[..., object] = redis.Redis.execute_command
        transact: Callable[..., object] = redis_client.Pipeline.execute
        flush = os.fsync

        def executed(client: redis.Redis, *arguments: str, **options: object) -> object:
            call = functools.partial(execute, client, *arguments, **options)
            if not arguments[0].startswith(_WRITES):
                return call()
            return self.pass_(arguments[0], call, _disconnected)

        def transacted(pipeline: object, *arguments: object, **options: object) -> object:
            call = functools.partial(transact, pipeline, *arguments, **options)
            return self.pass_("transaction", call, _disconnected)

        def flushed(file: int) -> None:
            self.pass_("file", functools.partial(flush, file), lambda: OSError("simulated: the disk is full"))

        with (
            mock.patch.object(redis.Redis, "execute_command", executed),
            mock.patch.object(redis_client.Pipeline, "execute", transacted),
            mock.patch("app.store.checkpoints.archive_storage.os.fsync", flushed),
        ):
            yield


def _disconnected() -> redis.ConnectionError:
    return redis.ConnectionError("simulated: the answer was lost")
