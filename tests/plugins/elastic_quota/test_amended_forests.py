"""Trees and runtimes that follow changes of amounts equal those that are built from the objects alone."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import declared_objects, events, model, projections, snapshots
from app.plugins.elastic_quota import admission, kinds, quota_model
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import forests, membership, runtimes, usage, weighted_shares
from app.verbs.explain import explanations
from tests.support import declared
from tests.support.decisions import scheduling_driver, small_quotas

NAMES = (*"abcdef", quota_model.DEFAULT, quota_model.ROOT)
KEYS = ("old/", "new/")
"""Two objects may have one name."""
rules = st.builds(runtimes.RuntimeRules, scale=st.booleans(), guarantee=st.booleans())
cores = st.integers(0, 12)
amounts = st.fixed_dictionaries({}, optional={"cpu": cores, "memory": cores.map(lambda one: one << 20)})
EVERY_AMOUNT = {"min": amounts, "max": amounts, "weight": amounts, "total": amounts}


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Any quota: valid, below what is invalid, in either of two trees, with a name that another has."""
    name, namespace = draw(st.sampled_from(NAMES)), draw(st.sampled_from([key[:-1] for key in KEYS]))
    drawn = draw(st.fixed_dictionaries(EVERY_AMOUNT))
    made = Quota(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        created={"old": "2026-01-01T00:00:00Z", "new": "2026-01-02T00:00:00Z"}[namespace],
        parent=draw(st.sampled_from(["", "", "a", "b", "none"])),
        is_parent=draw(st.sampled_from([True, True, True, False])),
        tree=draw(st.sampled_from(["", "", "t"])),
        is_root=draw(st.booleans()),
        ignores_default_tree=draw(st.booleans()),
        lends=draw(st.booleans()),
        namespaces=draw(st.sampled_from([(), ("apps",)])),
        errors=draw(st.sampled_from([(), (), (), ("spec.min is odd",)])),
    )
    return msgspec.structs.replace(made, **drawn)


def edited(held: Quota) -> st.SearchStrategy[Quota]:
    """The quota with other amounts; now and then its max names other resources."""
    same = st.fixed_dictionaries({name: cores.map(lambda one: one << 20) for name in held.max})
    other = {**EVERY_AMOUNT, "max": st.one_of(same, same, amounts)}
    return st.fixed_dictionaries({}, optional=other).map(lambda new: msgspec.structs.replace(held, **new))


def asks(name: str, cpu: int, node: str) -> events.AnyEvent:
    return events.PodSeen(pod=small_quotas.pod(f"{name}-{cpu}", cpu, name, node=node, memory=1))


def described(forest: forests.Forest) -> Iterator[object]:
    """Everything of a forest, and of its trees."""
    yield from (forest.quotas, forest.unused, forest.errors, forest.chains, forest.by_namespace)
    yield from (forest.claimed, forest.warnings, forest.outside())
    yield {name: forest.children(name) for name in ("", *NAMES)}
    for tree in forest.trees.values():
        yield from (tree.name, tree.quotas, tree.names, tree.index, tree.parents, tree.children, tree.top)
        yield from (tree.resources, tree.columns, tree.root, tree.total)


def divided(found: usage.TreeUsage) -> dict[str, object]:
    """All that is derived from the amounts of a tree."""
    tree = found.tree
    shown = {name: found.runtimes.runtime(name) for name in tree.names}
    lines = {
        resource: (
            line.total,
            line.requests,
            line.limited,
            line.guaranteed,
            [line.division(at) for at in range(len(tree.quotas))],
        )
        for resource, line in found.runtimes.lines.items()
    }
    return {"total": found.total, "runtimes": shown, "lines": lines, "names": tree.names}


@given(st.data(), st.lists(quotas(), min_size=1, max_size=9), rules)
def test_a_forest_after_any_history_equals_one_of_its_objects(
    data: st.DataObject, first: list[Quota], sharing: runtimes.RuntimeRules
) -> None:
    nodes: list[events.AnyEvent] = [
        events.NodeSeen(node=small_quotas.node(name, 30, 20)) for name in ("n1", "n2")
    ]
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA), [*map(kinds.QUOTAS.observed, first), *nodes]
    )
    for _ in range(data.draw(st.integers(1, 8), label="steps")):
        held = sorted(world.all(kinds.QUOTAS).values(), key=lambda one: one.key)
        happened: list[events.AnyEvent] = []
        for kind in data.draw(st.lists(st.sampled_from("aaaapqg"), min_size=1, max_size=3), label="changes"):
            if kind == "a" and held:
                of = data.draw(st.sampled_from(held))
                happened.append(kinds.QUOTAS.observed(data.draw(edited(of))))
            elif kind == "q":
                happened.append(kinds.QUOTAS.observed(data.draw(quotas())))
            elif kind == "g" and held:
                gone = data.draw(st.sampled_from(held))
                happened.append(kinds.QUOTAS.gone(gone.namespace, gone.name, gone.uid))
            else:
                name, node = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from(["n1", ""]))
                happened.append(asks(name, data.draw(st.integers(1, 9)), node))
        later = projections.project_all(world, happened)
        if data.draw(st.booleans(), label="asked for"):
            found = usage.forest(later)
            assert [*described(found)] == [*described(forests.grown(later.all(kinds.QUOTAS).values()))]
            again = scheduling_driver.recounted(later)
            for name in found.trees:
                expected = divided(usage.of_tree(again, name, sharing))
                assert divided(usage.of_tree(later, name, sharing)) == expected
        if data.draw(st.integers(0, 3), label="a hypothetical state"):
            world = later


_GROWN = forests.grown


def test_a_tree_is_built_again_only_if_more_than_amounts_changed() -> None:
    below = small_quotas.quota("q", 1, 8, parent="team")
    held = (small_quotas.quota("team", 1, 8, is_parent=True), below)
    world = projections.project_all(snapshots.empty(schema=declared.SCHEMA), map(kinds.QUOTAS.observed, held))
    before = usage.forest(world)

    def after(**changed: object) -> forests.Forest:
        quota = msgspec.structs.replace(below, **changed)
        return usage.forest(projections.project(world, kinds.QUOTAS.observed(quota)))

    with mock.patch.object(forests, "grown", side_effect=forests.grown) as grown:
        # Two of each field in a row: the second state differs from the first in it alone.
        for field, amounts in itertools.product(("min", "max", "weight"), ({"cpu": 2}, {"cpu": 3})):
            found = after(**{field: amounts})
            assert found.shared is before.shared
            assert [*described(found)] == [*described(_GROWN(found.quotas.values()))]
        assert grown.call_count == 0
        for field, other in {"max": {"gpu": 3}, "parent": "", "errors": ("odd",), "uid": "x"}.items():
            assert after(**{field: other}).shared is not before.shared
        assert grown.call_count == 4


def test_a_total_that_changed_leaves_as_much_less_to_the_default_tree() -> None:
    carried = {"cpu": 10 * small_quotas.CORE}
    root = small_quotas.quota("root", tree="t", is_root=True, total=carried)
    small = small_quotas.cluster(small_quotas.node("n1", 30), root, small_quotas.quota("team"))

    def left() -> float:
        return usage.of_tree(small.snapshot, "", runtimes.DEFAULTS).total["cpu"] / small_quotas.CORE

    assert left() == 20
    before = usage.forest(small.snapshot)
    for field, amounts, expected in (("total", {"cpu": 25_000}, 5), ("total", {}, 30), ("min", carried, 20)):
        root = msgspec.structs.replace(root, **{field: amounts})
        small.see(root)
        assert left() == expected
        assert usage.forest(small.snapshot).shared is before.shared


@given(st.data())
def test_the_quotas_of_namespaces_after_any_history_equal_those_of_its_objects(data: st.DataObject) -> None:
    held = declared_objects.Objects()
    for _ in range(data.draw(st.integers(1, 12), label="steps")):
        namespace = data.draw(st.sampled_from(["a", "b"]), label="namespace")
        name = data.draw(st.sampled_from(["own", "own", "other"]), label="name")
        known = held.get(namespace_quota.KIND, f"{namespace}/{name}")
        if known is not None and data.draw(st.integers(0, 5), label="kind of change") == 0:
            held = held.without(namespace_quota.KIND.name, known)
        else:
            uid = data.draw(st.sampled_from(["1", "1", "1", "2"]), label="uid")
            quota = namespace_quota.NamespaceQuota(
                uid=uid, namespace=namespace, name=name, min=data.draw(amounts), max=data.draw(amounts)
            )
            held = held.set(namespace_quota.KIND.name, quota)
        if data.draw(st.booleans(), label="asked for"):
            again = declared_objects.objects(
                {namespace_quota.KIND.name: held.all(namespace_quota.KIND).values()}
            )
            assert namespace_quota.namespaces(held) == namespace_quota.namespaces(again)


def diagnosed(small: scheduling_driver.Cluster) -> list[explanations.Waiting]:
    """Why each pod waits that is on no node, and what would let it fit, one after another."""
    waits = explanations.Waits(small.snapshot, small.plugins)
    pods = sorted(small.snapshot.pods.values(), key=lambda pod: (len(pod.name), pod.name))
    return [waits.of(pod) for pod in pods if not pod.node]


def admitted_plainly(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    asked: admission.QuotaRules,
    supposed: usage.Supposed | None = None,
) -> admission.Admission | None:
    """As admission.admission, in a state with the supposed quotas that is folded from its objects."""
    if supposed is not None:
        snapshot = projections.project_all(
            snapshot, map(kinds.QUOTAS.observed, supposed.forest.quotas.values())
        )
    return _ADMISSION(scheduling_driver.recounted(snapshot), pod, asked)


_ADMISSION = admission.admission


def replaced_plainly(
    grown: forests.Forest, _: usage.TreeUsage | None, quotas: Mapping[str, Quota]
) -> usage.Supposed:
    """The quotas alone."""
    return usage.Supposed(dataclasses.replace(grown, quotas={**grown.quotas, **quotas}), None)


def shared_by_none(
    _: declared_objects.Kept, _key: Hashable, compute: Callable[[None, Iterable[str]], object]
) -> object:
    return compute(None, ())


@pytest.mark.parametrize("seed", range(80))
def test_advice_equals_that_of_a_plain_recomputation(seed: int) -> None:
    """Trees of up to three levels, two of them; pods that wait, some of them below one another's quotas."""
    dice = random.Random(seed)
    arguments = ("runtime", "scale_min", "guarantee_usage", "check_parents", "strict_resources")
    chosen = {name: dice.random() < 0.5 for name in arguments}
    made: list[Quota] = []
    for tree in ("", "t") if dice.random() < 0.5 else ("",):
        names = [f"{tree}{letter}" for letter in "abcdefg"]
        for at, name in enumerate(names):
            least = dice.randint(0, 4)
            made.append(
                small_quotas.quota(
                    name,
                    least,
                    least + dice.randint(0, 8),
                    parent=dice.choice(["", *names[:at]][:3]),
                    is_parent=at < 2,
                    lends=dice.random() < 0.6,
                    tree=tree,
                    is_root=bool(tree) and at == 0,
                    weight=dice.choice([None, 1, 5]),
                )
            )
    pods = [
        small_quotas.pod(
            f"p{number}",
            dice.randint(1, 6),
            dice.choice(made).name,
            node=dice.choice(["n1", "", ""]),
            firm=dice.random() < 0.3,
        )
        for number in range(9)
    ]
    small = small_quotas.cluster(small_quotas.node("n1", dice.randint(6, 20)), *made, *pods, **chosen)
    found = diagnosed(small)
    with (
        mock.patch.object(usage, "supposed", replaced_plainly),
        mock.patch.object(admission, "admission", admitted_plainly),
        mock.patch.object(declared_objects.Kept, "followed", shared_by_none),
    ):
        assert found == diagnosed(small)


@pytest.mark.parametrize("beside", [0, 300])
def test_the_advice_of_a_hundred_pods_computes_no_whole_tree_again(beside: int) -> None:
    """Neither a tree nor all of its runtimes, and no level that its pods do not depend on."""
    parents = [small_quotas.quota(f"above-{at}", 50, 200, is_parent=True) for at in range(10)]
    below = [small_quotas.quota(f"q{at}", 1, 4, parent=f"above-{at % 10}") for at in range(100)]
    others = [small_quotas.quota("beside", 1, 9, is_parent=True)]
    others += [small_quotas.quota(f"other-{at}", 1, 4, parent="beside") for at in range(beside)]
    asks = [small_quotas.pod(f"asks-{at}", 7, f"q{at}") for at in range(100)]
    small = small_quotas.cluster(
        small_quotas.node("n1", 900), *parents, *below, *others, *asks, check_parents=True
    )
    with (
        mock.patch.object(forests, "grown", side_effect=forests.grown) as grown,
        mock.patch.object(runtimes, "derive", side_effect=runtimes.derive) as derived,
        mock.patch.object(usage, "_read", side_effect=usage._read) as read,
        mock.patch.object(usage, "_sum", side_effect=usage._sum) as summed,
        mock.patch.object(weighted_shares, "divide", side_effect=weighted_shares.divide) as divided_levels,
    ):
        found = diagnosed(small)
    assert [one.changes for one in found] == [
        (f"elastic quota {pod.labels[membership.LABEL]} would need max cpu 7 instead of 4",) for pod in asks
    ]
    assert grown.call_count <= 1
    assert derived.call_count == read.call_count == summed.call_count == 1
    # Each raise concerns its own level and that above: once as it is proposed, and once as it is evaluated.
    assert divided_levels.call_count < 5 * len(asks)
