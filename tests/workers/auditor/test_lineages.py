"""An incarnation that no event of the log began is refused by every process, and named."""

from collections.abc import Callable

import pytest

from app.domain import events
from app.store import errors, stores
from app.store.log import incarnations, lineages
from tests.support.workers import audits, clusters, recordings
from workers.auditor import auditors


@pytest.fixture
def recorder(
    cluster_side: clusters.Cluster, recorded: Callable[[], recordings.Recording]
) -> recordings.Recording:
    cluster_side.node("n1", zone="a")
    return recorded().ready()


@pytest.mark.parametrize("invented", ["X", incarnations.new(["fffffff00000-aa"])], ids=["any", "later"])
@pytest.mark.parametrize("versions", ["there", "deleted"])
def test_an_incarnation_that_no_event_began_is_refused_and_named(
    cluster_side: clusters.Cluster,
    recorder: recordings.Recording,
    again: Callable[..., stores.Store],
    invented: str,
    versions: str,
) -> None:
    store, meta = recorder.store, recorder.store.keys.meta
    here = store.log.incarnation
    former, other = again(), again()
    former.follower.catch_up()
    auditor = auditors.Auditor(other, cluster_side.client, audits.OPTIONS)
    auditor.run_once()
    if versions == "deleted":
        store.client.delete(store.keys.versions)
    head = store.log.head().offset
    store.client.hset(meta, "incarnation", invented)
    advice = f"run HSET {meta} incarnation {here}"

    with pytest.raises(errors.Unbegun, match=advice):
        former.follower.catch_up()
    with pytest.raises(errors.Unbegun, match=advice):
        auditor.run_once()
    with pytest.raises(errors.Unbegun, match=advice):
        again()
    cluster_side.node("n2", zone="b")
    recordings.eventually(
        lambda: advice in str(recorder.recorder.checks().get("store")), "readiness reports it"
    )
    assert store.client.xinfo_stream(store.keys.log)["last-generated-id"] == f"{head}-0".encode()
    with pytest.raises(errors.Unbegun):
        former.follower.catch_up()

    store.client.hset(meta, "incarnation", here)
    recorder.until(lambda snapshot: "n2" in snapshot.nodes, "the recorder goes on")
    assert former.follower.catch_up().position.incarnation == here
    auditor.run_once()
    written = [entry.event for entry in store.log.read(0)]
    assert not any(isinstance(event, events.StoreRewound) for event in written)


def test_a_recorder_follows_to_an_incarnation_that_was_begun(
    recorder: recordings.Recording, again: Callable[..., stores.Store]
) -> None:
    former = again()
    former.follower.catch_up()
    log = recorder.store.log
    here = log.incarnation
    assert not log.report_loss(incarnations.Watermark(here, recorder.snapshot.offset + 7, 1))
    recordings.eventually(lambda: former.log.state().incarnation != here, "another incarnation begins")
    recorder.ready()
    found = former.follower.catch_up().position.incarnation
    assert found != here
    begun = [entry.event for entry in former.log.read(0) if isinstance(entry.event, events.StoreRewound)]
    assert [one.incarnation for one in begun] == [found]
    # As if the view did not name the position.
    recorder.store.client.delete(recorder.store.keys.versions)
    assert again().log.incarnation == found


def test_an_incarnation_that_another_one_followed_is_not_refused(
    recorder: recordings.Recording, again: Callable[..., stores.Store]
) -> None:
    """A process may read the incarnation just before another one begins, and the log just after."""
    store = again()
    here = store.log.incarnation
    assert not recorder.store.log.report_loss(incarnations.Watermark(here, recorder.snapshot.offset + 7, 1))
    recordings.eventually(lambda: store.log.state().incarnation != here, "another incarnation begins")
    lineages.prove(store.client, store.keys, here)
    store.client.hset(store.keys.meta, "incarnation", here)
    with pytest.raises(errors.Unbegun):
        lineages.prove(store.client, store.keys, here)
