"""`topolog migrate up` is killed, again and again, while writers of the version before go on."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import redis

from app import settings
from app.store import keys, schemas, stores
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.store import past_stores

_LONGEST, _LONGER = 0.03, 1.15
"""Seconds after which a run is killed at most, and how much longer the next one has: in the end one ends."""


class Mortals:
    """Runs of the command, in processes of their own."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store.migration_loop"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TOPOLOG_STORE_URL": url},
            text=True,
        )

    def run(self, cluster: str, seconds: float | None = None) -> int:
        """The exit code; the run is killed after so many seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{cluster}\n")
        self._process.stdin.flush()
        child = self._read()
        timer = threading.Timer(seconds or 0.0, _kill, (child,))
        if seconds is not None:
            timer.start()
        code = self._read()
        timer.cancel()
        return code

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # It may have ended just now.
        os.kill(child, signal.SIGKILL)


@pytest.fixture(scope="module")
def mortals(store_server: embedded.Server) -> Iterator[Mortals]:
    made = Mortals(store_server.url)
    yield made
    made.close()


def kill(url: str, mortals: Mortals, name: str, seed: int) -> int:
    """Migrate a store with kills in between; how many there were."""
    rng, names = random.Random(seed), keys.Keys(name)
    client, theirs = connections.connect(url), connections.connect(url)
    past_stores.restore(client, names)
    writer = past_stores.Writer(theirs, names)
    writer.follow(past_stores.snapshot_of(client, names))
    stopped = threading.Event()

    def write() -> None:
        number = 0
        while not stopped.is_set():
            try:
                writer.append(*(past_stores.pod(number + i) for i in range(5)))
            except redis.ResponseError:
                return
            number += 5
            time.sleep(0.005)  # a thousand events a second, as a large cluster at its busiest

    thread = threading.Thread(target=write)
    thread.start()
    kills, before = 0, schemas.status(client, names).schema
    try:
        while True:
            code = mortals.run(name, rng.uniform(0.0, _LONGEST * _LONGER**kills))
            assert code in (0, -signal.SIGKILL)
            schema = schemas.status(client, names).schema
            assert schema in ((2,) if code == 0 else (before, 2))
            if schema == 2:
                break
            kills += 1
    finally:
        stopped.set()
        thread.join()
    assert mortals.run(name) == 0
    store = stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=name)
    assert past_stores.lawful(store).offset == past_stores.HEAD + len(writer.accepted)
    assert [entry.event for entry in store.log.read(past_stores.HEAD, limit=10**6)] == writer.accepted
    store.close()
    theirs.close()
    client.close()
    return kills


def test_kills_lose_nothing(store_server: embedded.Server, mortals: Mortals, cluster: str) -> None:
    kills, seed = 0, 0
    while kills < 24:
        kills += kill(store_server.url, mortals, f"{cluster}-{seed}", seed)
        seed += 1
    assert seed < 100


@pytest.mark.campaign
def test_many_kills_lose_nothing(store_server: embedded.Server, mortals: Mortals, cluster: str) -> None:
    kills, first = 0, sizes.first_seed()
    seed = first
    while kills < sizes.of("MIGRATE_KILLS", 500):
        kills += kill(store_server.url, mortals, f"{cluster}-{seed}", seed)
        seed += 1
    assert seed > first
