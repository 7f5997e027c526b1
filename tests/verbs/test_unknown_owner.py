"""While it is unknown whose log the store has, as without an API server at first, no verb decides by it."""

from collections.abc import Iterator

import pytest

from app.domain import events
from app.store.health import identity
from app.store.log import batches
from app.verbs import candidates, errors, filtering, preempting
from tests.support.extender import replicas

UNKNOWN = "not known yet whether the log is this cluster's"


class Uids:
    """The UID of this process's cluster, None as long as the API server does not answer."""

    def __init__(self) -> None:
        self.now: str | None = None

    def __call__(self) -> str | None:
        return self.now


@pytest.fixture
def claimed(shop: replicas.Cluster) -> replicas.Replica:
    """A replica whose store has the log of the cluster with the UID first."""
    replica = shop.replica()
    note = events.Quarantined("notes", "n", "x")
    replica.store.log.append(batches.Batch(events=(note,), kubernetes="first"))
    replica.snapshot()
    return replica


@pytest.fixture
def uids() -> Uids:
    return Uids()


@pytest.fixture
def check(claimed: replicas.Replica, uids: Uids) -> Iterator[identity.IdentityCheck]:
    made = identity.IdentityCheck(claimed.store.log, uids)
    made.start()
    yield made
    made.stop()


def test_nothing_is_decided_before_the_first_comparison(
    shop: replicas.Cluster, claimed: replicas.Replica, check: identity.IdentityCheck, uids: Uids
) -> None:
    pod, free = shop.pod("web-1"), shop.pod("free", {"app": "free"})
    with pytest.raises(errors.StateAway, match=UNKNOWN):
        filtering.run(claimed.context, pod, candidates.Candidates(["h1"]))
    head = claimed.store.log.head()
    for one in (pod, free):
        claimed.offer(one)
        assert UNKNOWN in claimed.bind(one, "h1")
    assert (claimed.store.log.head(), shop.asked("/binding")) == (head, 0)
    assert filtering.run(claimed.context, free, candidates.Candidates(["h1"])).trace.kept == {"h1"}
    assert UNKNOWN in preempting.run(claimed.context, pod, {"h1": []}).dropped["h1"]
    uids.now = "second"
    assert check.measure()
    assert "UID first" in claimed.bind(pod, "h1")


@pytest.mark.parametrize("uid", ["first", ""])
def test_after_the_first_comparison_an_api_server_that_is_away_changes_nothing(
    shop: replicas.Cluster,
    claimed: replicas.Replica,
    check: identity.IdentityCheck,
    uids: Uids,
    uid: str,
) -> None:
    """Nor does a UID that this process may not read."""
    uids.now = uid
    check.measure()
    uids.now = None
    assert not check.measure()
    assert claimed.bind(shop.pod("web-1"), "h1") == ""
