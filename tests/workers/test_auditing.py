"""The auditor between a real store, a recorder and an API server: it finds what is wrong, and nothing else."""

import hashlib
import itertools
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from app import settings
from app.domain import consistency, events, model, projecting
from app.store import codecs, embedded, images, keys, logs, opening
from tests.store import writing
from tests.workers import conftest
from workers import auditing, recording

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

    def edit(self, offset: int, change: Callable[[dict[bytes, bytes]], dict[bytes, bytes] | None]) -> None:
        """Write the log anew with one entry changed, or without it."""
        entries = self.client.xrange(self.keys.log)
        self.client.delete(self.keys.log)
        for identity, fields in entries:
            kept = change(fields) if identity == f"{offset}-0".encode() else fields
            if kept is not None:
                self.client.xadd(self.keys.log, kept, id=identity)

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
    recorder.until_counts(**{"a": 2, "b": 2})
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


def view(world: World, field: str, change: Callable[[str], object]) -> None:
    """Change a count by hand."""
    change(field)


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


def _entry(world: World, event: events.AnyEvent, identity: str) -> None:
    now = int(world.client.time()[0]) * 1000
    world.client.xadd(world.keys.log, {"t": now, "e": codecs.encode(event), "w": ""}, id=identity)


def entry_added(world: World) -> list[Found]:
    world.recorder.stop()
    offset = world.head + 1
    _entry(world, writing.seen("added", "n1", app="x"), f"{offset}-0")
    return [Found("foreign", f"entry:{offset}", offset, "without an epoch", "past the store's function")]


def entry_added_between(world: World) -> list[Found]:
    world.recorder.stop()
    _entry(world, writing.seen("added", "n1", app="x"), f"{world.head}-1")
    return [Found("foreign", f"entry:{world.head}", world.head, blame="it has the id")]


def entry_added_and_head_moved(world: World) -> list[Found]:
    """By somebody who knows what meta says of the end of the log."""
    world.recorder.stop()
    uid, offset = world.uid("w0"), world.head + 1
    placed = events.PodPlaced(model.Pod(uid=uid, namespace="ns", name="w0"), node="n1", by="mallory")
    _entry(world, placed, f"{offset}-0")
    (entry,) = world.client.xrange(world.keys.log, f"{offset}-0")
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": entry[1][b"t"]})
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


def checkpoint_edited(world: World) -> list[Found]:
    header = _checkpoint(world)
    key = world.keys.checkpoint(header.offset, header.parts, 1)
    line = images.decompressed(bytes(world.client.get(key) or b""), "it")
    world.client.set(key, images.compressed(line.replace(b'"n1"', b'"n9"')))
    return [Found("checkpoint", f"checkpoint:{header.offset}", header.offset, "compactor", "changed afterwards")]


def checkpoint_cut(world: World) -> list[Found]:
    header = _checkpoint(world)
    world.client.delete(world.keys.checkpoint(header.offset, header.parts, 0))
    return [Found("checkpoint", f"checkpoint:{header.offset}", header.offset, "compactor", "changed afterwards")]


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
            assert one.first <= one.last == world.auditor.report.offset or one.kind != "count", one
