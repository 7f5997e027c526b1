"""A store that holds the log of another Kubernetes cluster."""

import contextlib

import pytest

from app.domain import events
from app.kube.client import clients, cluster_identity
from app.simulation.apiserver import apiservers, faults
from app.store import errors, keys, stores
from app.store.health import identity
from app.store.log import batches, incarnations, logs
from tests.support import declared
from tests.support.kube import plain_access
from tests.support.workers import recordings


def claimed(store: stores.Store, uid: str) -> None:
    """A recorder of the cluster with this UID has appended."""
    store.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "x"),), kubernetes=uid))


def test_the_log_of_another_cluster_is_a_problem_that_names_both(store: stores.Store) -> None:
    check = identity.IdentityCheck(store.log, lambda: "here")
    assert not check.measure(), "no process has claimed the store: it is compared again soon"
    assert check.problem is None
    claimed(store, "elsewhere")
    assert check.measure()
    found = check.problem or ""
    assert "UID elsewhere, here it has here" in found
    assert "setting cluster" in found


def test_nothing_is_appended_to_the_log_of_another_cluster(store: stores.Store) -> None:
    claimed(store, "elsewhere")
    uids: list[str | None] = ["here"]
    check = identity.IdentityCheck(store.log, lambda: uids[-1])
    check.start()
    try:
        head, event = store.log.head(), events.Quarantined("notes", "n", "y")
        with pytest.raises(errors.OtherCluster):
            store.log.append(batches.Batch(events=(event,)))
        rewound = events.StoreRewound(from_incarnation=head.incarnation, lost_from=1, lost_to=1, reason="r")
        with pytest.raises(errors.OtherCluster):
            store.log.rewind(rewound, incarnations.new(), found=head.incarnation, guard=logs.NO_GUARD)
        assert store.log.state().end.offset == head.offset
    finally:
        check.stop()
    uids.append(None)
    assert not check.measure()
    assert "UID elsewhere" in (check.problem or ""), "what was found remains while the API server is away"
    uids.append("elsewhere")
    assert check.measure()
    assert check.problem is None
    assert store.log.append(batches.Batch(events=(event,))).first == head.offset + 1


def test_another_incarnation_is_compared_at_once(store: stores.Store) -> None:
    """As after a flush, when another cluster has begun a log of the same name."""
    claimed(store, "here")
    check = identity.IdentityCheck(store.log, lambda: "here")
    check.start()
    try:
        store.log.check_compared()
        begun = incarnations.new((store.log.incarnation,))
        store.client.hset(store.keys.meta, keys.KUBERNETES, "elsewhere")
        rewound = events.StoreRewound(store.log.incarnation, 1, 1, reason="r", incarnation=begun)
        assert store.log.rewind(rewound, begun, found=store.log.incarnation, guard=logs.NO_GUARD)
        store.log.check_compared()
        store.follower.catch_up()
        # Nothing is decided by it before it is compared.
        with pytest.raises(errors.StoreError):
            store.log.check_compared()
        recordings.eventually(lambda: store.log.foreign is not None, "it is compared")
        assert "UID elsewhere" in (check.problem or "")
    finally:
        check.stop()


def test_the_log_of_this_cluster_is_none(store: stores.Store) -> None:
    claimed(store, "here")
    check = identity.IdentityCheck(store.log, lambda: "here")
    assert check.measure()
    assert check.problem is None


def test_a_uid_that_may_not_be_read_is_not_compared_and_one_that_is_unknown_is_asked_again(
    store: stores.Store,
) -> None:
    claimed(store, "elsewhere")
    unreadable, unknown = (identity.IdentityCheck(store.log, uid) for uid in (lambda: "", lambda: None))
    # Soon at first, as the refusal may be that of an API server that starts.
    assert [unreadable.measure() for _ in range(40)] == [False] * 30 + [True] * 10
    assert not unknown.measure()
    assert unreadable.problem is unknown.problem is None


def test_a_process_is_not_ready_before_its_first_comparison(store: stores.Store) -> None:
    """An API server that is away later changes nothing: what is running stays in service."""
    claimed(store, "here")
    uids: list[str | None] = [None]
    check = identity.IdentityCheck(store.log, lambda: uids[-1])
    check.start()
    try:
        assert "it is not known yet whether the log is this cluster's" in (check.problem or "")
        uids.append("here")
        assert check.measure()
        assert check.problem is None
        uids.append(None)
        assert not check.measure()
        assert check.problem is None
    finally:
        check.stop()


@pytest.mark.parametrize("status", [403, 404])
def test_a_uid_that_could_not_be_read_at_first_is_compared_later(store: stores.Store, status: int) -> None:
    """As while an API server starts, which has not read its roles yet."""
    claimed(store, "elsewhere")
    with (
        apiservers.ApiServer(declared.SCHEMA) as server,
        contextlib.closing(clients.Client(plain_access.of(server.url))) as client,
    ):
        server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "here"}})
        reading = faults.calls("GET", cluster_identity.PATH)
        server.faults.add(faults.FaultKind.FAIL, reading, status=status, times=2)
        check = identity.IdentityCheck(store.log, cluster_identity.Identity(client).uid_if_known)
        assert not check.measure(), "it is asked again soon"
        assert not check.measure()
        assert check.problem is None
        assert check.measure()
        assert "UID elsewhere, here it has here" in (check.problem or "")
