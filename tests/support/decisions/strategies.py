"""Hypothesis strategies for clusters and events: few names, so that histories collide often."""

from collections.abc import Iterable

import msgspec
from hypothesis import strategies as st

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support import declared

NAMESPACES = ("blue", "green")
NODES = tuple(f"n{i}" for i in range(4))
UIDS = tuple(f"u{i}" for i in range(8))
KEYS = ("zone", "rack")

values = st.sampled_from(("a", "b", "c"))


def _labels(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), values, max_size=2)


@st.composite
def nodes(draw: st.DrawFn, name: str | None = None) -> model.Node:
    name = draw(st.sampled_from(NODES)) if name is None else name
    return model.Node(
        name=name,
        uid=f"{name}-{draw(st.integers(0, 1))}",
        labels=draw(_labels(KEYS)),
        unschedulable=draw(st.booleans()),
    )


NEAR_OTHERS = model.Constraints(pod_affinity=(model.PodTerm("zone", model.Selector({"app": "a"})),))


@st.composite
def pods(draw: st.DrawFn, uid: str | None = None) -> model.Pod:
    uid = draw(st.sampled_from(UIDS)) if uid is None else uid
    return model.Pod(
        uid=uid,
        # A uid keeps its namespace and its name, as in a real cluster.
        namespace=NAMESPACES[int(uid[1:]) % 2],
        name=f"pod-{uid}",
        labels=draw(_labels(("app", "job"))),
        requests=draw(st.sampled_from(({}, {"cpu": 100}, {"cpu": 250, "memory": 1 << 20}, {"gpu": 0}))),
        node=draw(st.sampled_from(("", "", *NODES))),
        nominated=draw(st.sampled_from(("", "", *NODES))),
        phase=draw(st.sampled_from(("Pending", "Running", "Running", "Succeeded", "Failed"))),
        terminating=draw(st.sampled_from((False, False, True))),
        gated=draw(st.sampled_from((False, False, True))),
        constraints=draw(st.sampled_from((model.STANDARD, model.STANDARD, NEAR_OTHERS, None))),
    )


requirements = st.builds(
    model.Requirement,
    key=st.sampled_from(("app", "job")),
    operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    values=st.lists(values, max_size=2).map(tuple),
)

selectors = st.builds(
    model.Selector, labels=_labels(("app",)), expressions=st.lists(requirements, max_size=2).map(tuple)
)


@st.composite
def policies(draw: st.DrawFn, key: str | None = None) -> policy_model.WorkloadPolicy:
    key = f"{draw(st.sampled_from(NAMESPACES))}/{draw(st.sampled_from(('p', 'q')))}" if key is None else key
    namespace, _, name = key.partition("/")
    return policy_model.WorkloadPolicy(
        uid=f"{key}-{draw(st.integers(0, 1))}",
        namespace=namespace,
        name=name,
        topology_key=draw(st.sampled_from(KEYS)),
        selector=draw(selectors),
        allocations=(policy_model.Allocation("a", draw(st.integers(0, 3))),),
        errors=draw(st.sampled_from(((), (), ("allocationPolicy is empty",)))),
    )


def _gone(pod: model.Pod) -> events.PodGone:
    return events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)


def _released(pod: model.Pod) -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node="n0", reason="refused", cause="refused"
    )


_json: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_texts = st.dictionaries(st.sampled_from(("example.org/a", "example.org/b")), values, max_size=2)


def _committed(*pods_placed: model.Pod) -> st.SearchStrategy[events.PlacementsCommitted]:
    """All of these pods are placed at once, somewhere, and with contents of every kind."""
    placements = [
        st.builds(
            model.Placement,
            pod=st.just(pod),
            node=st.sampled_from((*NODES, "unknown")),
            resource_version=st.sampled_from(("", "4711")),
            planned=st.booleans(),
            data=st.dictionaries(st.sampled_from(("One", "Two")), _json, max_size=2),
            annotations=_texts,
            labels=_texts,
        )
        for pod in pods_placed
    ]
    return st.builds(events.PlacementsCommitted, placements=st.tuples(*placements), at=values, by=values)


def _of_several(drawn: Iterable[model.Pod]) -> st.SearchStrategy[events.PlacementsCommitted]:
    return _committed(*{pod.uid: pod for pod in drawn}.values())


any_event: st.SearchStrategy[events.AnyEvent] = st.one_of(
    st.builds(events.PodSeen, pod=pods()),
    st.builds(events.PodSeen, pod=pods()),
    st.builds(_gone, pods()),
    pods().flatmap(_committed),
    st.lists(pods(), min_size=2, max_size=4).flatmap(_of_several),
    st.builds(_released, pods()),
    st.builds(events.NodeSeen, node=nodes()),
    st.builds(events.NodeGone, name=st.sampled_from(NODES), uid=st.just("n")),
    st.builds(declared.observed, policies()),
    st.builds(lambda policy: declared.POLICIES.gone(policy.namespace, policy.name, policy.uid), policies()),
    st.builds(events.Relisted, kind=st.just("pods"), since=st.just("1"), until=values, reason=st.just("410")),
    st.builds(events.Quarantined, kind=st.just("pods"), object=values, reason=st.just("no uid")),
    st.builds(
        events.RecorderElected,
        by=st.just("one"),
        epoch=st.sampled_from(("1", "2")),
        unwatched=st.sampled_from(((), ("pods",), ("former", "workloadpolicies"))),
    ),
    st.builds(
        events.StoreRewound,
        from_incarnation=st.just("i"),
        lost_from=st.just(1),
        lost_to=st.just(2),
        reason=st.just("a test"),
        relisting=st.sampled_from(((), ("pods",))),
    ),
    st.builds(events.StoreRestarted, by=st.just("me"), before=st.just("a1"), after=st.just("b2")),
    st.builds(events.EpochAdopted, by=st.just("me"), from_epoch=st.just("1"), to_epoch=st.just("2")),
    st.builds(
        events.ViewsRepaired,
        by=st.just("auditor"),
        counts=st.dictionaries(st.sampled_from(("blue/p|a", "blue/q|b")), st.sampled_from((-1, 2))),
        moved=st.sampled_from(((), ("node:n0",))),
        ended=st.sampled_from(((), ("pod:missing",))),
    ),
    st.builds(events.RelistRequested, kind=st.just("pods"), reason=values),
    st.builds(
        events.ConfigurationApplied,
        configuration=st.builds(
            model.Configuration,
            digest=st.sampled_from(("0a", "1b", "2c")),
            enabled=st.just(("WorkloadPolicy",)),
            args=st.sampled_from(({}, {"WorkloadPolicy": {"enforce": "selected"}})),
        ),
        by=values,
    ),
    st.builds(
        events.ShadowSet,
        shadow=st.builds(
            model.Shadow,
            name=st.sampled_from(("strict", "wide")),
            overrides=st.sampled_from(((), ({"op": "deleteObject", "name": "blue/p"},))),
            configuration=st.sampled_from((None, {"weights": {"JobAffinity": 2}})),
            until=values,
        ),
    ),
    st.builds(events.ShadowGone, name=st.sampled_from(("strict", "wide")), by=values),
    st.builds(events.FlagSet, flag=st.builds(model.Flag, name=st.sampled_from("sfvd"), value=values)),
)


def _of_one_pod(pod: model.Pod) -> st.SearchStrategy[events.AnyEvent]:
    return st.one_of(
        st.just(events.PodSeen(pod=pod)),
        st.just(events.PodSeen(pod=pod)),
        st.just(_gone(pod)),
        st.just(_released(pod)),
        st.builds(events.placed, pod=st.just(pod), node=st.sampled_from(NODES)),
    )


crowds = st.lists(st.sampled_from(("u0", "u2", "u4")).flatmap(pods).flatmap(_of_one_pod), max_size=12)
"""Histories of few pods of one namespace, with many events for each."""


def _world() -> list[events.AnyEvent]:
    """First events after which pods count: events drawn one by one hardly ever lead there."""
    labels = ({"zone": "a", "rack": "a"}, {"zone": "b", "rack": "a"}, {"zone": "b"})
    everything = model.Selector()
    some = model.Selector(expressions=(model.Requirement("app", "Exists"),))
    found: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name=name, uid=f"{name}-0", labels=held))
        for name, held in zip(NODES, labels, strict=False)
    ]
    for key, topology, selector in (("blue/p", "zone", everything), ("green/q", "rack", some)):
        namespace, _, name = key.partition("/")
        policy = policy_model.WorkloadPolicy(
            uid=f"{key}-0", namespace=namespace, name=name, topology_key=topology, selector=selector
        )
        found.append(declared.observed(policy))
    for at, uid in enumerate(UIDS[:6]):
        pod = model.Pod(
            uid=uid, namespace=NAMESPACES[int(uid[1:]) % 2], name=f"pod-{uid}", labels={"app": "a"}
        )
        node = NODES[at % 3]
        bound = events.PodSeen(pod=msgspec.structs.replace(pod, node=node, phase="Running"))
        found.append(bound if at < 4 else events.placed(pod, node))
    return found


def life() -> list[events.AnyEvent]:
    """Every kind of event that changes a count or an index, in a cluster where pods count."""
    one, two = (
        model.Pod(uid=uid, namespace=NAMESPACES[at], name=f"pod-{uid}", labels={"app": "a"})
        for at, uid in enumerate(UIDS[6:])
    )
    bound = events.PodSeen(pod=msgspec.structs.replace(one, node="n0", phase="Running"))
    elsewhere = events.PodSeen(pod=msgspec.structs.replace(two, node="n1", phase="Running"))
    moved = model.Node(name="n0", uid="n0-0", labels={"zone": "b", "rack": "b"})
    policy = policy_model.WorkloadPolicy(
        uid="blue/p-0", namespace="blue", name="p", topology_key="rack", selector=model.Selector({"app": "a"})
    )
    return [
        *_world(),
        events.NodeGone(name="missing", uid="missing-0"),
        declared.POLICIES.gone(namespace="blue", name="missing", uid="missing-0"),
        events.PodSeen(pod=one),
        events.PodSeen(pod=msgspec.structs.replace(one, nominated="n0")),
        events.placed(one, "n0"),
        events.PodSeen(pod=one),
        bound,
        events.PodSeen(pod=two),
        events.placed(two, "n1"),
        _released(two),
        events.placed(two, "n2"),
        events.placed(two, "n0"),
        events.PlacementsCommitted(placements=(model.Placement(one, "n1"), model.Placement(two, "n2"))),
        elsewhere,
        events.NodeSeen(node=moved),
        declared.observed(policy),
        events.NodeGone(name="n1", uid="n1-0"),
        events.PodSeen(pod=msgspec.structs.replace(bound.pod, labels={})),
        bound,
        events.PodSeen(pod=msgspec.structs.replace(bound.pod, constraints=NEAR_OTHERS)),
        bound,
        events.PodSeen(pod=msgspec.structs.replace(bound.pod, terminating=True)),
        bound,
        events.PodSeen(pod=msgspec.structs.replace(bound.pod, phase="Succeeded")),
        _gone(one),
        declared.POLICIES.gone(namespace="blue", name="p", uid="blue/p-0"),
        events.NodeSeen(node=msgspec.structs.replace(moved, name="n1", uid="n1-1")),
        _gone(two),
    ]


_drawn = st.lists(any_event, max_size=40)
histories = st.one_of(_drawn, _drawn.map(lambda drawn: [*_world(), *drawn]))


def namesake(event: events.AnyEvent) -> events.AnyEvent:
    """The same event for a pod that shares its name with others of its namespace."""
    if isinstance(event, events.PodSeen):
        return msgspec.structs.replace(event, pod=msgspec.structs.replace(event.pod, name="one"))
    if isinstance(event, events.PlacementsCommitted):
        renamed = [
            msgspec.structs.replace(one, pod=msgspec.structs.replace(one.pod, name="one"))
            for one in event.placements
        ]
        return msgspec.structs.replace(event, placements=tuple(renamed))
    return event
