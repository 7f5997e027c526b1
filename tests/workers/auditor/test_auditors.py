"""The auditor with a real store, a recorder and an API server: every corruption is found, nothing else."""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from app import settings
from app.domain import events, model, projections
from app.domain.audit import findings
from app.store import errors, keys, raw_access, snapshot_format, stores
from app.store.log import codecs, incarnations, logs
from app.verbs import placement_releases
from tests.support import declared
from tests.support.store import writers
from tests.support.workers import audits, clusters, recordings
from workers.auditor import auditors, ledger
from workers.compactor import compactors
from workers.recorder import log_writer


@pytest.fixture
def world(
    cluster_side: clusters.Cluster,
    recorded: Callable[[], recordings.Recording],
    again: Callable[..., stores.Store],
    monkeypatch: pytest.MonkeyPatch,
) -> audits.World:
    monkeypatch.setattr(log_writer, "RESUME_VERSIONS_EVERY", 0.02)
    return audits.watched(cluster_side, recorded(), again)


class Found(NamedTuple):
    """The difference that the auditor must report for a planted corruption."""

    kind: str
    key: str
    offset: int = 0
    writer: str = ""
    """Part of it."""
    blame: str = ""
    """Part of it."""
    found: str = ""
    """Part of it."""
    run: str = ""
    """The command, or any if empty."""


# -- counts --------------------------------------------------------------------------------


def count_raised(world: audits.World) -> list[Found]:
    key = audits.counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    return [Found("count", key, blame=f"written bypassing the log at offset {world.head}")]


def count_lowered(world: audits.World) -> list[Found]:
    world.cluster.pod("later", app="other")
    world.recorder.until(lambda snapshot: snapshot.pod_named("ns", "later") is not None, "it is recorded")
    key = audits.counted(world, "b")
    world.client.hincrby(world.keys.counts, key, -1)
    blame = f"no event explains it: {key} was written bypassing the log between offsets"
    return [Found("count", key, blame=blame)]


def count_deleted(world: audits.World) -> list[Found]:
    key = audits.counted(world, "a")
    world.client.hdel(world.keys.counts, key)
    return [Found("count", key, blame="written bypassing the log")]


def count_invented(world: audits.World) -> list[Found]:
    world.client.hset(world.keys.counts, "ns/nothing|a", 7)
    return [Found("count", "ns/nothing|a", blame="written bypassing the log")]


def count_garbled(world: audits.World) -> list[Found]:
    key = audits.counted(world, "a")
    world.client.hset(world.keys.counts, key, "many")
    return [Found("count", key, blame="written bypassing the log")]


def _placed(world: audits.World, times: int) -> int:
    """Place a pod as a replica does, and count it ``times`` times; returns the offset."""
    world.cluster.pod("placed", app="x")
    snapshot = world.recorder.until(lambda now: now.pod_named("ns", "placed") is not None, "it is recorded")
    pod = snapshot.pod_named("ns", "placed")
    assert pod is not None
    event = events.PlacementsCommitted(placements=(model.Placement(pod, "n1"),), by="replica-7")
    projection = projections.Projection(snapshot)
    projection.apply(event)
    increments = {key: times * by for key, by in projection.increments.items()}
    return world.store.log.append(logs.Batch(events=(event,), increments=increments)).first


def event_not_counted(world: audits.World) -> list[Found]:
    offset = _placed(world, 0)
    return [Found("count", audits.counted(world, "a"), offset, "replica-7", "had not been counted")]


def event_counted_twice(world: audits.World) -> list[Found]:
    offset = _placed(world, 2)
    return [Found("count", audits.counted(world, "a"), offset, "replica-7", "had been counted twice")]


# -- versions ------------------------------------------------------------------------------


def version_raised(world: audits.World) -> list[Found]:
    world.client.hset(world.keys.versions, "node:n1", 999)
    return [Found("version", "node:n1", blame="written bypassing the log")]


def version_invented(world: audits.World) -> list[Found]:
    world.client.hset(world.keys.versions, "pod:unknown", 3)
    return [Found("version", "pod:unknown", blame="written bypassing the log")]


def version_deleted(world: audits.World) -> list[Found]:
    world.client.hdel(world.keys.versions, "node:n2")
    return [Found("version", "node:n2", blame="written bypassing the log")]


# -- the log -------------------------------------------------------------------------------


def entry_edited(world: audits.World) -> list[Found]:
    world.recorder.stop()
    offset = world.offset_of("w0")
    epoch = world.store.log.state().epoch
    world.edit(offset, lambda fields: {**fields, b"e": fields[b"e"].replace(b'"n1"', b'"n2"')})
    return [Found("edited", f"entry:{offset}", offset, epoch, "changed afterwards")]


def entry_removed(world: audits.World) -> list[Found]:
    world.recorder.stop()
    offset = world.offset_of("w1")
    world.client.xdel(world.keys.log, f"{offset}-0")
    return [Found("hole", f"entry:{offset}", offset, blame="removed past")]


def tail_removed(world: audits.World) -> list[Found]:
    world.recorder.stop()
    head = world.head
    world.client.xdel(world.keys.log, f"{head}-0", f"{head - 1}-0")
    return [Found("lost", f"entry:{head - 1}", head - 1, blame=f"{head - 1} to {head} were there")]


def beginning_removed(world: audits.World) -> list[Found]:
    world.recorder.stop()
    world.client.xtrim(world.keys.log, minid="4-0", approximate=False)
    return [Found("uncovered", "log", 4, blame="the entries before 4 were removed")]


ADDED = events.PodSeen(
    pod=model.Pod(uid="added", namespace="ns", name="added", labels={"app": "x"}, node="n1")
)


def _entry(world: audits.World, event: events.AnyEvent, identity: str) -> None:
    now = int(world.client.time()[0]) * 1000
    world.client.xadd(world.keys.log, {"t": now, "e": codecs.encode(event), "w": ""}, id=identity)


def entry_added(world: audits.World) -> list[Found]:
    world.recorder.stop()
    offset = world.head + 1
    _entry(world, ADDED, f"{offset}-0")
    return [Found("foreign", f"entry:{offset}", offset, "without an epoch", "past the store's function")]


REPAIR_TAIL = "topolog doctor store --repair-tail"


def _garbage(world: audits.World) -> int:
    """Add an entry by hand; its offset."""
    world.recorder.stop()
    identity = world.client.xadd(world.keys.log, {"note": "by hand"})
    assert isinstance(identity, bytes)
    return int(identity.partition(b"-")[0])


def garbage_added(world: audits.World) -> list[Found]:
    offset = _garbage(world)
    found = "without an epoch", "past the store's function"
    return [Found("foreign", f"entry:{offset}", offset, *found, run=REPAIR_TAIL)]


def garbage_added_and_removed(world: audits.World) -> list[Found]:
    offset = _garbage(world)
    world.client.xdel(world.keys.log, f"{offset}-0")
    blame = "a stream accepts neither this id nor a lower one again"
    return [Found("tail", "log", blame=blame, found=f"the id {offset}-0", run=REPAIR_TAIL)]


def entry_added_between(world: audits.World) -> list[Found]:
    world.recorder.stop()
    _entry(world, ADDED, f"{world.head}-1")
    return [Found("foreign", f"entry:{world.head}", world.head, blame="it has the id")]


def entry_added_and_head_moved(world: audits.World) -> list[Found]:
    """As a writer does that also updates the head in meta."""
    world.recorder.stop()
    uid, offset = world.uid("w0"), world.head + 1
    placed = events.PlacementsCommitted(
        placements=(model.Placement(model.Pod(uid=uid, namespace="ns", name="w0"), "n1"),), by="mallory"
    )
    _entry(world, placed, f"{offset}-0")
    at_ms = world.store.log.time_of(offset)
    assert at_ms is not None
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": at_ms})
    return [Found("version", f"pod:{uid}", offset, "mallory", "appended past the store's function")]


def head_raised(world: audits.World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head + 5)
    return [Found("head", f"meta:{keys.HEAD}", blame="nothing was ever appended there")]


def head_lowered(world: audits.World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head - 2)
    return [Found("head", f"meta:{keys.HEAD}", blame="the log continues beyond it")]


# -- checkpoints ---------------------------------------------------------------------------


def _checkpoint(world: audits.World) -> snapshot_format.Header:
    snapshot, at_ms = world.store.follower.dated()
    assert at_ms is not None
    header = world.store.checkpoints.write(snapshot, at_ms)
    assert world.audited().differences == ()
    return header


def _changed(header: snapshot_format.Header) -> Found:
    key = f"checkpoint:{header.offset}"
    return Found("checkpoint", key, header.offset, "compactor", "changed after the compactor")


def checkpoint_edited(world: audits.World) -> list[Found]:
    header = _checkpoint(world)
    key = world.keys.checkpoint(header.offset, header.parts, 1)
    part = world.client.get(key)
    assert isinstance(part, bytes)
    line = snapshot_format.decompressed(part, "it")
    world.client.set(key, snapshot_format.compressed(line.replace(b'"n1"', b'"n9"')))
    return [
        Found(
            "checkpoint",
            f"checkpoint:{header.offset}",
            header.offset,
            "compactor",
            "changed after the compactor",
        )
    ]


def checkpoint_cut(world: audits.World) -> list[Found]:
    header = _checkpoint(world)
    world.client.delete(world.keys.checkpoint(header.offset, header.parts, 0))
    return [
        Found(
            "checkpoint",
            f"checkpoint:{header.offset}",
            header.offset,
            "compactor",
            "changed after the compactor",
        )
    ]


def checkpoint_forged(world: audits.World) -> list[Found]:
    """Its digest is intact, but it is the state of another cluster."""
    world.cluster.pod("later", app="other")
    snapshot = world.recorder.until(lambda now: now.pod_named("ns", "later") is not None, "it is recorded")
    at_ms = world.store.follower.dated()[1]
    assert at_ms is not None
    _, node = next(iter(snapshot.nodes.items()))
    wrong = projections.project(snapshot, events.NodeGone(node.name, node.uid))
    image = snapshot_format.serialize(wrong, cluster="c", at_ms=at_ms)
    header = msgspec.structs.replace(image.header, offset=snapshot.offset)
    line = snapshot_format.decompressed(image.members[0], "it").replace(
        b'"offset":%d' % wrong.offset, b'"offset":%d' % snapshot.offset
    )
    members = [snapshot_format.compressed(line), *image.members[1:]]
    summed = hashlib.sha256(
        b"".join(snapshot_format.decompressed(member, "it") for member in members)
    ).hexdigest()
    world.store.checkpoints.keep(
        snapshot_format.SerializedSnapshot(msgspec.structs.replace(header, digest=summed), members)
    )
    return [
        Found(
            "checkpoint", f"checkpoint:{snapshot.offset}", snapshot.offset, "compactor", f"node:{node.name}"
        )
    ]


# -- facts ---------------------------------------------------------------------------------


def _fact(world: audits.World, *facts: events.AnyEvent, epoch: str | None = None) -> int:
    """Append facts as the recorder does, or without an epoch; returns the first offset."""
    state = world.store.log.state()
    snapshot = world.store.follower.catch_up()
    found = writers.facts(
        world.store.log,
        snapshot,
        facts,
        epoch=state.epoch if epoch is None else epoch,
        writer=state.writer if epoch is None else "",
    )
    return found.first


def fact_lost(world: audits.World) -> list[Found]:
    uid = world.uid("w2")
    _fact(world, events.PodGone(uid=uid, namespace="ns", name="w2"))
    return [Found("fact", f"pod:{uid}", blame="the log does not have it")]


def fact_invented(world: audits.World) -> list[Found]:
    offset = _fact(world, writers.seen("unknown", "n1"))
    return [Found("fact", "pod:unknown", offset, blame="the API server does not have it")]


def fact_changed(world: audits.World) -> list[Found]:
    node = world.recorder.snapshot.nodes["n1"]
    offset = _fact(world, events.NodeSeen(msgspec.structs.replace(node, unschedulable=True)))
    return [Found("fact", "node:n1", offset, blame="differs from the API server in unschedulable")]


def fact_by_an_unknown_writer(world: audits.World) -> list[Found]:
    node = world.recorder.snapshot.nodes["n1"]
    offset = _fact(world, events.NodeSeen(msgspec.structs.replace(node, unschedulable=True)), epoch="")
    unknown = "an unknown writer (NodeSeen without an epoch)"
    return [
        Found(
            "fence",
            f"entry:{offset}",
            offset,
            unknown,
            "a fact that the recorder elected at that time did not write",
        ),
        Found("fact", "node:n1", offset),
    ]


def placement_of_an_unknown_pod(world: audits.World) -> list[Found]:
    pod = model.Pod(uid="unknown", namespace="ns", name="unknown", labels={"app": "x"})
    found = writers.placement(world.store.log, world.store.follower.catch_up(), pod, "n1")
    return [
        Found("placement", "pod:unknown", found.first, blame="placed a pod that the API server does not have")
    ]


PLANTED = (
    count_raised,
    count_lowered,
    count_deleted,
    count_invented,
    count_garbled,
    event_not_counted,
    event_counted_twice,
    version_raised,
    version_invented,
    version_deleted,
    entry_edited,
    entry_removed,
    tail_removed,
    beginning_removed,
    entry_added,
    garbage_added,
    garbage_added_and_removed,
    entry_added_between,
    entry_added_and_head_moved,
    head_raised,
    head_lowered,
    checkpoint_edited,
    checkpoint_cut,
    checkpoint_forged,
    fact_lost,
    fact_invented,
    fact_changed,
    fact_by_an_unknown_writer,
    placement_of_an_unknown_pod,
)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_planted_corruption_is_found_and_blamed(
    world: audits.World, plant: Callable[[audits.World], list[Found]]
) -> None:
    expected = plant(world)
    found = world.audited().differences
    assert {(one.kind, one.key) for one in found} == {(one.kind, one.key) for one in expected}, found
    for wanted, one in itertools.product(expected, found):
        if (one.kind, one.key) == (wanted.kind, wanted.key):
            assert one.offset == wanted.offset, one
            assert wanted.writer in one.writer, one
            assert wanted.blame in one.blame, one
            assert wanted.found in one.found, one
            assert wanted.run in ("", one.run), one
            assert one.first <= one.last, one


# -- what the auditor has not seen itself --------------------------------------------------


def test_an_entry_changed_before_it_was_read_is_found_between_two_checkpoints(world: audits.World) -> None:
    _checkpoint(world)
    world.cluster.pod("late", node="n1", app="x")
    world.recorder.until_counts(a=3, b=2)
    offset = world.offset_of("late")
    second = _checkpoint(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=5)
    world.edit(offset, lambda fields: {**fields, b"e": fields[b"e"].replace(b'"late"', b'"fate"')})
    fact, one = world.audited(world.another()).differences
    assert (fact.kind, fact.key) == ("fact", f"pod:{world.uid('late')}")
    assert (one.kind, one.key) == ("past", f"checkpoint:{second.offset}")
    assert one.offset == offset
    assert f"the last event on it is {offset}" in one.blame


def test_a_checkpoint_changed_before_it_was_read_is_not_taken_for_a_changed_entry(
    world: audits.World,
) -> None:
    wrong = checkpoint_forged(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=4)
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    report = world.audited(world.another())
    assert [(one.kind, one.key) for one in report.differences] == [(one.kind, one.key) for one in wrong]
    assert "the log leads to the checkpoint after it" in report.differences[0].blame


def test_an_outdated_epoch_is_reported(world: audits.World) -> None:
    world.recorder.stop()
    offset = world.offset_of("w3")
    world.edit(offset, lambda fields: {**fields, b"w": b"1"})
    (one,) = world.audited(world.another()).differences
    assert (one.kind, one.offset, one.writer) == ("fence", offset, "recorder unknown (epoch 1)")


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b'{"v":1,"type":"Nonsense"}', "unknown type"),
        (declared.UNREADABLE, "a workloadpolicies object cannot be read"),
        (declared.UNREADABLE.replace(b"workloadpolicies", b"gadgets"), "a gadgets object cannot be read"),
    ],
)
def test_an_undecodable_entry_stops_the_replay_and_is_reported(
    world: audits.World, payload: bytes, problem: str
) -> None:
    world.recorder.stop()
    offset = world.head + 1
    world.client.xadd(world.keys.log, {"t": 1, "e": payload, "w": ""}, id=f"{offset}-0")
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": 1})
    report = world.audited()
    (one,) = report.differences
    assert (one.kind, one.offset) == ("unreadable", offset)
    assert problem in report.waiting["counts"]


def test_an_open_difference_keeps_its_attribution_over_a_restart(world: audits.World) -> None:
    offset = _placed(world, 0)
    world.audited()
    for _ in range(3):
        world.cluster.pod(f"more{_}", node="n1", app="x")
    world.recorder.until(lambda now: now.pod_named("ns", "more2") is not None, "they are recorded")
    (one,) = world.audited(world.another()).differences
    assert (one.kind, one.offset, one.writer) == ("count", offset, "replica-7")


def test_one_page_of_many_versions_is_enough_to_find_a_wrong_one(
    world: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_access, "WHOLE", 5)
    world.client.hset(world.keys.versions, "node:n1", 1)
    world.client.hset(world.keys.versions, "pod:unknown", 3)
    found = world.audited().differences
    assert [(one.kind, one.key) for one in found] == [("version", "node:n1"), ("version", "pod:unknown")]
    assert "written bypassing the log" in found[1].blame


# -- what is done about it -----------------------------------------------------------------


def test_counts_and_versions_are_corrected_by_an_event(world: audits.World) -> None:
    counts, versions = world.store.log.counts(), world.store.log.versions()
    for plant in (count_raised, count_invented, version_raised, version_invented, version_deleted):
        plant(world)
    before = world.head
    auditor = world.another(audits.REPAIRING)
    report = world.audited(auditor)
    assert report.differences == ()
    assert [(one.what, one.offset) for one in report.repairs] == [
        ("counts", before + 1),
        ("versions", before + 1),
    ]
    assert world.store.log.counts() == counts
    repaired = {"store:views": before + 1, "node:n1": before + 1, "node:n2": before + 1}
    assert world.store.log.versions() == {**versions, **repaired} == dict(world.recorder.snapshot.versions)
    (entry,) = world.store.log.read(before)
    assert isinstance(entry.event, events.ViewsRepaired)
    assert (entry.event.by, entry.event.ended) == (auditor.identity, ("pod:unknown",))
    # And the next writer conflicts with no other.
    _placed(world, 1)
    assert world.audited(auditor).differences == ()


def test_two_auditors_repair_once(world: audits.World) -> None:
    others = [world.another(audits.REPAIRING) for _ in range(2)]
    for other in others:
        assert world.audited(other).differences == ()
    key = audits.counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    for _ in range(4):
        for other in others:
            other.run_once()
    repaired = [
        entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.ViewsRepaired)
    ]
    assert [one.counts for one in repaired] == [{key: -3}]
    assert world.store.log.counts()[key] == 2


def test_views_are_not_repaired_while_the_log_has_findings(world: audits.World) -> None:
    auditor = world.another(audits.REPAIRING)
    world.audited(auditor)
    entry_edited(world)
    auditor.run_once()
    key = audits.counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    report = world.audited(auditor)
    assert {one.kind for one in report.differences} == {"edited", "count"}
    assert report.repairs == ()
    assert world.store.log.counts()[key] == 5


@pytest.mark.parametrize(
    "plant", [fact_lost, fact_invented, fact_changed], ids=lambda plant: plant.__name__.replace("_", " ")
)
def test_facts_are_corrected_by_a_requested_list(
    world: audits.World, plant: Callable[[audits.World], list[Found]]
) -> None:
    counts = world.store.log.counts()
    plant(world)
    auditor = world.another(audits.REPAIRING)
    recordings.eventually(
        lambda: bool(auditor.run_once()) and auditor.report is not None and bool(auditor.report.repairs),
        "a list is asked for",
    )
    recordings.eventually(
        lambda: bool(auditor.run_once()) and auditor.report is not None and not auditor.report.differences,
        "the recorder mends it",
    )
    assert world.store.log.counts() == counts
    asked = [
        entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.RelistRequested)
    ]
    listed = [entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.Relisted)]
    assert len(asked) == 1
    assert listed[-1].kind == asked[0].kind
    assert listed[-1].reason.startswith("asked by the auditor")


def test_an_auditor_that_restarts_replays_an_edited_entry_and_corrects_its_facts(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    counts = world.store.log.counts()
    entry_edited(world)
    restarted = recordings.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(audits.REPAIRING)
        report = world.audited(auditor)
        recordings.eventually(
            lambda: (
                bool(auditor.run_once()) and auditor.report is not None and not auditor.report.differences
            ),
            f"it is mended: {report.differences}",
        )
        assert world.store.log.counts() == counts == dict(restarted.snapshot.counts)
    finally:
        restarted.stop()


def test_an_entry_that_was_added_beyond_the_head_can_be_adopted(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    (wrong,) = entry_added(world)
    assert world.audited().total == 1
    with pytest.raises(errors.StoreError):
        audits.place(world)
    # As docs/how-to/consistency.md describes.
    at_ms = world.store.log.time_of(wrong.offset)
    assert at_ms is not None
    world.client.hset(world.keys.meta, mapping={keys.HEAD: wrong.offset, "at": at_ms})
    restarted = recordings.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(audits.REPAIRING)

        def mended() -> bool:
            auditor.run_once()
            assert auditor.report is not None
            done = {one.what for one in auditor.report.repairs} == {"counts", "versions", "pods"}
            return done and {one.kind for one in auditor.board} == {"fence"}

        recordings.eventually(
            mended, "it is taken for what it is, not counted and not true; its origin stays"
        )
        assert "added" not in restarted.snapshot.pods
        audits.place(world)
    finally:
        restarted.stop()


# -- and nothing else ----------------------------------------------------------------------


def test_an_intact_store_never_shows_a_difference_under_load(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    stopping = threading.Event()
    failures: list[Exception] = []

    def churn() -> None:
        try:
            for number in itertools.count():
                if stopping.is_set():
                    return
                name = f"c{number % 20}"
                world.cluster.pod(name, node=f"n{1 + number % 2}", app="x")
                world.cluster.label_node("n2", zone="ab"[number % 2])
                world.cluster.end_pod(name)
        except Exception as error:
            failures.append(error)

    def place(store: stores.Store, who: int) -> None:
        try:
            for number in itertools.count():
                if stopping.is_set():
                    return
                pod = world.cluster.pod(f"r{who}-{number}", app="x")
                for _ in range(5):
                    with contextlib.suppress(errors.Conflict):
                        writers.placement(store.log, store.follower.catch_up(), pod, "n2")
                    placement_releases.release(store.follower, store.log, pod.uid, "superseded", "a test")
                world.cluster.end_pod(pod.name)
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=churn),
        *(threading.Thread(target=place, args=(again(), n)) for n in range(2)),
    ]
    for thread in threads:
        thread.start()
    try:
        begun = world.head
        auditor = world.another(audits.REPAIRING)
        seen: list[findings.Difference] = []
        recordings.eventually(
            lambda: _noted(auditor, seen) >= 9 and world.head > begun + 1000,
            f"a thousand events and three lists of each kind: {auditor.report}",
        )
        assert seen == []
        assert auditor.report is not None
        assert auditor.report.repairs == ()
    finally:
        stopping.set()
        for thread in threads:
            thread.join(recordings.LIMIT)
    assert failures == []


def _noted(auditor: auditors.Auditor, seen: list[findings.Difference]) -> int:
    """Run once; returns how many comparisons are complete."""
    auditor.run_once()
    seen.extend(auditor.board)
    return auditor.report.listings if auditor.report is not None else 0


def test_compaction_and_a_new_incarnation_are_not_differences(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    other = again()
    compactor = compactors.Compactor(other, settings.Compaction(events=100, seconds=1, keep=0))
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    world.client.delete(world.keys.readers)
    compactor.run_once()
    assert world.store.log.oldest() == world.head
    assert world.audited().differences == ()
    assert world.audited(world.another()).folded > 0

    log = world.store.log
    assert not log.report_loss(incarnations.Watermark(log.incarnation, world.head + 7, 1))
    former = log.incarnation
    recordings.eventually(lambda: log.state().incarnation != former, "the recorder begins a new incarnation")
    world.recorder.ready()
    report = world.audited()
    assert report.incarnation == log.state().incarnation
    assert report.differences == ()


def _trimmed(world: audits.World) -> None:
    """Trim everything that a checkpoint covers: readers without a heartbeat count as dead."""
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    world.client.delete(world.keys.readers)
    world.store.log.trim(world.head, world.head, reader_timeout=0.001)
    assert world.store.log.oldest() == world.head


def test_an_auditor_that_was_passed_by_a_trim_begins_again(world: audits.World) -> None:
    world.audited()
    for number in range(5):
        world.cluster.pod(f"later{number}")
    recordings.eventually(
        lambda: world.recorder.snapshot.pod_named("ns", "later4") is not None, "they are recorded"
    )
    _trimmed(world)
    with pytest.raises(errors.Trimmed):
        world.auditor.run_once()
    report = world.audited()
    assert (report.offset, report.differences) == (world.head, ())


def test_a_long_replay_is_not_passed_by_a_trim(world: audits.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_MAX_READS", 1)
    monkeypatch.setattr(raw_access, "LINES", 2)
    late = world.another()
    world.client.delete(world.keys.readers)
    assert not late.run_once()
    assert [offset for offset, _ in world.store.log.consumers().values()] == [2]
