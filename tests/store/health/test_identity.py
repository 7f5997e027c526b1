"""A store that holds the log of another Kubernetes cluster."""

from app.domain import events
from app.store import stores
from app.store.health import identity
from app.store.log import logs


def claimed(store: stores.Store, uid: str) -> None:
    """A recorder of the cluster with this UID has appended."""
    store.log.append(logs.Batch(events=(events.Quarantined("notes", "n", "x"),), kubernetes=uid))


def test_the_log_of_another_cluster_is_a_problem_that_names_both(store: stores.Store) -> None:
    check = identity.IdentityCheck(store.log, lambda: "here")

    def problem() -> str | None:
        assert check.measure()
        return check.problem

    assert problem() is None, "no process has claimed the store"
    claimed(store, "elsewhere")
    found = problem() or ""
    assert "UID elsewhere, here it has here" in found
    assert "setting cluster" in found


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
    assert unreadable.measure()
    assert not unknown.measure()
    assert unreadable.problem is unknown.problem is None
