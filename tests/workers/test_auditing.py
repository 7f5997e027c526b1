"""The auditor beside a real store, a recorder and an API server: it finds what is wrong, and nothing else."""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from app import settings
from app.domain import consistency, events, model, projecting
from app.store import codecs, errors, images, incarnations, inspecting, keys, logs, opening
from app.verbs import releasing
from tests.store import writing
from tests.workers import conftest
from workers import auditing, compacting, recording

OPTIONS = settings.Audit(interval=0.05, page=10_000, listing=0.05, repair=False, relist=False)
REPAIRING = settings.Audit(interval=0.05, page=10_000, listing=0.05)


class Clock:
    """A second passes at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def __call__(self) -> float:
        return float(next(self._ticks))


class World:
    """A cluster that is recorded, and an auditor that has found it whole."""

    def __init__(
        self,
        cluster: conftest.Cluster,
        recorder: conftest.Recording,
        reopen: Callable[[], opening.Store],
        options: settings.Audit,
    ) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self.store = recorder.store
        self.client = recorder.store.client
        self.keys = recorder.store.keys
        self._reopen = reopen
        self.auditor = self.another(options)

    def another(self, options: settings.Audit = OPTIONS) -> auditing.Auditor:
        """An auditor as another process; it has looked at everything once."""
        made = auditing.Auditor(self._reopen(), self.cluster.client, options, monotonic=Clock())
        return made

    def looked(self, auditor: auditing.Auditor | None = None) -> consistency.Report:
        """The report after everything was looked at anew, twice."""
        auditor = auditor or self.auditor
        before = auditor.report
        passes = 2 + (before.passes if before is not None else 0)
        listings = 6 + (before.listings if before is not None else 0)

        def complete() -> bool:
            auditor.turn()
            report = auditor.report
            if report is None:
                return False
            return report.passes >= passes and (report.listings >= listings or "counts" in report.waiting)

        conftest.eventually(complete, f"everything was looked at: {auditor.report}")
        assert auditor.report is not None
        return auditor.report

    @property
    def head(self) -> int:
        return self.store.log.head().offset

    def edit(self, offset: int, change: Callable[[dict[bytes, bytes]], dict[bytes, bytes]]) -> None:
        """Write the log anew with one entry changed."""
        pipeline: Any = self.client.pipeline(transaction=True)
        entries: Any = self.client.xrange(self.keys.log)
        pipeline.delete(self.keys.log)
        for identity, fields in entries:
            changed = change(fields) if identity == f"{offset}-0".encode() else fields
            pipeline.xadd(self.keys.log, changed, id=identity)
        pipeline.execute()

    def offset_of(self, name: str) -> int:
        """The offset of the latest event on a pod of the cluster."""
        snapshot = self.recorder.snapshot
        pod = snapshot.pod_named("ns", name)
        assert pod is not None
        return snapshot.version(f"pod:{pod.uid}")

    def uid(self, name: str) -> str:
        pod = self.recorder.snapshot.pod_named("ns", name)
        assert pod is not None
        return pod.uid


@pytest.fixture
def world(
    cluster_side: conftest.Cluster,
    recorded: Callable[[], conftest.Recording],
    again: Callable[..., opening.Store],
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setattr(recording, "MARKS_EVERY", 0.02)
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster_side.node(name, zone=zone)
    cluster_side.policy("p", a=5, b=5)
    for number in range(4):
        cluster_side.pod(f"w{number}", node=f"n{1 + number % 2}", app="x")
    recorder = recorded().ready()
    recorder.until_counts(a=2, b=2)
    made = World(cluster_side, recorder, again, OPTIONS)
    report = made.looked()
    assert report.differences == ()
    return made


class Found(NamedTuple):
    """What the auditor must say of a planted corruption."""

    kind: str
    key: str
    offset: int = 0
    writer: str = ""
    """Part of it."""
    blame: str = ""
    """Part of it."""


def counted(world: World, domain: str) -> str:
    """The name of the policy's count for a domain, as it is stored."""
    (key,) = [key for key in world.store.log.counts() if key.endswith(domain)]
    return key


# -- counts --------------------------------------------------------------------------------


def count_raised(world: World) -> list[Found]:
    key = counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    return [Found("count", key, blame=f"written past the log at offset {world.head}")]


def count_lowered(world: World) -> list[Found]:
    world.cluster.pod("later", app="other")
    world.recorder.until(lambda snapshot: snapshot.pod_named("ns", "later") is not None, "it is recorded")
    key = counted(world, "b")
    world.client.hincrby(world.keys.counts, key, -1)
    blame = f"no event explains it: {key} was written past the log between offsets"
    return [Found("count", key, blame=blame)]


def count_deleted(world: World) -> list[Found]:
    key = counted(world, "a")
    world.client.hdel(world.keys.counts, key)
    return [Found("count", key, blame="written past the log")]


def count_invented(world: World) -> list[Found]:
    world.client.hset(world.keys.counts, "ns/nothing|a", 7)
    return [Found("count", "ns/nothing|a", blame="written past the log")]


def count_garbled(world: World) -> list[Found]:
    key = counted(world, "a")
    world.client.hset(world.keys.counts, key, "many")
    return [Found("count", key, blame="written past the log")]


def _placed(world: World, times: int) -> int:
    """A replica places a pod, and counts it as often as said; the offset."""
    world.cluster.pod("placed", app="x")
    snapshot = world.recorder.until(lambda now: now.pod_named("ns", "placed") is not None, "it is recorded")
    pod = snapshot.pod_named("ns", "placed")
    assert pod is not None
    event = events.PodPlaced(pod=pod, node="n1", by="replica-7")
    projection = projecting.Projection(snapshot)
    projection.apply(event)
    increments = {key: times * by for key, by in projection.increments.items()}
    return world.store.log.append(logs.Batch(events=(event,), increments=increments)).first


def event_not_counted(world: World) -> list[Found]:
    offset = _placed(world, 0)
    return [Found("count", counted(world, "a"), offset, "replica-7", "had not been counted")]


def event_counted_twice(world: World) -> list[Found]:
    offset = _placed(world, 2)
    return [Found("count", counted(world, "a"), offset, "replica-7", "had been counted twice")]


# -- versions ------------------------------------------------------------------------------


def version_raised(world: World) -> list[Found]:
    world.client.hset(world.keys.versions, "node:n1", 999)
    return [Found("version", "node:n1", blame="written past the log")]


def version_invented(world: World) -> list[Found]:
    world.client.hset(world.keys.versions, "pod:nobody", 3)
    return [Found("version", "pod:nobody", blame="written past the log")]


def version_deleted(world: World) -> list[Found]:
    world.client.hdel(world.keys.versions, "node:n2")
    return [Found("version", "node:n2", blame="written past the log")]


# -- the log -------------------------------------------------------------------------------


def entry_edited(world: World) -> list[Found]:
    world.recorder.stop()
    offset = world.offset_of("w0")
    epoch = world.store.log.standing().epoch
    world.edit(offset, lambda fields: {**fields, b"e": fields[b"e"].replace(b'"n1"', b'"n2"')})
    return [Found("edited", f"entry:{offset}", offset, epoch, "changed afterwards")]


def entry_removed(world: World) -> list[Found]:
    world.recorder.stop()
    offset = world.offset_of("w1")
    world.client.xdel(world.keys.log, f"{offset}-0")
    return [Found("hole", f"entry:{offset}", offset, blame="removed past")]


def tail_removed(world: World) -> list[Found]:
    world.recorder.stop()
    head = world.head
    world.client.xdel(world.keys.log, f"{head}-0", f"{head - 1}-0")
    return [Found("lost", f"entry:{head - 1}", head - 1, blame=f"{head - 1} to {head} were there")]


def beginning_removed(world: World) -> list[Found]:
    world.recorder.stop()
    world.client.xtrim(world.keys.log, minid="4-0", approximate=False)
    return [Found("uncovered", "log", 4, blame="the entries before 4 were removed")]


ADDED = events.PodSeen(
    pod=model.Pod(uid="added", namespace="ns", name="added", labels={"app": "x"}, node="n1")
)


def _entry(world: World, event: events.AnyEvent, identity: str) -> None:
    now = int(world.client.time()[0]) * 1000
    world.client.xadd(world.keys.log, {"t": now, "e": codecs.encode(event), "w": ""}, id=identity)


def entry_added(world: World) -> list[Found]:
    world.recorder.stop()
    offset = world.head + 1
    _entry(world, ADDED, f"{offset}-0")
    return [Found("foreign", f"entry:{offset}", offset, "without an epoch", "past the store's function")]


def garbage_added(world: World) -> list[Found]:
    world.recorder.stop()
    identity = world.client.xadd(world.keys.log, {"note": "by hand"})
    assert isinstance(identity, bytes)
    offset = int(identity.partition(b"-")[0])
    return [Found("foreign", f"entry:{offset}", offset, "without an epoch", "past the store's function")]


def garbage_added_and_removed(world: World) -> list[Found]:
    (added,) = garbage_added(world)
    world.client.xdel(world.keys.log, f"{added.offset}-0")
    return [Found("tail", "log", blame="a stream gives no id again")]


def entry_added_between(world: World) -> list[Found]:
    world.recorder.stop()
    _entry(world, ADDED, f"{world.head}-1")
    return [Found("foreign", f"entry:{world.head}", world.head, blame="it has the id")]


def entry_added_and_head_moved(world: World) -> list[Found]:
    """By somebody who knows what meta says of the end of the log."""
    world.recorder.stop()
    uid, offset = world.uid("w0"), world.head + 1
    placed = events.PodPlaced(model.Pod(uid=uid, namespace="ns", name="w0"), node="n1", by="mallory")
    _entry(world, placed, f"{offset}-0")
    at_ms = world.store.log.time_of(offset)
    assert at_ms is not None
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": at_ms})
    return [Found("version", f"pod:{uid}", offset, "mallory", "appended past the store's function")]


def head_raised(world: World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head + 5)
    return [Found("head", f"meta:{keys.HEAD}", blame="nothing was ever appended there")]


def head_lowered(world: World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head - 2)
    return [Found("head", f"meta:{keys.HEAD}", blame="the log goes on behind it")]


# -- checkpoints ---------------------------------------------------------------------------


def _checkpoint(world: World) -> images.Header:
    snapshot, at_ms = world.store.follower.dated()
    assert at_ms is not None
    header = world.store.checkpoints.write(snapshot, at_ms)
    assert world.looked().differences == ()
    return header


def _changed(header: images.Header) -> Found:
    key = f"checkpoint:{header.offset}"
    return Found("checkpoint", key, header.offset, "compactor", "changed afterwards")


def checkpoint_edited(world: World) -> list[Found]:
    header = _checkpoint(world)
    key = world.keys.checkpoint(header.offset, header.parts, 1)
    part = world.client.get(key)
    assert isinstance(part, bytes)
    line = images.decompressed(part, "it")
    world.client.set(key, images.compressed(line.replace(b'"n1"', b'"n9"')))
    return [
        Found("checkpoint", f"checkpoint:{header.offset}", header.offset, "compactor", "changed afterwards")
    ]


def checkpoint_cut(world: World) -> list[Found]:
    header = _checkpoint(world)
    world.client.delete(world.keys.checkpoint(header.offset, header.parts, 0))
    return [
        Found("checkpoint", f"checkpoint:{header.offset}", header.offset, "compactor", "changed afterwards")
    ]


def checkpoint_forged(world: World) -> list[Found]:
    """Whole in itself, but of a cluster that never was."""
    world.cluster.pod("later", app="other")
    snapshot = world.recorder.until(lambda now: now.pod_named("ns", "later") is not None, "it is recorded")
    at_ms = world.store.follower.dated()[1]
    assert at_ms is not None
    _, node = next(iter(snapshot.nodes.items()))
    wrong = projecting.project(snapshot, events.NodeGone(node.name, node.uid))
    image = images.freeze(wrong, cluster="c", at_ms=at_ms)
    header = msgspec.structs.replace(image.header, offset=snapshot.offset)
    line = images.decompressed(image.members[0], "it").replace(
        b'"offset":%d' % wrong.offset, b'"offset":%d' % snapshot.offset
    )
    members = [images.compressed(line), *image.members[1:]]
    summed = hashlib.sha256(b"".join(images.decompressed(member, "it") for member in members)).hexdigest()
    world.store.checkpoints.keep(images.Image(msgspec.structs.replace(header, digest=summed), members))
    return [
        Found(
            "checkpoint", f"checkpoint:{snapshot.offset}", snapshot.offset, "compactor", f"node:{node.name}"
        )
    ]


# -- facts ---------------------------------------------------------------------------------


def _fact(world: World, *facts: events.AnyEvent, epoch: str | None = None) -> int:
    """Written as the recorder writes, or without an epoch; the first offset."""
    standing = world.store.log.standing()
    snapshot = world.store.follower.catch_up()
    found = writing.facts(
        world.store.log,
        snapshot,
        facts,
        epoch=standing.epoch if epoch is None else epoch,
        writer=standing.writer if epoch is None else "",
    )
    return found.first


def fact_lost(world: World) -> list[Found]:
    uid = world.uid("w2")
    _fact(world, events.PodGone(uid=uid, namespace="ns", name="w2"))
    return [Found("fact", f"pod:{uid}", blame="the log does not have it")]


def fact_invented(world: World) -> list[Found]:
    offset = _fact(world, writing.seen("nobody", "n1"))
    return [Found("fact", "pod:nobody", offset, blame="the API server does not have it")]


def fact_changed(world: World) -> list[Found]:
    node = world.recorder.snapshot.nodes["n1"]
    offset = _fact(world, events.NodeSeen(msgspec.structs.replace(node, unschedulable=True)))
    return [Found("fact", "node:n1", offset, blame="something else than the API server in unschedulable")]


def fact_by_a_stranger(world: World) -> list[Found]:
    node = world.recorder.snapshot.nodes["n1"]
    offset = _fact(world, events.NodeSeen(msgspec.structs.replace(node, unschedulable=True)), epoch="")
    stranger = "whoever wrote NodeSeen without an epoch"
    return [
        Found("fence", f"entry:{offset}", offset, stranger, "not the recorder of that time"),
        Found("fact", "node:n1", offset),
    ]


def placement_of_nobody(world: World) -> list[Found]:
    pod = model.Pod(uid="nobody", namespace="ns", name="nobody", labels={"app": "x"})
    found = writing.placement(world.store.log, world.store.follower.catch_up(), pod, "n1")
    return [Found("placement", "pod:nobody", found.first, blame="promised a node to a pod")]


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
    fact_by_a_stranger,
    placement_of_nobody,
)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_planted_corruption_is_found_and_blamed(world: World, plant: Callable[[World], list[Found]]) -> None:
    expected = plant(world)
    found = world.looked().differences
    assert {(one.kind, one.key) for one in found} == {(one.kind, one.key) for one in expected}, found
    for wanted, one in itertools.product(expected, found):
        if (one.kind, one.key) == (wanted.kind, wanted.key):
            assert one.offset == wanted.offset, one
            assert wanted.writer in one.writer, one
            assert wanted.blame in one.blame, one
            assert one.first <= one.last, one


# -- what the auditor has not seen itself --------------------------------------------------


def test_an_entry_changed_before_it_came_shows_between_two_checkpoints(world: World) -> None:
    _checkpoint(world)
    world.cluster.pod("late", node="n1", app="x")
    world.recorder.until_counts(a=3, b=2)
    offset = world.offset_of("late")
    second = _checkpoint(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=5)
    world.edit(offset, lambda fields: {**fields, b"e": fields[b"e"].replace(b'"late"', b'"fate"')})
    fact, one = world.looked(world.another()).differences
    assert (fact.kind, fact.key) == ("fact", f"pod:{world.uid('late')}")
    assert (one.kind, one.key) == ("past", f"checkpoint:{second.offset}")
    assert one.offset == offset
    assert f"the last event on it is {offset}" in one.blame


def test_a_checkpoint_changed_before_it_came_is_told_from_a_changed_entry(world: World) -> None:
    wrong = checkpoint_forged(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=4)
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    report = world.looked(world.another())
    assert [(one.kind, one.key) for one in report.differences] == [(one.kind, one.key) for one in wrong]
    assert "the log leads to the checkpoint after it" in report.differences[0].blame


def test_an_epoch_that_was_over_is_told(world: World) -> None:
    world.recorder.stop()
    offset = world.offset_of("w3")
    world.edit(offset, lambda fields: {**fields, b"w": b"1"})
    (one,) = world.looked(world.another()).differences
    assert (one.kind, one.offset, one.writer) == ("fence", offset, "recorder unknown (epoch 1)")


def test_an_entry_that_is_no_event_stops_the_fold_and_is_told(world: World) -> None:
    world.recorder.stop()
    offset = world.head + 1
    world.client.xadd(world.keys.log, {"t": 1, "e": b'{"v":1,"type":"Nonsense"}', "w": ""}, id=f"{offset}-0")
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": 1})
    report = world.looked()
    (one,) = report.differences
    assert (one.kind, one.offset) == ("unreadable", offset)
    assert "unknown type" in report.waiting["counts"]


def test_what_was_found_keeps_its_blame_over_a_restart(world: World) -> None:
    offset = _placed(world, 0)
    world.looked()
    for _ in range(3):
        world.cluster.pod(f"more{_}", node="n1", app="x")
    world.recorder.until(lambda now: now.pod_named("ns", "more2") is not None, "they are recorded")
    (one,) = world.looked(world.another()).differences
    assert (one.kind, one.offset, one.writer) == ("count", offset, "replica-7")


def test_of_many_versions_a_page_is_enough_to_notice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "WHOLE", 5)
    world.client.hset(world.keys.versions, "node:n1", 1)
    world.client.hset(world.keys.versions, "pod:nobody", 3)
    found = world.looked().differences
    assert [(one.kind, one.key) for one in found] == [("version", "node:n1"), ("version", "pod:nobody")]
    assert "written past the log" in found[1].blame


# -- what is done about it -----------------------------------------------------------------


def test_counts_and_versions_are_brought_back_to_the_log_by_an_event(world: World) -> None:
    counts, versions = world.store.log.counts(), world.store.log.versions()
    for plant in (count_raised, count_invented, version_raised, version_invented, version_deleted):
        plant(world)
    before = world.head
    auditor = world.another(REPAIRING)
    report = world.looked(auditor)
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
    assert (entry.event.by, entry.event.ended) == (auditor.identity, ("pod:nobody",))
    # And the next writer is not in the way of anybody.
    _placed(world, 1)
    assert world.looked(auditor).differences == ()


def test_two_auditors_repair_once(world: World) -> None:
    others = [world.another(REPAIRING) for _ in range(2)]
    for other in others:
        assert world.looked(other).differences == ()
    key = counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    for _ in range(4):
        for other in others:
            other.turn()
    repaired = [
        entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.ViewsRepaired)
    ]
    assert [one.counts for one in repaired] == [{key: -3}]
    assert world.store.log.counts()[key] == 2


def test_while_something_speaks_against_the_log_nothing_is_repaired_by_it(world: World) -> None:
    auditor = world.another(REPAIRING)
    world.looked(auditor)
    entry_edited(world)
    auditor.turn()
    key = counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    report = world.looked(auditor)
    assert {one.kind for one in report.differences} == {"edited", "count"}
    assert report.repairs == ()
    assert world.store.log.counts()[key] == 5


@pytest.mark.parametrize(
    "plant", [fact_lost, fact_invented, fact_changed], ids=lambda plant: plant.__name__.replace("_", " ")
)
def test_facts_are_mended_by_the_recorder_when_it_is_asked(
    world: World, plant: Callable[[World], list[Found]]
) -> None:
    counts = world.store.log.counts()
    plant(world)
    auditor = world.another(REPAIRING)
    conftest.eventually(
        lambda: bool(auditor.turn()) and auditor.report is not None and bool(auditor.report.repairs),
        "a list is asked for",
    )
    conftest.eventually(
        lambda: bool(auditor.turn()) and auditor.report is not None and not auditor.report.differences,
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


def test_who_starts_anew_folds_an_edited_entry_and_mends_what_it_says(
    world: World, again: Callable[..., opening.Store]
) -> None:
    counts = world.store.log.counts()
    entry_edited(world)
    restarted = conftest.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(REPAIRING)
        report = world.looked(auditor)
        conftest.eventually(
            lambda: bool(auditor.turn()) and auditor.report is not None and not auditor.report.differences,
            f"it is mended: {report.differences}",
        )
        assert world.store.log.counts() == counts == dict(restarted.snapshot.counts)
    finally:
        restarted.stop()


def test_an_entry_that_was_added_behind_the_head_can_be_taken_in(
    world: World, again: Callable[..., opening.Store]
) -> None:
    (wrong,) = entry_added(world)
    assert world.looked().total == 1
    with pytest.raises(errors.StoreError):
        _place(world)
    # As docs/how-to/consistency.md says.
    at_ms = world.store.log.time_of(wrong.offset)
    assert at_ms is not None
    world.client.hset(world.keys.meta, mapping={keys.HEAD: wrong.offset, "at": at_ms})
    restarted = conftest.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(REPAIRING)

        def mended() -> bool:
            auditor.turn()
            assert auditor.report is not None
            done = {one.what for one in auditor.report.repairs} == {"counts", "versions", "pods"}
            return done and {one.kind for one in auditor.board} == {"fence"}

        conftest.eventually(mended, "it is taken for what it is, not counted and not true; its origin stays")
        assert "added" not in restarted.snapshot.pods
        _place(world)
    finally:
        restarted.stop()


def _place(world: World) -> None:
    snapshot = world.recorder.snapshot
    writing.placement(world.store.log, snapshot, snapshot.pods[world.uid("w0")], "n1")


# -- and nothing else ----------------------------------------------------------------------


def test_under_load_a_whole_store_never_shows_a_difference(
    world: World, again: Callable[..., opening.Store]
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

    def place(store: opening.Store, who: int) -> None:
        try:
            for number in itertools.count():
                if stopping.is_set():
                    return
                pod = world.cluster.pod(f"r{who}-{number}", app="x")
                for _ in range(5):
                    with contextlib.suppress(errors.Conflict):
                        writing.placement(store.log, store.follower.catch_up(), pod, "n2")
                    releasing.release(store.follower, store.log, pod.uid, "superseded", "a test")
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
        auditor = world.another(REPAIRING)
        seen: list[consistency.Difference] = []
        conftest.eventually(
            lambda: _noted(auditor, seen) >= 9 and world.head > begun + 1000,
            f"a thousand events and three lists of each kind: {auditor.report}",
        )
        assert seen == []
        assert auditor.report is not None
        assert auditor.report.repairs == ()
    finally:
        stopping.set()
        for thread in threads:
            thread.join(conftest.LIMIT)
    assert failures == []


def _noted(auditor: auditing.Auditor, seen: list[consistency.Difference]) -> int:
    """One turn; how many kinds were compared so far."""
    auditor.turn()
    seen.extend(auditor.board)
    return auditor.report.listings if auditor.report is not None else 0


def test_compaction_and_a_new_incarnation_are_no_differences(
    world: World, again: Callable[..., opening.Store]
) -> None:
    other = again()
    compactor = compacting.Compactor(other, settings.Compaction(events=100, seconds=1, keep=0))
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    world.client.delete(world.keys.readers)
    compactor.turn()
    assert world.store.log.oldest() == world.head
    assert world.looked().differences == ()
    assert world.looked(world.another()).folded > 0

    log = world.store.log
    assert not log.doubt(incarnations.Known(log.incarnation, world.head + 7, 1))
    former = log.incarnation
    conftest.eventually(lambda: log.standing().incarnation != former, "the recorder begins a new incarnation")
    world.recorder.ready()
    report = world.looked()
    assert report.incarnation == log.standing().incarnation
    assert report.differences == ()
