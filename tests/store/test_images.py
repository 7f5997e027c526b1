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

from app.domain import events, model, projecting, restoring, snapshots
from app.store import errors, images
from tests.domain import generating, recomputing

T = TypeVar("T")

START = snapshots.empty(indexed=("app", "job"), incarnation="here")


def image_of(snapshot: snapshots.Snapshot) -> images.Image:
    return images.freeze(snapshot, cluster="c", at_ms=7)


def again(image: images.Image, snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    return images.thaw(image.header, image.members, incarnation="here", indexed=snapshot.indexed)


@given(generating.histories, st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_a_snapshot_comes_back_whole_and_goes_on_as_if_never_gone(
    history: list[events.AnyEvent], cut: int
) -> None:
    before = projecting.project_all(START, history[:cut])
    image = image_of(before)
    back = again(image, before)
    for field in dataclasses.fields(snapshots.Snapshot):
        if field.name != "topology":
            assert getattr(back, field.name) == getattr(before, field.name), field.name
    assert recomputing.kept(back) == recomputing.kept(before)
    after = projecting.project_all(back, history[cut:])
    straight = projecting.project_all(START, history)
    assert recomputing.kept(after) == recomputing.kept(straight)
    assert images.digest(after) == images.digest(straight)


def shuffled(items: Sequence[T], shuffler: random.Random) -> list[T]:
    return shuffler.sample(list(items), len(items))


@given(generating.histories, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_digest_does_not_depend_on_the_way(
    history: list[events.AnyEvent], shuffler: random.Random
) -> None:
    snapshot = projecting.project_all(START, history)
    held = restoring.taken_apart(snapshot)
    mixed = restoring.Contents(
        nodes=shuffled(held.nodes, shuffler),
        pods=shuffled(held.pods, shuffler),
        policies=shuffled(held.policies, shuffler),
        placements=shuffled(held.placements, shuffler),
        flags=shuffled(held.flags, shuffler),
        listed=dict(shuffled(list(held.listed.items()), shuffler)),
        unlisted=shuffled(held.unlisted, shuffler),
        versions=dict(shuffled(list(held.versions.items()), shuffler)),
        counts=dict(shuffled(list(held.counts.items()), shuffler)),
        displaced=shuffled(held.displaced, shuffler),
    )
    other = restoring.put_together(mixed, model.Position("elsewhere", snapshot.offset))
    assert images.digest(other) == images.digest(snapshot)


@given(generating.histories, generating.any_event)
@settings(max_examples=50, deadline=None)
def test_another_state_has_another_digest(history: list[events.AnyEvent], event: events.AnyEvent) -> None:
    snapshot = projecting.project_all(START, history)
    after = projecting.project(snapshot, event)
    assert images.digest(after) != images.digest(snapshot)


def world(pods: int = 0) -> snapshots.Snapshot:
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name="n", uid="n", labels={"zone": "a", "app": "x"})),
        events.PolicySeen(policy=model.WorkloadPolicy(uid="p", namespace="s", name="p", topology_key="zone")),
        *(
            events.PodSeen(pod=model.Pod(uid=f"u{i}", namespace="s", name=f"p{i}", node="n"))
            for i in range(pods)
        ),
    ]
    return projecting.project_all(START, seen)


def test_a_large_one_is_cut_into_small_pieces() -> None:
    snapshot = world(pods=images.ITEMS * 2 + 1)
    image = image_of(snapshot)
    assert image.header.lines == len(image.members) >= 8
    assert max(map(len, image.members)) < 512 * 1024
    assert image.header.items == images.ITEMS * 2 + 3
    assert images.digest(again(image, snapshot)) == image.header.digest


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
            if gzip_says_the_same(bytes(broken), member):
                continue  # the gzip header has bytes that mean nothing
            with pytest.raises(errors.Damaged):
                images.thaw(image.header, members, incarnation="here")
            with pytest.raises(errors.Damaged):
                images.prove(image.header, members)


def gzip_says_the_same(broken: bytes, member: bytes) -> bool:
    try:
        return images.decompressed(broken, "it") == images.decompressed(member, "it")
    except errors.Damaged:
        return False


def test_a_missing_piece_and_a_newer_form_are_refused() -> None:
    image = image_of(world(pods=2))
    with pytest.raises(errors.Damaged, match="digest"):
        images.thaw(image.header, image.members[:-1], incarnation="here")
    newer = images.header_of(images.encoded(image.header).replace(b'"version":2', b'"version":3'))
    with pytest.raises(errors.Damaged, match="reads up to 2"):
        images.thaw(newer, image.members, incarnation="here")
    with pytest.raises(errors.Damaged):
        images.header_of(b"{}")


def test_what_a_snapshot_holds_is_either_kept_or_derived() -> None:
    """A new field must be thought of here: is it kept, or put together anew?"""
    derived = {
        *("position", "indexed", "topology", "names", "residents", "labelled"),
        *("waiting", "nominated", "namespaces", "policies_in"),
    }
    kept = {field.name for field in dataclasses.fields(restoring.Contents)} - {"displaced"}
    assert {field.name for field in dataclasses.fields(snapshots.Snapshot)} == kept | derived
