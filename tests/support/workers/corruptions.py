"""Corruptions of a recorded cluster's store, each with the differences that the auditor must report."""

import hashlib
from typing import NamedTuple

import msgspec

from app.domain import events, model, projections
from app.store import keys, snapshot_format
from app.store.log import batches, codecs
from tests.support.store import writers
from tests.support.workers import audits


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


def placed_and_counted(world: audits.World, times: int) -> int:
    """Place a pod as a replica does, and count it ``times`` times; returns the offset."""
    world.cluster.pod("placed", app="x")
    snapshot = world.recorder.until(lambda now: now.pod_named("ns", "placed") is not None, "it is recorded")
    pod = snapshot.pod_named("ns", "placed")
    assert pod is not None
    event = events.PlacementsCommitted(placements=(model.Placement(pod, "n1"),), by="replica-7")
    projection = projections.Projection(snapshot)
    projection.apply(event)
    increments = {key: times * by for key, by in projection.increments.items()}
    return world.store.log.append(batches.Batch(events=(event,), increments=increments)).first


def event_not_counted(world: audits.World) -> list[Found]:
    offset = placed_and_counted(world, 0)
    return [Found("count", audits.counted(world, "a"), offset, "replica-7", "had not been counted")]


def event_counted_twice(world: audits.World) -> list[Found]:
    offset = placed_and_counted(world, 2)
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
    return [Found("hole", f"entry:{offset}", offset, blame="removed, bypassing")]


def tail_removed(world: audits.World) -> list[Found]:
    world.recorder.stop()
    head = world.head
    world.client.xdel(world.keys.log, f"{head}-0", f"{head - 1}-0")
    return [Found("lost", f"entry:{head - 1}", head - 1, blame=f"{head - 1} to {head} were there")]


def start_removed(world: audits.World) -> list[Found]:
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
    return [Found("foreign", f"entry:{offset}", offset, "without an epoch", "bypassed the append function")]


REPAIR_TAIL = "topolog doctor store --repair-tail"


def _garbage(world: audits.World) -> int:
    """Add an entry by hand; its offset."""
    world.recorder.stop()
    identity = world.client.xadd(world.keys.log, {"note": "by hand"})
    assert isinstance(identity, bytes)
    return int(identity.partition(b"-")[0])


def garbage_added(world: audits.World) -> list[Found]:
    offset = _garbage(world)
    found = "without an epoch", "bypassed the append function"
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
    return [Found("version", f"pod:{uid}", offset, "mallory", "bypassed the append function")]


def head_raised(world: audits.World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head + 5)
    return [Found("head", f"meta:{keys.HEAD}", blame="nothing was ever appended there")]


def head_lowered(world: audits.World) -> list[Found]:
    world.recorder.stop()
    world.client.hset(world.keys.meta, keys.HEAD, world.head - 2)
    return [Found("head", f"meta:{keys.HEAD}", blame="the log continues beyond it")]


# -- checkpoints ---------------------------------------------------------------------------


def checkpoint_written(world: audits.World) -> snapshot_format.Header:
    """Write a checkpoint of the present state, and let the auditor read it."""
    snapshot, at_ms = world.store.follower.dated()
    assert at_ms is not None
    header = world.store.checkpoints.write(snapshot, at_ms)
    assert world.audited().differences == ()
    return header


def _changed(header: snapshot_format.Header) -> Found:
    key = f"checkpoint:{header.offset}"
    return Found("checkpoint", key, header.offset, "compactor", "changed after the compactor")


def checkpoint_edited(world: audits.World) -> list[Found]:
    header = checkpoint_written(world)
    key = world.keys.checkpoint(header.offset, header.parts, 1)
    part = world.client.get(key)
    assert isinstance(part, bytes)
    line = snapshot_format.decompressed(part, "it")
    world.client.set(key, snapshot_format.compressed(line.replace(b'"n1"', b'"n9"')))
    return [_changed(header)]


def checkpoint_cut(world: audits.World) -> list[Found]:
    header = checkpoint_written(world)
    world.client.delete(world.keys.checkpoint(header.offset, header.parts, 0))
    return [_changed(header)]


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
    start_removed,
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
