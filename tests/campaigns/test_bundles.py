"""A bundle of thousands of decisions explains each as its source did, with and without pseudonyms."""

import itertools
import re
import secrets
from collections.abc import Iterator

import pytest

from app.store.bundles import pseudonyms
from app.store.server import embedded
from tests.support.campaigns import sizes
from tests.support.extender import api_worlds, bundled, error_shape

pytestmark = [pytest.mark.campaign, pytest.mark.scenario("WI-10"), pytest.mark.timeout(3600)]
FIRST = 500
EVENTS, DECISIONS = sizes.of("BUNDLED_EVENTS", 10_000), sizes.of("BUNDLED_DECISIONS", 2_000)
EVERY = max(1, 2 * EVENTS // DECISIONS - 1)
"""About two decisions are made at a time."""


@pytest.fixture(scope="module")
def source(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    with api_worlds.processes(store_server, f"large{secrets.token_hex(4)}") as start:
        yield bundled.lived(start(), length=FIRST + EVENTS, every=EVERY)


@pytest.fixture(scope="module")
def bundle(source: api_worlds.World) -> bytes:
    return bundled.exported(source, f"?from={FIRST}")


def compared(
    source: api_worlds.World, elsewhere: api_worlds.World, table: pseudonyms.Names
) -> Iterator[tuple[error_shape.Json, error_shape.Json]]:
    """Each explanation of the bundle with the real names, and that of its source; the oldest first."""

    def real(text: str) -> str:
        found, unknown = table.translated(text)
        assert not unknown
        return found

    for row in reversed(list(bundled.decisions(elsewhere))):
        path = bundled.path_of(row)
        yield bundled.explanation(elsewhere, path, real), bundled.explanation(source, real(path))


def test_thousands_of_decisions_are_explained_as_by_the_source(
    store_server: embedded.Server, source: api_worlds.World, bundle: bytes
) -> None:
    with bundled.opened(store_server, bundle) as elsewhere:
        explained = 0
        for there, here in compared(source, elsewhere, pseudonyms.Names(pseudonyms.KIND, 1, "none", {})):
            assert there == here
            explained += 1
    assert explained >= DECISIONS


def test_thousands_of_decisions_are_explained_with_pseudonyms(
    store_server: embedded.Server, source: api_worlds.World, bundle: bytes
) -> None:
    data, table = bundled.renamed(bundle)
    real = {f"{kind}{at}" for kind in ("n", "p", "uid-n", "uid-p") for at in range(100, FIRST + EVENTS)}
    real |= {f"new-{at}" for at in range(FIRST + EVENTS)}
    words = [set(re.findall(r"[\w.-]+", text.decode())) for text in bundled.members(data).values()]
    assert real.isdisjoint(itertools.chain.from_iterable(words))
    assert not real.isdisjoint(re.findall(r"[\w.-]+", bundled.members(bundle)["events.jsonl.gz"].decode()))
    with bundled.opened(store_server, data) as elsewhere:
        explained = 0
        for there, here in compared(source, elsewhere, table):
            assert there == here
            explained += 1
    assert explained >= DECISIONS
