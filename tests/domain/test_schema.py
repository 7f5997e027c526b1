"""Declared kinds and counters: what the fold keeps of objects, and counts of any amount.

The kind and its counters are those of tests.support.gadgets; the oracle counts everything from scratch.
"""

import dataclasses
from collections.abc import Iterable
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import (
    declared_objects,
    event_subjects,
    events,
    model,
    observations,
    projections,
    schema,
    snapshots,
)
from app.store import snapshot_format
from tests.support import declared, gadgets
from tests.support.campaigns import sizes
from tests.support.decisions import small_quotas

NAMES = st.sampled_from(("a", "b", "c"))
SPACES = st.sampled_from(("blue", "green"))
NODES = st.builds(
    lambda name, zone: model.Node(name=f"n-{name}", uid=name, labels={"zone": zone} if zone else {}),
    NAMES,
    st.sampled_from(("east", "west", "")),
)
PODS = st.builds(
    lambda name, space, node, kib, phase: model.Pod(
        uid=f"{space}-{name}",
        namespace=space,
        name=name,
        node=f"n-{node}" if node else "",
        requests={"memory": kib * 1024 - 7} if kib else {},
        phase=phase,
    ),
    NAMES,
    SPACES,
    st.sampled_from(("a", "b", "")),
    st.sampled_from((0, 1, 2**31, 2**42)),
    st.sampled_from(("Running", "Succeeded")),
)
GADGETS = st.builds(
    lambda name, space, size, uid: gadgets.Gadget(uid=uid, namespace=space, name=name, size=size),
    NAMES,
    SPACES,
    st.integers(0, 3),
    st.sampled_from(("1", "2")),
)
HAPPENED: st.SearchStrategy[list[events.AnyEvent]] = st.lists(
    st.one_of(
        st.builds(events.NodeSeen, node=NODES),
        st.builds(lambda node: events.NodeGone(name=node.name, uid=node.uid), NODES),
        st.builds(events.PodSeen, pod=PODS),
        st.builds(lambda pod: events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name), PODS),
        st.builds(events.placed, PODS, st.sampled_from(("n-a", "n-b"))),
        st.builds(gadgets.GADGETS.observed, GADGETS),
        st.builds(lambda one: gadgets.GADGETS.gone(one.namespace, one.name, one.uid), GADGETS),
    ),
    max_size=25,
)
START = snapshots.empty(schema=gadgets.SCHEMA)
SIZES_ALONE = schema.Schema(gadgets.SCHEMA.kinds, (*declared.SCHEMA.counters, gadgets.SIZES))
"""Under which a pod contributes nothing in a namespace without objects."""


def counted(snapshot: snapshots.Snapshot) -> dict[str, int]:
    """All counts of gadgets, from the facts alone."""
    held = snapshot.objects.named("gadgets")
    found: dict[str, int] = {}
    for uid in {*snapshot.pods, *snapshot.placements}:
        pod = snapshot.pods.get(uid)
        name = pod.node if pod is not None else ""
        if not name and uid in snapshot.placements:
            name = snapshot.placements[uid].node
            pod = pod or snapshot.placements[uid].pod
        node = snapshot.nodes.get(name)
        if pod is None or node is None or pod.phase == "Succeeded":
            continue
        kib = (pod.requests.get("memory", 0) + 1023) // 1024
        zone = f"shares|{node.labels.get('zone', '')}"
        found[zone] = found.get(zone, 0) + kib * len(held) + 1
        for key, gadget in held.items():
            if isinstance(gadget, gadgets.Gadget) and gadget.namespace == pod.namespace:
                size = f"sizes|{key}|{node.name}"
                found[size] = found.get(size, 0) + gadget.size * kib
    families = {counter.family for counter in snapshot.schema.counters}
    return {key: count for key, count in found.items() if count and key.partition("|")[0] in families}


@pytest.mark.parametrize("known", [gadgets.SCHEMA, SIZES_ALONE], ids=["all", "sizes"])
@given(happened=HAPPENED)
@settings(max_examples=sizes.examples(80), deadline=None)
def test_counts_of_any_amount_are_those_of_the_facts(
    known: schema.Schema, happened: list[events.AnyEvent]
) -> None:
    snapshot = start = snapshots.empty(schema=known)
    for event in happened:
        projection = projections.Projection(snapshot)
        projection.apply(event)
        before, snapshot = snapshot, projection.finish()
        assert dict(snapshot.counts) == counted(snapshot)
        changed = {key: by for key, by in projection.increments.items() if by}
        keys = {*before.counts, *snapshot.counts}
        assert changed == {
            key: by for key in keys if (by := snapshot.counts.get(key, 0) - before.counts.get(key, 0))
        }
    assert dict(projections.project_all(start, happened).counts) == counted(snapshot)


@given(HAPPENED, PODS, st.sampled_from(("n-a", "n-b")), GADGETS)
@settings(max_examples=sizes.examples(80), deadline=None)
def test_what_alters_the_counts_of_a_pod_moves_its_footprint(
    happened: list[events.AnyEvent], pod: model.Pod, node: str, gadget: gadgets.Gadget
) -> None:
    before = projections.project_all(START, happened)
    event = gadgets.GADGETS.observed(gadget)
    after = projections.project(before, event)
    if before.contributions(pod, node) != after.contributions(pod, node):
        assert {*event_subjects.touched(event)} & {*gadgets.SCHEMA.footprint(pod, node)}
        assert gadgets.SCHEMA.selects(pod, after.objects) or gadgets.SCHEMA.selects(pod, before.objects)


@given(HAPPENED, GADGETS)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_observing_inverts_projecting(happened: list[events.AnyEvent], gadget: gadgets.Gadget) -> None:
    before = projections.project_all(START, happened)
    known = before.get(gadgets.GADGETS, gadget.key)
    batch = observations.declared(gadgets.GADGETS, known, gadget)
    after = projections.project_all(before, batch)
    assert dict(after.all(gadgets.GADGETS)) == {**before.all(gadgets.GADGETS), gadget.key: gadget}
    assert after.within(gadgets.GADGETS, gadget.namespace)[gadget.key] == gadget
    assert len(batch) == (0 if known == gadget else 1 if known is None or known.uid == gadget.uid else 2)


@given(HAPPENED)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_version_without_a_kind_keeps_objects_and_versions(
    happened: list[events.AnyEvent],
) -> None:
    newer = projections.project_all(START, happened)
    older = projections.project_all(snapshots.empty(schema=declared.SCHEMA), happened)
    assert dict(older.versions) == dict(newer.versions)
    assert dict(older.counts) == {}
    held = older.objects.named("gadgets")
    assert {*held} == {*newer.objects.named("gadgets")}
    # What the older one wrote into a checkpoint, the newer one reads as if it had folded the log.
    image = snapshot_format.serialize(older, cluster="c", at_ms=1)
    read = snapshot_format.deserialize(
        image.header, image.members, schema=gadgets.SCHEMA, incarnation=newer.position.incarnation
    )
    assert dict(read.all(gadgets.GADGETS)) == dict(newer.all(gadgets.GADGETS))
    assert dict(read.counts) == dict(newer.counts)
    assert snapshot_format.digest(read) == snapshot_format.digest(newer)
    assert snapshot_format.same(image.header, newer, lambda: read)


@given(st.lists(GADGETS, min_size=1, unique_by=lambda one: one.key), st.data())
def test_objects_without_one_are_those_that_are_built_without_it(
    found: list[gadgets.Gadget], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(found))
    other = {"others": found}
    less = declared_objects.objects({"gadgets": found} | other).without("gadgets", gone)
    built = declared_objects.objects({"gadgets": [one for one in found if one is not gone]} | other)
    assert (less.kinds, less.namespaces) == (built.kinds, built.namespaces)


def test_schemas_are_equal_if_they_consist_of_the_same_declarations() -> None:
    kinds, counters = gadgets.SCHEMA.kinds, gadgets.SCHEMA.counters
    same = schema.Schema(kinds, counters)
    assert same == gadgets.SCHEMA
    assert hash(same) == hash(gadgets.SCHEMA)
    assert len({same, gadgets.SCHEMA}) == 1
    for other in (schema.Schema(kinds, ()), schema.Schema(kinds, counters[1:]), declared.SCHEMA, "a schema"):
        assert same != other


def test_an_object_is_kept_with_the_fields_of_its_type_only() -> None:
    seen = events.ObjectObserved(
        kind="gadgets",
        identity="blue/a",
        uid="1",
        data=msgspec.Raw(b'{"uid":"1","namespace":"blue","name":"a","size":2,"later":[1]}'),
    )
    snapshot = projections.project(START, seen)
    assert snapshot.get(gadgets.GADGETS, "blue/a") == gadgets.Gadget("1", "blue", "a", size=2)
    assert snapshot.get(gadgets.GADGETS, "blue/b") is None
    assert snapshot.version("gadgets:blue/a") == 1


def test_data_that_the_kind_cannot_read_is_an_error_that_names_it() -> None:
    seen = events.ObjectObserved("gadgets", "blue/a", "1", msgspec.Raw(b'{"uid":"1"}'))
    with pytest.raises(schema.UnreadableObject, match="gadgets object cannot be read"):
        projections.project(START, seen)


def test_a_kind_without_subjects_of_its_own_has_no_field_for_them() -> None:
    plain = dataclasses.replace(gadgets.GADGETS, name="things", moves=lambda _: ())
    event = plain.observed(gadgets.Gadget("1", "", "a"))
    assert event.subjects == ()
    assert event_subjects.touched(event) == ("things:a",)
    assert plain.gone("", "a", "1").subject == "things:a"


def test_every_kind_must_be_listed() -> None:
    assert START.unlisted == declared.SCHEMA.names | {"gadgets"}
    listed: list[events.AnyEvent] = [
        events.Relisted(kind, since="", until="1", reason="first list") for kind in sorted(START.unlisted)
    ]
    whole = projections.project_all(START, listed)
    assert not whole.unlisted
    assert projections.project(whole, events.StoreRestarted("x", "1", "2")).unlisted == START.unlisted


def test_the_form_of_the_counts_names_every_family() -> None:
    assert schema.Schema().forms == ""
    assert declared.SCHEMA.forms == f"{schema.FIRST_FORMS},quota.6,sigsquota.4" == "2,quota.6,sigsquota.4"
    assert gadgets.SCHEMA.forms == "2,quota.6,shares.1,sigsquota.4,sizes.1"
    later = dataclasses.replace(gadgets.SIZES, form=3)
    assert schema.Schema(gadgets.SCHEMA.kinds, (later, gadgets.SHARES)).forms == "shares.1,sizes.3"


STILL = dataclasses.replace(gadgets.GADGETS, moves=lambda _: ())
WIDE = dataclasses.replace(gadgets.GADGETS, namespaced=False)
APART = dataclasses.replace(gadgets.GADGETS, moves=lambda namespace: (f"gadgets-in:{namespace}",))


def test_the_namespace_of_a_count_follows_its_family() -> None:
    made = schema.Schema(
        counters=[schema.Counter(family, 1, lambda *_: (), pod_fields=()) for family in ("", "racks")]
    )
    keys = ("shop/spread|role=host", "racks|shop/limit|n1", "racks|n1", "other|shop/limit")
    assert [made.namespace(key) for key in keys] == ["shop", "shop", "", ""]


def depending(
    kind: declared_objects.Kind[gadgets.Gadget], reach: Literal["namespace", "cluster"]
) -> schema.Counter:
    needed = schema.Dependency(kind, reads=lambda gadget: gadget.size, reach=reach)
    return dataclasses.replace(gadgets.SIZES, depends_on=(needed,))


def test_a_placement_expects_the_subjects_that_every_object_it_counts_moves_on() -> None:
    found = schema.Schema((APART,), (depending(APART, "namespace"),))
    pod = model.Pod(uid="u", namespace="shop", name="a")
    assert found.footprint(pod, "n1") == ("pod:u", "node:n1", "gadgets-in:shop")
    assert APART.observed(gadgets.Gadget(uid="g", namespace="shop", name="big")).subjects == (
        "gadgets:shop/big",
        "gadgets-in:shop",
    )


def reading(pod_fields: tuple[str, ...] = (), node_fields: tuple[str, ...] = ()) -> schema.Counter:
    return schema.Counter("racks", 1, lambda *_: (), pod_fields=pod_fields, node_fields=node_fields)


def test_a_counter_may_read_the_fields_of_a_field() -> None:
    found = schema.Schema(counters=(reading(("constraints.tolerations", "phase"), ("labels",)),))
    pod = model.Pod(uid="u", namespace="shop", name="a")
    assert found.read_of_pod(pod) == (model.STANDARD.tolerations, "Pending")


@pytest.mark.parametrize(
    ("kinds", "counters", "message"),
    [
        ((gadgets.GADGETS, gadgets.GADGETS), (), "the same kind: gadgets"),
        ((dataclasses.replace(gadgets.GADGETS, name="pods"),), (), "a kind cannot be called 'pods'"),
        ((dataclasses.replace(gadgets.GADGETS, name="Gadgets"),), (), "a kind cannot be called 'Gadgets'"),
        ((dataclasses.replace(gadgets.GADGETS, versions=()),), (), "gadgets has no version"),
        ((dataclasses.replace(gadgets.GADGETS, prefix="pod"),), (), "prefix pod have another meaning"),
        (
            (gadgets.GADGETS, dataclasses.replace(gadgets.GADGETS, name="others")),
            (),
            "the same type of objects: Gadget",
        ),
        ((), (gadgets.SIZES,), "depends on gadgets, which no plugin declares"),
        ((STILL,), (depending(STILL, "namespace"),), "moves names no subject for the namespace"),
        ((STILL,), (depending(STILL, "cluster"),), "moves names no subject for the cluster"),
        ((APART,), (depending(APART, "cluster"),), "moves names no subject for the cluster"),
        ((WIDE,), (depending(WIDE, "namespace"),), "of gadgets reach the cluster"),
        ((gadgets.GADGETS,), (gadgets.SIZES, gadgets.SIZES), "the same family of counts: sizes"),
        ((gadgets.GADGETS,), (dataclasses.replace(gadgets.SIZES, family="A|b"),), "lower-case letters"),
        ((gadgets.GADGETS,), (dataclasses.replace(gadgets.SIZES, form=0),), "forms count from 1"),
        ((), (reading(pod_fields=("phase", "label")),), "'label' of a pod, which does not exist"),
        ((), (reading(pod_fields=("labels.app",)),), "'labels.app' of a pod, which does not exist"),
        ((), (reading(node_fields=("zone",)),), "'zone' of a node, which does not exist"),
    ],
)
def test_declarations_that_contradict_each_other_are_refused(
    kinds: tuple[declared_objects.Kind[gadgets.Gadget], ...],
    counters: tuple[schema.Counter, ...],
    message: str,
) -> None:
    with pytest.raises(schema.InvalidSchema, match=message):
        schema.Schema(kinds, counters)


@pytest.mark.parametrize(
    ("dependency", "selected"),
    [
        (schema.Dependency(gadgets.GADGETS, reads=str, additive=True), {"blue"}),
        (schema.Dependency(gadgets.GADGETS, reads=str, required=True), {"blue"}),
        (schema.Dependency(gadgets.GADGETS, reads=str, reach="cluster", required=True), {"blue", "green"}),
        (schema.Dependency(gadgets.GADGETS, reads=str), {"blue", "green"}),
    ],
)
def test_a_counter_selects_the_pods_that_an_object_of_a_needed_kind_reaches(
    dependency: schema.Dependency[gadgets.Gadget], selected: set[str]
) -> None:
    counter = dataclasses.replace(gadgets.SIZES, depends_on=(dependency,))
    found = schema.Schema((gadgets.GADGETS,), (counter,))
    one = gadgets.Gadget(uid="1", namespace="blue", name="a")
    pods = [model.Pod(uid=space, namespace=space, name="p") for space in ("blue", "green")]
    held = declared_objects.objects({"gadgets": [one]})
    assert {pod.namespace for pod in pods if found.selects(pod, held)} == selected
    needed = dependency.additive or dependency.required
    assert any(found.selects(pod, declared_objects.Objects()) for pod in pods) is not needed


def test_an_object_that_reaches_the_cluster_counts_the_pods_of_every_namespace() -> None:
    needed = schema.Dependency(gadgets.GADGETS, reads=str, reach="cluster", required=True)
    known = schema.Schema((gadgets.GADGETS,), (dataclasses.replace(gadgets.SHARES, depends_on=(needed,)),))
    happened: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name="n", uid="n", labels={"zone": "a"})),
        gadgets.GADGETS.observed(gadgets.Gadget(uid="1", namespace="blue", name="a")),
        events.PodSeen(
            pod=model.Pod(uid="p", namespace="green", name="p", node="n", requests={"memory": 1024})
        ),
    ]
    assert dict(projections.project_all(snapshots.empty(schema=known), happened).counts) == {"shares|a": 2}


def test_what_follows_from_the_objects_of_a_kind_is_held_until_one_of_them_changes() -> None:
    gadget, quota = gadgets.Gadget(uid="1", namespace="blue", name="a"), small_quotas.quota("q")
    first = declared_objects.Objects().set("gadgets", gadget)
    computed: list[int] = []

    def total(held: declared_objects.Objects) -> int:
        def compute() -> int:
            computed.append(sum(one.size for one in held.all(gadgets.GADGETS).values()))
            return computed[-1]

        return held.derived(gadgets.GADGETS, "total", compute)

    others = first.set("elasticquotas", quota)
    assert [total(one) for one in (first, others, others.without("elasticquotas", quota))] == [1, 1, 1]
    assert computed == [1]
    larger = others.set("gadgets", msgspec.structs.replace(gadget, size=3))
    assert [total(one) for one in (larger, first, larger.only("gadgets", gadget))] == [3, 1, 1]
    assert computed == [1, 3, 1]
    assert [total(one) for one in (larger.without("gadgets", gadget), larger.only("gadgets", None))] == [0, 0]
    assert total(declared_objects.objects({"gadgets": [gadget, gadget]})) == 1


def test_what_follows_from_objects_is_computed_from_another_state_and_from_what_changed_since() -> None:
    first = declared_objects.Objects().set("gadgets", gadgets.Gadget(uid="1", namespace="blue", name="a"))
    given: list[tuple[int | None, list[str]]] = []

    def total(held: declared_objects.Objects) -> int:
        def compute(former: int | None, changed: Iterable[str]) -> int:
            given.append((former, sorted(changed)))
            return sum(one.size for one in held.all(gadgets.GADGETS).values())

        return held.followed(gadgets.GADGETS, "total", compute)

    second = first.set("gadgets", gadgets.Gadget(uid="2", namespace="blue", name="b", size=5))
    third = second.without("gadgets", gadgets.Gadget(uid="1", namespace="blue", name="a"))
    branch = second.set("gadgets", gadgets.Gadget(uid="3", namespace="red", name="c", size=7))
    states = (first, third, branch, first, branch.only("gadgets", None), declared_objects.Objects())
    assert [total(one) for one in states] == [1, 5, 13, 1, 0, 0]
    assert given == [
        (None, []),
        (1, ["blue/a", "blue/b"]),
        (5, ["blue/a", "red/c"]),
        (None, []),
        (None, []),
    ]
