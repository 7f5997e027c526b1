"""A recorder without a kind that an earlier one has listed: processes that have it wait for its list."""

from collections.abc import Callable, Iterator

import pytest

from app import settings
from app.domain import schema
from app.store import stores
from app.store.server import embedded
from tests.support import declared
from tests.support.workers import clusters, leadership_events, recordings

LACKING = "poddisruptionbudgets"


@pytest.fixture
def without(store_server: embedded.Server, cluster: str, store: stores.Store) -> Iterator[stores.Store]:
    """The store as a process opens it that lacks a kind without counters."""
    kinds = tuple(kind for kind in declared.SCHEMA.kinds if kind.name != LACKING)
    assert len(kinds) == len(declared.SCHEMA.kinds) - 1
    opened = stores.open_store(
        settings.Store(url=store_server.url),
        schema=schema.Schema(kinds, declared.SCHEMA.counters),
        cluster=cluster,
    )
    yield opened
    opened.close()


def test_a_kind_that_the_leader_lacks_is_not_listed_until_one_that_has_it_leads(
    recorded: Callable[[], recordings.Recording],
    again: Callable[[], stores.Store],
    without: stores.Store,
    cluster_side: clusters.Cluster,
) -> None:
    extender = again()
    recorded().ready().stop()
    assert not extender.follower.catch_up().unlisted
    for _ in range(2):
        recordings.Recording(without, cluster_side).ready().stop()
        assert extender.follower.catch_up().unlisted == {LACKING}
        # A version that does not read ``unwatched`` lists the kind again without a mark.
        assert extender.log.resume_versions()[f"rv:{LACKING}"] == ""
        assert not without.follower.snapshot.unlisted
    recorded().ready().stop()
    assert not extender.follower.catch_up().unlisted
    lacked = [one.unwatched for one in leadership_events.leaders(extender.log)]
    assert lacked == [(), (LACKING,), (), ()]
