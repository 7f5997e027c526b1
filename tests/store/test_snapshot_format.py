"""A snapshot as bytes: the same bytes for the same contents, and not one bit unproven."""

import dataclasses
import gzip
import hashlib
import json
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshot_contents, snapshots
from app.plugins.workload_policy import policy_model
from app.store import errors, snapshot_format
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies

T = TypeVar("T")

START = snapshots.empty(schema=declared.SCHEMA, indexed=("app", "job"), incarnation="here")


def image_of(snapshot: snapshots.Snapshot) -> snapshot_format.SerializedSnapshot:
    return snapshot_format.serialize(snapshot, cluster="c", at_ms=7)


def again(image: snapshot_format.SerializedSnapshot, snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    return snapshot_format.deserialize(
        image.header, image.members, schema=declared.SCHEMA, incarnation="here", indexed=snapshot.indexed
    )


@given(strategies.histories, st.integers(0, 40))
@settings(max_examples=sizes.examples(60), deadline=None)
def test_a_snapshot_comes_back_whole_and_goes_on_as_if_never_gone(
    history: list[events.AnyEvent], cut: int
) -> None:
    before = projections.project_all(START, history[:cut])
    image = image_of(before)
    back = again(image, before)
    for field in dataclasses.fields(snapshots.Snapshot):
        if field.name != "topology" and field.compare:
            assert getattr(back, field.name) == getattr(before, field.name), field.name
    assert recomputation.kept(back) == recomputation.kept(before)
    after = projections.project_all(back, history[cut:])
    straight = projections.project_all(START, history)
    assert recomputation.kept(after) == recomputation.kept(straight)
    assert snapshot_format.digest(after) == snapshot_format.digest(straight)


def test_a_snapshot_that_was_written_without_an_index_has_it_when_it_is_read() -> None:
    key, own = "example.com/job", model.annotation("example.com/job")
    pod = model.Pod(uid="u", namespace="ns", name="p", labels={key: "label"}, annotations={key: "annotation"})
    written = projections.project(START, events.PodSeen(pod=pod))
    back = again(image_of(written), dataclasses.replace(written, indexed=frozenset((key, own, model.GROUP))))
    assert set(back.labelled) == {("ns", key, "label"), ("ns", own, "annotation")}


def shuffled(items: Sequence[T], shuffler: random.Random) -> list[T]:
    return shuffler.sample(list(items), len(items))


@given(strategies.histories, st.randoms(use_true_random=False))
@settings(max_examples=sizes.examples(50), deadline=None)
def test_the_digest_does_not_depend_on_the_way(
    history: list[events.AnyEvent], shuffler: random.Random
) -> None:
    snapshot = projections.project_all(START, history)
    held = snapshot_contents.extract(snapshot)
    mixed = snapshot_contents.Contents(
        nodes=shuffled(held.nodes, shuffler),
        pods=shuffled(held.pods, shuffler),
        objects={kind: shuffled(found, shuffler) for kind, found in held.objects.items()},
        placements=shuffled(held.placements, shuffler),
        flags=shuffled(held.flags, shuffler),
        configurations=held.configurations,
        shadows=shuffled(held.shadows, shuffler),
        listed=dict(shuffled(list(held.listed.items()), shuffler)),
        unlisted=shuffled(held.unlisted, shuffler),
        versions=dict(shuffled(list(held.versions.items()), shuffler)),
        counts=dict(shuffled(list(snapshot.counts.items()), shuffler)),
        displaced=shuffled(held.displaced, shuffler),
    )
    other = snapshot_contents.build(
        mixed, model.Position("elsewhere", snapshot.offset), schema=declared.SCHEMA
    )
    assert snapshot_format.digest(other) == snapshot_format.digest(snapshot)


@given(strategies.histories, strategies.any_event)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_another_state_has_another_digest(history: list[events.AnyEvent], event: events.AnyEvent) -> None:
    snapshot = projections.project_all(START, history)
    after = projections.project(snapshot, event)
    assert snapshot_format.digest(after) != snapshot_format.digest(snapshot)


def world(pods: int = 0) -> snapshots.Snapshot:
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name="n", uid="n", labels={"zone": "a", "app": "x"})),
        declared.observed(policy_model.WorkloadPolicy(uid="p", namespace="s", name="p", topology_key="zone")),
        *(
            events.PodSeen(pod=model.Pod(uid=f"u{i}", namespace="s", name=f"p{i}", node="n"))
            for i in range(pods)
        ),
    ]
    return projections.project_all(START, seen)


def test_a_large_one_is_cut_into_small_pieces() -> None:
    snapshot = world(pods=snapshot_format.ITEMS * 2 + 1)
    image = image_of(snapshot)
    assert image.header.lines == len(image.members) >= 8
    assert max(map(len, image.members)) < 512 * 1024
    assert image.header.items == snapshot_format.ITEMS * 2 + 3
    assert snapshot_format.digest(again(image, snapshot)) == image.header.digest


def test_standard_tools_can_read_and_prove_it() -> None:
    image = image_of(world(pods=3))
    text = gzip.decompress(b"".join(image.members))
    assert hashlib.sha256(text).hexdigest() == image.header.digest
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["offset"] == image.header.offset
    assert [pod["uid"] for line in lines for pod in line.get("pods", ())] == ["u0", "u1", "u2"]


def test_every_flipped_byte_is_found() -> None:
    image = image_of(world(pods=2))
    for at, member in enumerate(image.members):
        for place in range(len(member)):
            broken = bytearray(member)
            broken[place] ^= 0x10
            members = [*image.members[:at], bytes(broken), *image.members[at + 1 :]]
            if gzip_reads_the_same(bytes(broken), member):
                continue  # the gzip header has bytes that mean nothing
            with pytest.raises(errors.Damaged):
                snapshot_format.deserialize(image.header, members, schema=declared.SCHEMA, incarnation="here")
            with pytest.raises(errors.Damaged):
                snapshot_format.prove(image.header, members)


def gzip_reads_the_same(broken: bytes, member: bytes) -> bool:
    try:
        return snapshot_format.decompressed(broken, "it") == snapshot_format.decompressed(member, "it")
    except errors.Damaged:
        return False


def of_form(header: snapshot_format.Header, version: int) -> snapshot_format.Header:
    current = b'"version":%d' % snapshot_format.VERSION
    encoded = snapshot_format.encoded(header)
    assert current in encoded
    return snapshot_format.header_of(encoded.replace(current, b'"version":%d' % version))


def test_pods_of_a_form_without_constraints_have_unknown_ones() -> None:
    placed = events.placed(model.Pod(uid="placed", namespace="n", name="placed"), "n1")
    image = image_of(projections.project(world(pods=2), placed))
    old = of_form(image.header, 5)
    found = snapshot_format.deserialize(old, image.members, schema=declared.SCHEMA, incarnation="here")
    assert {pod.constraints for pod in found.pods.values()} == {None}
    assert found.placements["placed"].pod.constraints is None
    found = snapshot_format.deserialize(
        image.header, image.members, schema=declared.SCHEMA, incarnation="here"
    )
    assert [pod.constraints for pod in found.pods.values()] == [model.STANDARD] * 2


def test_a_missing_piece_and_a_newer_form_are_refused() -> None:
    image = image_of(world(pods=2))
    with pytest.raises(errors.Damaged, match="digest"):
        snapshot_format.deserialize(
            image.header, image.members[:-1], schema=declared.SCHEMA, incarnation="here"
        )
    newer = of_form(image.header, snapshot_format.VERSION + 1)
    with pytest.raises(errors.Damaged, match=f"reads up to {snapshot_format.VERSION}"):
        snapshot_format.deserialize(newer, image.members, schema=declared.SCHEMA, incarnation="here")
    for raw in (b"{}", b'{"incarnation":"\xff"}', b"no JSON"):
        with pytest.raises(errors.Damaged):
            snapshot_format.header_of(raw)


def test_what_a_snapshot_holds_is_either_kept_or_derived() -> None:
    """A new field needs a decision here: is it stored or rebuilt?"""
    derived = {
        *("schema", "position", "indexed", "topology", "names", "residents", "labelled"),
        *("waiting", "nominated", "namespaces", "derivations", "recounted"),
    }
    kept = {field.name for field in dataclasses.fields(snapshot_contents.Contents)} - {"displaced"}
    assert {field.name for field in dataclasses.fields(snapshots.Snapshot)} == kept | derived


def test_nodes_share_equal_label_values() -> None:
    nodes = [model.Node(name=name, uid=name, labels={"zone": "zone-a"}) for name in ("node-1", "node-2")]
    seen = [events.NodeSeen(node=node) for node in nodes]
    snapshot = projections.project_all(START, seen)
    one, other = again(image_of(snapshot), snapshot).nodes.values()
    assert one.labels["zone"] is other.labels["zone"]
