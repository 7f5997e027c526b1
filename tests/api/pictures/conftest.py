"""A world with a random past."""

import secrets
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import api_worlds, random_histories

SEED = 7
LENGTH = 300


@pytest.fixture(scope="module")
def past(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    """A world that the tests of a module only read."""
    with api_worlds.processes(store_server, f"past{secrets.token_hex(4)}") as start:
        made = api_worlds.world(start())
        happened = random_histories.history(SEED, LENGTH)
        for start_at in range(0, len(happened), 100):
            made.append(*happened[start_at : start_at + 100])
        yield made


@pytest.fixture(scope="module")
def head(past: api_worlds.World) -> int:
    """The last offset of the world."""
    return past.store.follower.catch_up().offset
