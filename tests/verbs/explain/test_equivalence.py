"""Shared diagnoses and rows taken from groups: the answers are those of computing each alone."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app import plugins
from app.domain import events, model, projections, snapshots, verdicts
from app.framework import registry
from app.plugins.workload_policy import plugin as workload_policy
from app.plugins.workload_policy import policy_model
from app.verbs.explain import equivalence, explanations, tables
from tests.support import declared
from tests.support.decisions import fake_plugins

POLICY, ALIAS = "workload-policy/kosmos.io", "workload-policy.kosmos.io"
PLUGINS = registry.Registry([plugin() for plugin in plugins.USUAL])
SELECTING = registry.Registry(
    [
        workload_policy.WorkloadPolicy(enforce="selected") if plugin.name == "WorkloadPolicy" else plugin
        for plugin in PLUGINS.plugins
    ]
)
NODES = tuple(f"n{at}" for at in range(4))
names = st.sampled_from(("p", "q", "absent", ""))
values = st.sampled_from(("a", "b"))

nodes = st.dictionaries(
    st.sampled_from(("zone", "rack", "priority.lixueduan.com")), st.sampled_from(("a", "b", "7")), max_size=3
)
labels = st.fixed_dictionaries(
    {}, optional={POLICY: names, ALIAS: names, "app": values, "tier": values, "unread": values}
)
selectors = st.builds(
    model.Selector,
    labels=st.dictionaries(st.sampled_from(("app", "tier")), values, max_size=2),
    expressions=st.lists(
        st.builds(
            model.Requirement,
            key=st.sampled_from(("app", "tier")),
            operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
            values=st.tuples(values),
        ),
        max_size=1,
    ).map(tuple),
)


@st.composite
def policies(draw: st.DrawFn, name: str) -> policy_model.WorkloadPolicy:
    return policy_model.WorkloadPolicy(
        uid=name,
        namespace=draw(st.sampled_from(("blue", "green"))),
        name=name,
        topology_key=draw(st.sampled_from(("zone", "rack"))),
        selector=draw(selectors),
        allocations=(
            policy_model.Allocation("a", draw(st.integers(0, 2))),
            policy_model.Allocation("b", draw(st.integers(0, 1))),
        ),
        type=draw(st.sampled_from(("Required", "Required", "Preferred"))),
        strict_domains=draw(st.booleans()),
        errors=draw(st.sampled_from(((), (), ("allocationPolicy is empty",)))),
    )


@st.composite
def pods(draw: st.DrawFn, number: int) -> model.Pod:
    return model.Pod(
        uid=f"u{number}",
        namespace=draw(st.sampled_from(("blue", "green"))),
        name=f"pod-{number}",
        labels=draw(labels),
        owners=tuple(model.Owner(kind, f"o{number}", "o") for kind in draw(st.sets(st.sampled_from(OWNERS)))),
        requests={"cpu": draw(st.integers(0, 2))},
        node=draw(st.sampled_from(("", "", "", *NODES))),
        nominated=draw(st.sampled_from(("", "", "", *NODES))),
        priority=draw(st.integers(0, 2)),
        scheduler=draw(st.sampled_from(("default-scheduler", "i-scheduler-extender"))),
    )


OWNERS = ("DaemonSet", "ReplicaSet")


@st.composite
def clusters(draw: st.DrawFn) -> snapshots.Snapshot:
    happened: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name=name, uid=name, labels=draw(nodes))) for name in NODES
    ]
    happened += [declared.observed(draw(policies(name))) for name in ("p", "q")]
    happened += [events.PodSeen(pod=draw(pods(number))) for number in range(draw(st.integers(0, 8)))]
    return projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS.indexed()), happened
    )


@given(clusters(), st.sampled_from((PLUGINS, SELECTING)))
def test_the_shared_answer_is_that_of_each_pod_alone(
    snapshot: snapshots.Snapshot, built: registry.Registry
) -> None:
    waits = explanations.Waits(snapshot, built)
    for pod in snapshot.pods.values():
        alone, shared = explanations.presently(pod, snapshot, built), waits.of(pod)
        assert shared.changes == alone.changes
        assert shared.reason == ("" if alone.fits else explanations.summary(alone.trace))


@given(clusters())
def test_what_no_plugin_reads_makes_no_class(snapshot: snapshots.Snapshot) -> None:
    classes = equivalence.Classes(PLUGINS, snapshot)
    for pod in snapshot.pods.values():
        assert classes.of(without(pod, "unread")) == classes.of(pod)
        assert (classes.of(without(pod, POLICY)) != classes.of(pod)) == (POLICY in pod.labels)


def without(pod: model.Pod, label: str) -> model.Pod:
    others = {key: value for key, value in pod.labels.items() if key != label}
    return msgspec.structs.replace(pod, labels=others)


def test_pods_are_compared_as_a_whole_if_a_filter_does_not_classify() -> None:
    plain = registry.Registry([*PLUGINS.plugins, fake_plugins.Filtering()])
    one = model.Pod(uid="1", namespace="ns", name="one", created="2026", labels={"unread": "a"})
    alike = model.Pod(uid="2", namespace="ns", name="two", created="2027", labels={"unread": "a"})
    other = model.Pod(uid="3", namespace="ns", name="three", labels={"unread": "b"})
    classes = equivalence.Classes(plain, snapshots.empty(schema=declared.SCHEMA))
    assert classes.of(one) == classes.of(alike) != classes.of(other)
    shared = equivalence.Classes(PLUGINS, snapshots.empty(schema=declared.SCHEMA))
    assert shared.of(one) == shared.of(other)


def test_a_page_of_too_many_classes_marks_pods_without_advice() -> None:
    pending = [
        model.Pod(uid=f"u{at}", namespace="blue", name=f"w{at}", labels={POLICY: f"absent-{at}"})
        for at in range(explanations.DIAGNOSED + 1)
    ]
    node = events.NodeSeen(node=model.Node(name="n", uid="n"))
    snapshot = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS.indexed()),
        [node, *(events.PodSeen(pod=pod) for pod in pending)],
    )
    waits = explanations.Waits(snapshot, PLUGINS)
    answers = [waits.of(pod) for pod in pending]
    assert all("not found" in answer.reason for answer in answers)
    assert answers[0].changes == explanations.presently(pending[0], snapshot, PLUGINS).changes
    assert answers[-1].changes == (explanations.UNDIAGNOSED,)


sets = st.frozensets(st.sampled_from([f"n{at}" for at in range(12)]))


@st.composite
def traces(draw: st.DrawFn) -> verdicts.Trace:
    candidates = draw(sets)
    free = set(candidates)
    totals: dict[int, frozenset[str]] = {}
    for total in draw(st.sets(st.integers(-3, 9).filter(bool), max_size=4)):
        group = frozenset(draw(sets) & free)
        if group:
            totals[total] = group
            free -= group
    return verdicts.Trace(
        position=model.Position("i", 1),
        pod=model.Pod(uid="u", namespace="ns", name="p"),
        candidates=candidates,
        interested=("A", "B"),
        refusals=tuple(
            verdicts.Refusal(f"no {at}", draw(sets) & candidates, plugin=f"R{at}")
            for at in range(draw(st.integers(0, 2)))
        ),
        ratings=(verdicts.Rating(totals, plugin="A", weight=2),),
        totals=totals,
    )


@given(traces(), st.integers(1, 14))
def test_the_first_rows_are_those_of_sorting_all_of_them(trace: verdicts.Trace, limit: int) -> None:
    reasons = {node: refusal for refusal in reversed(trace.refusals) for node in refusal.nodes}
    whole = sorted((node in reasons, -trace.score_of(node), node) for node in trace.candidates)
    rows = tables.rows(trace, limit)
    assert [(not row.kept, -row.total, row.node) for row in rows] == whole[:limit]
    for row in rows:
        refusal = reasons.get(row.node)
        assert row.reason == (refusal.reason if refusal is not None else "")
        assert row.plugin == (refusal.plugin if refusal is not None else "")
        raw = trace.score_of(row.node)
        assert row.cells == (() if refusal is not None else (tables.Cell("A", raw, 2 * raw),))
