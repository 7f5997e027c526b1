"""Advice for pods that quotas refuse: it fits, and with any amount lowered or left out it does not."""

import random
import re
from collections.abc import Iterator
from typing import Any, Literal
from unittest import mock

import msgspec
import pytest

from app.domain import model, projections
from app.framework import cycles, pipeline
from app.plugins.elastic_quota import admission, kinds, quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.questions import amounts as raised_amounts
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import forests, runtimes, usage
from app.verbs.questions import errors, minimal_changes, question_schema, situations
from tests.support.decisions import scheduling_driver, small_quotas
from tests.support.decisions.small_quotas import CORE, GIB

ARGUMENTS = ("runtime", "scale_min", "guarantee_usage", "check_parents", "strict_resources")
FIELDS: tuple[Literal["min"], Literal["max"]] = ("min", "max")
ASKS = small_quotas.pod("asks", 4, "team")


def of_namespace(namespace: str, least: int, most: int | None = None) -> namespace_quota.NamespaceQuota:
    return namespace_quota.NamespaceQuota(
        uid=f"uid-{namespace}",
        namespace=namespace,
        name="own",
        min={"cpu": least * CORE},
        max={} if most is None else {"cpu": most * CORE},
    )


def situation(
    small: scheduling_driver.Cluster, overrides: list[dict[str, Any]]
) -> tuple[situations.Resolved, frozenset[str]]:
    asked = question_schema.Situation(overrides=overrides)
    supposed = situations.hypothesis(asked, small.plugins, [type(one) for one in small.plugins.plugins])
    return situations.resolve(small.snapshot, supposed), frozenset(small.snapshot.nodes)


def advice(small: scheduling_driver.Cluster, pod: model.Pod = ASKS) -> tuple[minimal_changes.Change, ...]:
    """The changes of quotas that are advised for the pod, which waits."""
    resolved, offered = situation(small, [])
    return minimal_changes.fit(resolved, pod.uid, offered, ("objects",), 5, lambda: True).changes


def fits(small: scheduling_driver.Cluster, overrides: list[dict[str, Any]], pod: model.Pod = ASKS) -> bool:
    """Whether the pod fits; not with a min above max, which is refused."""
    try:
        resolved, offered = situation(small, overrides)
    except errors.Mistake as mistake:
        if "more than spec.max" in str(mistake):
            return False
        raise
    return minimal_changes.fit(resolved, pod.uid, offered, ("objects",), 1, lambda: False).fits


def amounts(overrides: list[dict[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Where the overrides raise an amount."""
    for at, one in enumerate(overrides):
        for field in ("min", "max"):
            for resource in one["patch"].get(field, {}):
                yield at, field, resource


def lowered(
    overrides: list[dict[str, Any]], at: int, field: str, resource: str, by: int
) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(msgspec.json.encode(one)) for one in overrides]
    found[at]["patch"][field][resource] -= by
    return found


def without(overrides: list[dict[str, Any]], at: int, field: str, resource: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(msgspec.json.encode(one)) for one in overrides]
    del found[at]["patch"][field][resource]
    return found


def check(small: scheduling_driver.Cluster, changes: tuple[minimal_changes.Change, ...]) -> None:
    """Assert the laws of advice."""
    for change in changes:
        overrides = list(change.overrides)
        assert fits(small, overrides), change
        for place in amounts(overrides):
            assert not fits(small, without(overrides, *place)), (place, change)
            unit = 64 if place[2] == "memory" else 1
            assert not fits(small, lowered(overrides, *place, by=unit)), (place, change)


@pytest.mark.parametrize(
    ("quotas", "rules", "message"),
    [
        (
            [small_quotas.quota("team", 0, 2)],
            {"runtime": False},
            "elastic quota team would need max cpu 4 instead of 2",
        ),
        (
            [small_quotas.quota("team", 0, 10), small_quotas.quota("other", 14, 16, lends=False)],
            {},
            "elastic quota team would need min cpu 4667m instead of 0",
        ),
        (
            [small_quotas.quota("team", 0, 2), small_quotas.quota("other", 14, 16, lends=False)],
            {},
            "elastic quota team would need max cpu 4667m instead of 2, min cpu 4667m instead of 0",
        ),
        ([of_namespace("apps", 10, 2)], {}, "elastic quota apps/own would need max cpu 4 instead of 2"),
        ([of_namespace("apps", 1)], {}, "elastic quota apps/own would need min cpu 4 instead of 1"),
        (
            [small_quotas.quota("team", 0, 2), of_namespace("apps", 1)],
            {"runtime": False},
            "elastic quota team would need max cpu 4 instead of 2;"
            " and elastic quota apps/own would need min cpu 4 instead of 1",
        ),
        (
            [
                small_quotas.quota("team", 0, 8, parent="above"),
                small_quotas.quota("above", 0, 3, is_parent=True),
            ],
            {},
            "elastic quota above would need max cpu 4 instead of 3",
        ),
    ],
)
def test_the_raise_of_the_limiting_quota_is_advised(
    quotas: list[model.DeclaredObject], rules: dict[str, bool], message: str
) -> None:
    small = small_quotas.cluster(small_quotas.node("n1", 16), *quotas, ASKS, **rules)
    changes = advice(small)
    assert [change.message for change in changes] == [message]
    assert {part["op"] for part in changes[0].overrides} == {"patchObject"}
    check(small, changes)


def test_no_raise_is_advised_where_the_cluster_has_not_enough() -> None:
    small = small_quotas.cluster(small_quotas.node("n1", 2), small_quotas.quota("team", 0, 8), ASKS)
    assert advice(small) == ()


@pytest.mark.parametrize(
    "broken",
    [
        small_quotas.quota("team", 0, 8, errors=("spec.min is not an object",)),
        msgspec.structs.replace(of_namespace("apps", 8), errors=("spec must be an object",)),
    ],
)
def test_an_invalid_quota_would_have_to_be_valid(broken: model.DeclaredObject) -> None:
    small = small_quotas.cluster(small_quotas.node("n1", 16), broken, ASKS)
    (change,) = advice(small)
    assert change.message.endswith(": it would have to be valid")
    assert fits(small, list(change.overrides))


@pytest.mark.parametrize("seed", range(60))
def test_a_quota_with_other_amounts_admits_as_the_state_that_has_them(seed: int) -> None:
    """The amounts of one resource, in any quotas of the chain; pods that the state has, and new ones."""
    dice = random.Random(seed)
    rules = {name: dice.random() < 0.5 for name in ARGUMENTS}
    running = [
        small_quotas.pod(
            f"p{number}",
            dice.randint(1, 4),
            dice.choice(["team", "other", "third"]),
            node=dice.choice(["n1", ""]),
            memory=dice.choice([0, 1]),
            firm=dice.random() < 0.3,
        )
        for number in range(9)
    ]
    quotas = list(tree(dice))
    if dice.random() < 0.4:
        quotas = [
            msgspec.structs.replace(one, tree="t", is_root=one.name in ("above", "top")) for one in quotas
        ]
    small = small_quotas.cluster(small_quotas.node("n1", 12, 16), *quotas, *running, ASKS, **rules)
    plugin = msgspec.convert(rules, ElasticQuota)
    snapshot, grown = small.snapshot, usage.forest(small.snapshot)
    whole = usage.of_tree(snapshot, grown.quotas["team"].tree, admission.sharing(plugin))
    for _ in range(8):
        resource = dice.choice(whole.tree.resources)
        unit = CORE if resource == "cpu" else GIB
        chain = [one for one in grown.chains["team"] if resource in grown.quotas[one].max]
        raised: dict[raised_amounts.Place, int] = {
            raised_amounts.Place(kinds.QUOTAS.name, grown.quotas[name].key, field, resource): (
                dice.randint(0, 40) * unit // 2
            )
            for name in dice.sample(chain, dice.randint(0, len(chain)))
            for field in FIELDS
            if dice.random() < 0.7
        }
        changed = {
            one.name: one
            for one in raised_amounts.raised_quotas(snapshot, raised).values()
            if isinstance(one, quota_model.Quota)
        }
        observed = [make() for make in raised_amounts.changes(snapshot, raised)]
        folded = projections.project_all(snapshot, observed)
        for pod in (ASKS, msgspec.structs.replace(ASKS, uid="new", requests={resource: unit * 3})):
            supposed = usage.supposed(grown, whole, changed)
            found = admission.admission(snapshot, pod, plugin, supposed)
            assert found == admission.admission(folded, pod, plugin), (raised, pod.uid)


def test_advice_builds_no_tree_for_what_it_tries() -> None:
    quotas = [small_quotas.quota(f"above-{at}", 0, 90, is_parent=True) for at in range(20)]
    quotas += [small_quotas.quota(f"q{at}", 1, 40, parent=f"above-{at % 20}") for at in range(200)]
    asks = small_quotas.pod("asks", 60, "q7", memory=0)
    small = small_quotas.cluster(small_quotas.node("n1", 400), *quotas, asks, check_parents=True)
    cycle = cycles.cycle(asks, small.snapshot.topology.everywhere, small.snapshot)
    (refusal,) = pipeline.run_filter(small.plugins, cycle).refusals
    plugin = small.plugins.advises[ElasticQuota.name]
    again = AssertionError("a tree was built again")
    with (
        mock.patch.object(forests, "grown", side_effect=again),
        mock.patch.object(runtimes, "derive", side_effect=again),
        mock.patch.object(admission, "admission", side_effect=admission.admission) as tried,
    ):
        (found,) = plugin.hypotheses(cycle, refusal)
    assert found.sentence == "elastic quota q7 would need max cpu 60 instead of 40"
    assert tried.call_count < 100


@pytest.mark.scenario("WI-3")
@pytest.mark.parametrize("seed", range(150))
def test_advice_fits_and_no_amount_of_it_can_be_lowered_or_left_out(seed: int) -> None:
    """Trees of up to three levels, quotas of namespaces, all arguments, cores and memory."""
    dice = random.Random(seed)
    rules = {name: dice.random() < 0.5 for name in ARGUMENTS}
    quotas: list[model.DeclaredObject] = list(tree(dice))
    if dice.random() < 0.4:
        quotas += [
            of_namespace(name, dice.randint(0, 6), dice.choice([None, 2, 6])) for name in ("apps", "b")
        ]
    asks = small_quotas.pod(
        "asks", dice.randint(1, 6), "team", memory=dice.choice([0, 0, 3]), firm=dice.random() < 0.3
    )
    running = [
        small_quotas.pod(
            f"p{number}",
            dice.randint(1, 4),
            dice.choice(["team", "other", "third"]),
            node=dice.choice(["n1", "n2", ""]),
            memory=dice.choice([0, 1]),
            namespace=dice.choice(["apps", "b"]),
            firm=dice.random() < 0.3,
        )
        for number in range(dice.randint(0, 9))
    ]
    nodes = [small_quotas.node(name, dice.randint(4, 16), 16) for name in ("n1", "n2")]
    small = small_quotas.cluster(*nodes, *quotas, *running, asks, **rules)
    changes = advice(small, asks)
    check(small, changes)
    if not changes and not fits(small, []):
        cores = sum(one.allocatable["cpu"] for one in nodes) // CORE
        most: dict[str, Any] = {"cpu": cores, "memory": "32Gi"}
        ops = [
            {"op": op, "quota": f"{one.namespace}/{one.name}", "min": most, "max": most}
            for one in quotas
            for op in (
                ["scaleSigsQuota"] if isinstance(one, namespace_quota.NamespaceQuota) else ["scaleQuota"]
            )
            if one.name in ("team", "above", "top") or one.namespace == "apps"
        ]
        assert not fits(small, ops), "with all that there is it would have fitted"


def tree(dice: random.Random) -> Iterator[model.DeclaredObject]:
    depth = dice.randint(0, 2)
    parents = ["", "above", "top"][: depth + 1]
    for number, name in enumerate(parents[1:], 1):
        above = parents[number + 1] if number < depth else ""
        yield quota(dice, name, parent=above, is_parent=True)
    yield quota(dice, "team", parent=parents[1] if depth else "")
    yield quota(dice, "other", parent=dice.choice(parents))
    yield quota(dice, "third", parent=dice.choice(parents))


def quota(
    dice: random.Random, name: str, parent: str = "", *, is_parent: bool = False
) -> model.DeclaredObject:
    least, memory = dice.randint(0, 6), dice.randint(0, 4)
    most = least + dice.randint(0, 8)
    lends = dice.random() < 0.6
    made = small_quotas.quota(name, least, most, parent=parent, is_parent=is_parent, lends=lends)
    if dice.random() < 0.5:
        return made
    return msgspec.structs.replace(
        made,
        min={**made.min, "memory": memory * GIB},
        max={**made.max, "memory": (memory + dice.randint(0, 4)) * GIB + dice.choice([0, 5])},
    )


@pytest.mark.parametrize(
    ("override", "refused"),
    [
        ({"max": {"cpu": "+2"}}, ""),
        ({"max": {"cpu": 4}, "min": {"cpu": "4"}}, ""),
        ({"max": {"cpu": "+1500m"}}, "still"),
        ({"max": {"cpu": "-3"}}, "overrides[0].max.cpu: -1 is not an amount"),
        ({"min": {"cpu": 3}}, "overrides[0].quota: spec.min of cpu is 3, more than spec.max of 2"),
        ({"min": {"gpu": 2}}, "overrides[0].quota: spec.min has gpu, spec.max has not"),
        ({"max": {"gpu": "+2"}}, "overrides[0].max.gpu: the quota does not limit it"),
        ({"max": {"cpu": "much"}}, "overrides[0].max.cpu: max.cpu: 'much' is not a quantity"),
        ({"max": {"cpu": "--2"}}, "overrides[0].max.cpu: max.cpu is negative: -2"),
        ({}, "overrides[0].min: min, max or both are required"),
        (
            {"quota": "quotas/none", "max": {"cpu": 4}},
            "overrides[0].quota: there is no elastic quota quotas/none",
        ),
    ],
)
def test_amounts_of_a_quota_are_set_or_changed(override: dict[str, Any], refused: str) -> None:
    small = small_quotas.cluster(
        small_quotas.node("n1", 16), small_quotas.quota("team", 0, 2), ASKS, runtime=False
    )
    scaled = {"op": "scaleQuota", "quota": "quotas/team", **override}
    if refused in ("", "still"):
        assert fits(small, [scaled]) == (refused == "")
    else:
        with pytest.raises(errors.Mistake, match=re.escape(refused)):
            situation(small, [scaled])


def test_the_quota_of_a_namespace_is_changed_by_an_operation_of_its_own() -> None:
    small = small_quotas.cluster(small_quotas.node("n1", 16), of_namespace("apps", 2, 9), ASKS)
    scaled = {"op": "scaleSigsQuota", "quota": "apps/own"}
    assert not fits(small, [{**scaled, "min": {"cpu": "+1"}}])
    assert fits(small, [{**scaled, "min": {"cpu": "+2"}}])
    assert fits(small, [{**scaled, "min": {"cpu": "+20"}}])
    assert not fits(small, [{**scaled, "min": {"cpu": 4}, "max": {"cpu": 3}}])
    assert isinstance(small.plugins.plugins[0], ElasticQuota)
