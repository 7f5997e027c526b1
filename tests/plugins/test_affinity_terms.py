"""Terms of pod affinity, whatever their author writes: the right pods in bounded time and memory."""

import sys
from collections.abc import Iterable, Sequence
from unittest import mock

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from app.domain import model, selectors
from app.framework import cycles, registry
from app.plugins.preemption_rules import affinity_terms, logic, plugin
from app.verbs.preemption import offers
from tests.support.decisions import crowded_nodes

PLUGINS = registry.Registry([plugin.PreemptionRules()])
EXCESSIVE = "the pod affinity of ns/{} has too many terms, values or pods to examine"


def dependent(
    name: str, *terms: model.PodTerm, node: str = "n1", labels: dict[str, str] | None = None
) -> model.Pod:
    found = crowded_nodes.pod(name, 20, node=node, start=1, labels=labels)
    return msgspec.structs.replace(found, constraints=model.Constraints(pod_affinity=terms))


def judged(objects: Iterable[model.Node | model.Pod], offer: dict[str, list[str]]) -> offers.PreemptAnswer:
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(offer), crowded_nodes.world(*objects))
    return offers.judge(PLUGINS, base, offer)


def listed(key: str, *values: str, operator: str = "In") -> model.Selector:
    return model.Selector({}, (model.Requirement(key, operator, values),))


VALUES = [f"v{number}" for number in range(300)]


@pytest.mark.scenario("PR-41")
@pytest.mark.parametrize(
    "terms",
    [
        (model.PodTerm("zone", listed("app", "db", *VALUES)),),
        (model.PodTerm("zone", model.Selector({"app": "db"}), namespaces=("ns", *VALUES)),),
        tuple(model.PodTerm("zone", model.Selector({"app": "db"})) for _ in range(17)),
        (model.PodTerm("zone", model.Selector({"app": "db"} | dict.fromkeys(VALUES, ""))),),
    ],
)
def test_a_node_with_a_pod_of_excessive_affinity_is_dropped_unexamined(
    terms: tuple[model.PodTerm, ...],
) -> None:
    nodes = [crowded_nodes.node(f"n{number}", labels={"zone": "a"}) for number in range(2)]
    objects: list[model.Node | model.Pod] = [
        *nodes,
        crowded_nodes.pod("database", 10, node="n0", labels={"app": "db"}),
        crowded_nodes.pod("other", 10, node="n1"),
        dependent("server", *terms, node="n0"),
    ]
    with mock.patch.object(selectors, "matches", side_effect=selectors.matches) as compared:
        answer = judged(objects, {"n0": ["database"], "n1": ["other"]})
    assert answer.dropped == {"n0": EXCESSIVE.format("server")}
    assert answer.kept == {"n1": offers.Kept(("other",))}
    assert not compared.called
    assert judged(objects, {"n0": ["database", "server"]}).kept, "it goes itself"


def test_repeated_values_and_namespaces_repeat_no_pod() -> None:
    selector = model.Selector(
        {}, (model.Requirement("app", "In", ("db",) * 10), model.Requirement("tier", "NotIn", ("b",)))
    )
    term = model.PodTerm("zone", selector, namespaces=("ns",) * 10)
    objects: list[model.Node | model.Pod] = []
    objects += [crowded_nodes.node(name, labels={"zone": "a"}) for name in ("n1", "n2")]
    objects.append(crowded_nodes.pod("database", 10, node="n1", labels={"app": "db"}))
    other = {"app": "db", "tier": "b"}
    objects += [crowded_nodes.pod(f"{number}", 10, node="n2", labels=other) for number in range(30)]
    objects.append(dependent("server", term))
    with mock.patch.object(selectors, "matches", side_effect=selectors.matches) as compared:
        answer = judged(objects, {"n1": ["database"]})
    assert set(answer.kept["n1"].uids) == {"server", "database"}
    assert compared.call_count <= 1 + 31


@pytest.mark.scenario("PR-41")
def test_what_a_term_selects_is_found_once_for_all_pods_that_have_it() -> None:
    """No label of the term narrows the search: all pods of the zone are compared with it."""
    term = model.PodTerm("zone", listed("app", "x", operator="NotIn"), any_namespace=True)
    names = [f"n{number}" for number in range(10)]
    objects: list[model.Node | model.Pod] = []
    for name in names:
        objects.append(crowded_nodes.node(name, labels={"zone": "a"}))
        objects.append(crowded_nodes.pod(f"database-{name}", 10, node=name, labels={"app": "db"}))
        objects += [
            dependent(f"{number}-{name}", term, node=name, labels={"app": "x"}) for number in range(20)
        ]
    with mock.patch.object(selectors, "matches", side_effect=selectors.matches) as compared:
        answer = judged(objects, {name: [f"database-{name}"] for name in names})
    assert all(answer.kept[name].uids == (f"database-{name}",) for name in names)
    assert compared.call_count <= 20 * 10 + 10 * 21, "each pod with its victim, and the term with all"


@pytest.mark.scenario("PR-41")
def test_a_search_that_is_too_long_drops_the_node_and_is_not_repeated() -> None:
    term = model.PodTerm("zone", listed("app", "x", operator="NotIn"))
    nodes = [crowded_nodes.node(name, labels={"zone": "a"}) for name in ("n1", "n2")]
    database = crowded_nodes.pod("database", 10, node="n1", labels={"app": "db"})
    others = [crowded_nodes.pod(f"{number}", 10, node="n2", labels={"app": "x"}) for number in range(100)]
    objects: list[model.Node | model.Pod] = [
        *nodes,
        database,
        *others,
        dependent("server", term, labels={"app": "x"}),
    ]
    assert set(judged(objects, {"n1": ["database"]}).kept["n1"].uids) == {"server", "database"}
    snapshot = crowded_nodes.world(*objects)
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(("n1",)), snapshot)
    with (
        mock.patch.object(affinity_terms, "EXAMINED", 50),
        mock.patch.object(selectors, "matches", side_effect=selectors.matches) as compared,
    ):
        reasons = {logic.dependents(base, "n1", [database]) for _ in range(20)}
    assert reasons == {EXCESSIVE.format("server")}
    assert compared.call_count == 20 + 50


def test_terms_raise_the_held_pods_no_further_than_a_limit() -> None:
    labels = {f"key-{number}": "v" for number in range(80)}
    terms = [model.PodTerm("zone", model.Selector({label: "v"})) for label in labels]
    nodes = [crowded_nodes.node(name, labels={"zone": "a"}) for name in ("n1", "n2")]
    others = [crowded_nodes.pod(f"{number}", 10, node="n2", labels=labels) for number in range(200)]
    servers = [dependent(f"server-{number}", *terms[number : number + 16]) for number in range(0, 80, 16)]
    database = crowded_nodes.pod("database", 10, node="n1", labels=labels)
    snapshot = crowded_nodes.world(*nodes, *others, *servers, database)
    pods = list(snapshot.pods.values())
    before = sum(map(sys.getrefcount, pods))
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(("n1",)), snapshot)
    assert offers.judge(PLUGINS, base, {"n1": ["database"]}).kept["n1"].uids == ("database",)
    found = 4 * len(terms)
    assert sum(map(sys.getrefcount, pods)) - before <= affinity_terms.HELD * len(pods) + found


WORDS = st.sampled_from(["a", "b", ""])
KEYS = st.sampled_from(["app", "tier", "env"])
SPACES = st.sampled_from(["ns", "one", "two"])
REQUIREMENTS = st.one_of(
    st.builds(
        model.Requirement,
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(model.Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
LABELS = st.dictionaries(KEYS, WORDS, max_size=3)
SELECTORS = st.builds(model.Selector, LABELS, st.lists(REQUIREMENTS, max_size=2).map(tuple))
TERMS = st.builds(
    model.PodTerm,
    st.sampled_from(["zone", "kubernetes.io/hostname", "region"]),
    st.one_of(st.none(), SELECTORS),
    st.lists(SPACES, max_size=3).map(tuple),
    st.booleans(),
)


@st.composite
def running(draw: st.DrawFn) -> list[model.Pod]:
    pods = []
    for number in range(draw(st.integers(2, 12))):
        found = crowded_nodes.pod(
            f"pod-{number:02}",
            draw(st.sampled_from([10, 10, 10, 50])),
            node=draw(st.sampled_from(["n1", "n1", "n2", "n3"])),
            labels=draw(LABELS),
            namespace=draw(SPACES),
            phase=draw(st.sampled_from(["Running", "Running", "Running", "Failed"])),
            terminating=draw(st.integers(0, 9)) == 0,
            constraints=model.Constraints(pod_affinity=tuple(draw(st.lists(TERMS, max_size=2)))),
        )
        pods.append(found)
    return pods


ZONES = {"n1": "a", "n2": "a", "n3": "b"}


def plain_part(one: model.Requirement, labels: dict[str, str]) -> bool:
    if one.operator == "In":
        return one.key in labels and labels[one.key] in one.values
    if one.operator == "NotIn":
        return one.key not in labels or labels[one.key] not in one.values
    return (one.key in labels) == (one.operator == "Exists")


def plain_meets(term: model.PodTerm, pod: model.Pod, other: model.Pod) -> bool:
    if term.selector is None:
        return False
    spaces = term.namespaces or (pod.namespace,)
    if not term.any_namespace and other.namespace not in spaces:
        return False
    alike = all(key in other.labels and other.labels[key] == v for key, v in term.selector.labels.items())
    return alike and all(plain_part(one, other.labels) for one in term.selector.expressions)


def plain(pods: Sequence[model.Pod], victims: Sequence[model.Pod]) -> list[str] | str:
    """What must go from n1 with the victims, pod by pod."""
    stays = [pod for pod in pods if pod not in victims and pod.phase != "Failed"]
    found = []
    for pod in stays:
        if pod.node != "n1" or pod.terminating or pod.constraints is None:
            continue
        for term in pod.constraints.pod_affinity:
            near = [p for p in stays if p.node == "n1"]
            if term.topology_key == "zone":
                near = [p for p in stays if ZONES[p.node] == "a"]
            lost = any(plain_meets(term, pod, victim) for victim in victims)
            if lost and not any(plain_meets(term, pod, other) for other in near):
                if pod.priority >= 50:
                    return f"eviction would strand {pod.namespace}/{pod.name}"
                found.append(pod.uid)
                break
    return found


@pytest.mark.parametrize("few", [0, 16])
def test_the_dependents_are_those_that_a_search_pod_by_pod_finds(few: int) -> None:
    nodes = [crowded_nodes.node(name, labels={"zone": zone}) for name, zone in ZONES.items()]

    @hypothesis.given(running(), st.integers(1, 3))
    @hypothesis.settings(deadline=None, max_examples=60)
    def check(pods: list[model.Pod], number: int) -> None:
        on = [pod for pod in pods if pod.node == "n1" and pod.phase != "Failed"]
        victims = [pod for pod in on if pod.priority < 50][:number]
        base = cycles.cycle(
            crowded_nodes.pod("p", 50), frozenset(("n1",)), crowded_nodes.world(*nodes, *pods)
        )
        found = logic.dependents(base, "n1", victims)
        assert (found if isinstance(found, str) else [one.uid for one in found]) == plain(pods, victims)

    with mock.patch.object(affinity_terms, "_FEW", few):
        check()
