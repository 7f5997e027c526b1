"""An incarnation that no event of the log began is refused by everybody, and named."""

from collections.abc import Callable

import pytest

from app.domain import events
from app.store import errors, incarnations, opening
from tests.workers import conftest, test_auditing
from workers import auditing


@pytest.fixture
def recorder(
    cluster_side: conftest.Cluster, recorded: Callable[[], conftest.Recording]
) -> conftest.Recording:
    cluster_side.node("n1", zone="a")
    return recorded().ready()


@pytest.mark.parametrize("invented", ["X", incarnations.new(["fffffff00000-aa"])], ids=["any", "later"])
@pytest.mark.parametrize("versions", ["there", "deleted"])
def test_an_incarnation_that_no_event_began_is_refused_and_named(
    cluster_side: conftest.Cluster,
    recorder: conftest.Recording,
    again: Callable[..., opening.Store],
    invented: str,
    versions: str,
) -> None:
    store, meta = recorder.store, recorder.store.keys.meta
    here = store.log.incarnation
    former, other = again(), again()
    former.follower.catch_up()
    auditor = auditing.Auditor(other, cluster_side.client, test_auditing.OPTIONS)
    auditor.turn()
    if versions == "deleted":
        store.client.delete(store.keys.versions)
    head = store.log.head().offset
    store.client.hset(meta, "incarnation", invented)
    advice = f"run HSET {meta} incarnation {here}"

    with pytest.raises(errors.Unbegun, match=advice):
        former.follower.catch_up()
    with pytest.raises(errors.Unbegun, match=advice):
        auditor.turn()
    with pytest.raises(errors.Unbegun, match=advice):
        again()
    cluster_side.node("n2", zone="b")
    conftest.eventually(
        lambda: advice in str(recorder.recorder.checks().get("store")), "the recorder says so"
    )
    assert store.client.xinfo_stream(store.keys.log)["last-generated-id"] == f"{head}-0".encode()
    with pytest.raises(errors.Unbegun):
        former.follower.catch_up()

    store.client.hset(meta, "incarnation", here)
    recorder.until(lambda snapshot: "n2" in snapshot.nodes, "the recorder goes on")
    assert former.follower.catch_up().position.incarnation == here
    auditor.turn()
    written = [entry.event for entry in store.log.read(0)]
    assert not any(isinstance(event, events.StoreRewound) for event in written)


def test_a_recorder_goes_along_to_an_incarnation_that_was_begun(
    recorder: conftest.Recording, again: Callable[..., opening.Store]
) -> None:
    former = again()
    former.follower.catch_up()
    log = recorder.store.log
    here = log.incarnation
    assert not log.doubt(incarnations.Known(here, recorder.snapshot.offset + 7, 1))
    conftest.eventually(lambda: former.log.standing().incarnation != here, "another incarnation begins")
    recorder.ready()
    found = former.follower.catch_up().position.incarnation
    assert found != here
    begun = [entry.event for entry in former.log.read(0) if isinstance(entry.event, events.StoreRewound)]
    assert [one.incarnation for one in begun] == [found]
    # As if the view did not say where.
    recorder.store.client.delete(recorder.store.keys.versions)
    assert again().log.incarnation == found
