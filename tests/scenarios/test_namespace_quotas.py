"""Scenarios of the quotas of namespaces (scheduling.x-k8s.io). Amounts are cores and GiB."""

import msgspec
import pytest

from app.domain import events, model, projections
from app.framework import cycles
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota, reclaimable_pods
from app.verbs.preemption import offers
from tests.support.decisions import scheduling_driver
from tests.support.decisions.small_quotas import CORE, GIB, check, cluster, node, pod, quota

NAMESPACE_QUOTAS = namespace_quota.KIND


def of(namespace: str, least: int, most: int, **changed: object) -> namespace_quota.NamespaceQuota:
    """The quota of a namespace, in cores."""
    made = namespace_quota.NamespaceQuota(
        uid=f"uid-{namespace}",
        namespace=namespace,
        name="quota",
        min={"cpu": least * CORE},
        max={"cpu": most * CORE},
        created="2026-01-01T00:00:00Z",
    )
    return msgspec.structs.replace(made, **changed)


def two(*things: scheduling_driver.Thing, **arguments: bool | str) -> scheduling_driver.Cluster:
    """Namespace a uses 12 of 10 to 20 cores, namespace b 4 of as much."""
    return cluster(
        node("n1", 100, 100),
        of("a", 10, 20),
        of("b", 10, 20),
        pod("a-runs", 12, namespace="a", node="n1"),
        pod("b-runs", 4, namespace="b", node="n1"),
        *things,
        **arguments,
    )


def used(small: scheduling_driver.Cluster, namespace: str) -> int:
    return namespace_counts.used(small.snapshot, namespace, "cpu") // CORE


@pytest.mark.scenario("EQ-22")
def test_a_namespace_borrows_what_the_mins_of_all_leave_and_no_more_than_its_max() -> None:
    small = two()
    assert not small.filter(pod("p", 4, namespace="a")).refused
    assert small.why(pod("p", 5, namespace="a")) == (
        "elastic quota a/quota: no capacity in cpu within the mins of all quotas"
    )
    assert small.why(pod("p", 9, namespace="a")) == "elastic quota a/quota: no capacity in cpu"
    assert small.plugins.concerned(pod("p", 99, namespace="other"), small.snapshot) == ()
    small.place(pod("p", 4, namespace="a"), "n1")
    assert (used(small, "a"), used(small, "b"), used(small, namespace_counts.ALL)) == (16, 4, 20)
    check(small)


@pytest.mark.scenario("EQ-22")
def test_a_resource_that_no_quota_names_is_not_limited() -> None:
    small = two()
    assert not small.filter(pod("p", 1, namespace="a", memory=50)).refused
    guaranteed = of("b", 10, 20, min={"cpu": 10 * CORE, "memory": 8 * GIB})
    small = two(guaranteed)
    assert not small.filter(pod("p", 1, namespace="a", memory=8)).refused
    assert small.why(pod("p", 1, namespace="a", memory=9)) == (
        "elastic quota a/quota: no capacity in memory within the mins of all quotas"
    )


@pytest.mark.scenario("EQ-22")
def test_nominated_pods_keep_what_they_were_given() -> None:
    """Of the own namespace if they are as important, of others while these are within their min."""
    small = two(pod("own", 3, namespace="a", nominated="n1", priority=5))
    assert not small.filter(pod("p", 4, namespace="a", priority=9)).refused
    assert small.filter(pod("p", 4, namespace="a", priority=5)).refused
    small = two(pod("other", 3, namespace="b", nominated="n1", priority=1))
    assert small.filter(pod("p", 4, namespace="a", priority=9)).refused
    assert not small.filter(pod("p", 1, namespace="a", priority=9)).refused
    small.see(pod("b-more", 7, namespace="b", node="n1"))
    small.gone(pod("a-runs", 12, namespace="a"))
    assert not small.filter(pod("p", 9, namespace="a", priority=9)).refused


@pytest.mark.scenario("EQ-22")
@pytest.mark.parametrize("priority", [1, 10])
def test_what_is_guaranteed_to_a_nominated_pod_stays_beside_a_more_important_one(priority: int) -> None:
    """Namespace b uses 8 of its min of 10, and that its other pod of 4 is nominated does not change it."""
    small = two(
        pod("b-more", 4, namespace="b", node="n1"),
        pod("first", 4, namespace="b", nominated="n1", priority=priority),
        pod("second", 2, namespace="b", nominated="n1", priority=1),
    )
    small.gone(pod("a-runs", 12, namespace="a"))
    small.see(pod("a-few", 4, namespace="a", node="n1"))
    assert not small.filter(pod("p", 2, namespace="a", priority=5)).refused
    assert small.filter(pod("p", 3, namespace="a", priority=5)).refused


@pytest.mark.scenario("EQ-22")
def test_a_pod_has_to_fit_in_the_quotas_of_both_families() -> None:
    small = two(quota("team", 0, 100), pod("runs", 99, "team", node="n1"), runtime=False)
    assert small.why(pod("p", 2, "team", namespace="a")) == "elastic quota team: no capacity in cpu"
    assert small.why(pod("p", 5, "team", namespace="a")) == (
        "elastic quota team: no capacity in cpu; "
        "elastic quota a/quota: no capacity in cpu within the mins of all quotas"
    )
    # A label leads to another Koordinator quota, and never out of the quota of the namespace.
    assert small.why(pod("p", 9, "koordinator-system-quota", namespace="a")) == (
        "elastic quota a/quota: no capacity in cpu"
    )


def test_the_oldest_quota_of_a_namespace_is_used() -> None:
    younger = of("a", 99, 99, name="younger", uid="0", created="2026-02-01T00:00:00Z")
    small = two(younger)
    assert small.filter(pod("p", 9, namespace="a")).refused
    known = namespace_quota.namespaces(small.snapshot.objects)
    assert known.unused == {"a/younger": "its namespace has the older quota quota"}
    small.take(NAMESPACE_QUOTAS.gone("a", "quota", "uid-a"))
    assert not small.filter(pod("p", 9, namespace="a")).refused
    check(small)


def test_a_namespace_is_not_counted_without_a_quota() -> None:
    small = two()
    small.take(NAMESPACE_QUOTAS.gone("b", "quota", "uid-b"))
    assert (used(small, "b"), used(small, namespace_counts.ALL)) == (0, 12)
    assert small.filter(pod("p", 1, namespace="a")).refused, "the 10 of b are no longer guaranteed"
    check(small)


def test_pods_of_an_invalid_quota_are_refused_or_ignored() -> None:
    raw = {
        "metadata": {"namespace": "a", "name": "quota", "uid": "uid-a"},
        "spec": {"max": {"cpu": "-1"}, "min": {"cpu": "4"}},
    }
    invalid = NAMESPACE_QUOTAS.decode(msgspec.json.encode(raw))
    assert two(invalid).why(pod("p", namespace="a")) == (
        "elastic quota a/quota: invalid: spec.max.cpu is negative: -1"
    )
    assert not two(invalid, invalid_quota="ignore").filter(pod("p", 99, namespace="a")).refused


@pytest.mark.parametrize("fields", [("min", "max"), ("min",)])
def test_a_request_that_is_counted_in_part_is_refused(fields: tuple[str, ...]) -> None:
    large = {field: {"cpu": 10 * CORE, "memory": 5 * 1024 * GIB} for field in fields}
    small = cluster(node("n1", 100), of("a", 10, 20, **large))
    assert not small.filter(pod("p", 1, namespace="a", memory=4 * 1024)).refused
    assert small.why(pod("p", 1, namespace="a", memory=8 * 1024)) == (
        "elastic quota a/quota: requests of more than 4Ti of memory cannot be counted"
    )
    assert not small.filter(pod("p", 1, namespace="b", memory=8 * 1024)).refused
    assert not two().filter(pod("p", 1, namespace="a", memory=8 * 1024)).refused


def test_with_strict_resources_every_resource_of_a_quota_is_tested() -> None:
    full = of("a", 10, 20, max={"cpu": 20 * CORE, "memory": GIB})
    things: tuple[scheduling_driver.Thing, ...] = (full, pod("over", 1, namespace="a", node="n1", memory=2))
    assert not two(*things).filter(pod("p", 1, namespace="a")).refused
    assert two(*things, strict_resources=True).why(pod("p", 1, namespace="a")) == (
        "elastic quota a/quota: no capacity in memory"
    )


def woken(small: scheduling_driver.Cluster, event: events.AnyEvent) -> list[str]:
    before = small.snapshot
    small.take(event)
    found = ElasticQuota().wake(before, small.snapshot, (event,))
    return [] if found is None else [f"{one.name}: {found.message}" for one in found.pods]


def test_pods_wake_when_any_min_rises_and_no_more_than_fit() -> None:
    waiting: list[model.Pod] = [pod(f"p{n}", 3, namespace="a", priority=n) for n in range(3)]
    small = two(pod("a-more", 4, namespace="a", node="n1"), *waiting)
    assert small.filter(waiting[0]).refused
    raised = of("b", 13, 20)
    assert woken(small, NAMESPACE_QUOTAS.observed(raised)) == ["p2: elastic quota a/quota has capacity again"]
    assert woken(small, NAMESPACE_QUOTAS.gone("a", "quota", "uid-a")) == [
        f"p{n}: elastic quota a/quota has capacity again" for n in (2, 1, 0)
    ]


# -- the view ------------------------------------------------------------------------------------


def shown(small: scheduling_driver.Cluster, name: str) -> object:
    """What `sigsquotas/NAMESPACE/NAME` answers about a quota."""
    (served,) = (served for served in small.plugins.shows if served.name == "ElasticQuota")
    (endpoint,) = (one for one in served.shown().endpoints if one.path == "sigsquotas/<namespace>/<name>")
    namespace, _, quota_name = name.partition("/")
    return endpoint.handle(small.snapshot, {"namespace": namespace, "name": quota_name})


def test_the_view_has_what_a_namespace_uses_borrows_and_may_still_use() -> None:
    """a uses 12 of 10 to 20 and b 4, so of the mins, 20, all may use 4 more."""
    small = two(of("a", 99, 99, name="younger", uid="0", created="2026-02-01T00:00:00Z"))
    assert shown(small, "a/quota") == {
        "name": "quota",
        "namespace": "a",
        "valid": True,
        "errors": [],
        "warnings": [],
        "min": {"cpu": "10"},
        "max": {"cpu": "20"},
        "used": {"cpu": "12"},
        "borrowed": {"cpu": "2"},
        "headroom": {"cpu": "4"},
        "allUsed": {"cpu": "16"},
        "allMin": {"cpu": "20"},
    }
    younger = shown(small, "a/younger")
    assert isinstance(younger, dict)
    assert (younger["valid"], younger["used"], younger["headroom"]) == (False, {"cpu": "0"}, {})
    assert younger["errors"] == ["its namespace has the older quota quota"]
    assert shown(small, "b/none") is None


def lending(**arguments: bool | str) -> scheduling_driver.Cluster:
    """Namespace a uses 14 cores, its min is 10; so b, which uses 4 of 10, has 2 left. Nodes have capacity."""
    return cluster(
        *(node(name, 20, allocatable={"cpu": 20 * CORE, "pods": 110}) for name in ("n1", "n2")),
        of("a", 10, 20),
        of("b", 10, 20),
        pod("a-large", 8, namespace="a", node="n1", priority=9),
        pod("a-small", 2, namespace="a", node="n1", priority=5),
        pod("a-tiny", 1, namespace="a", node="n2", priority=9),
        pod("a-late", 3, namespace="a", node="n2", priority=20),
        pod("b-runs", 2, namespace="b", node="n1"),
        pod("b-low", 2, namespace="b", node="n2"),
        **arguments,
    )


def asking(cpu: int, namespace: str = "b", policy: str = "PreemptLowerPriority") -> model.Pod:
    return pod("asks", cpu, namespace=namespace, priority=10, preemption_policy=policy)


def view(small: scheduling_driver.Cluster, one: model.Pod) -> dict[str, str]:
    """Node -> the pods to reclaim there."""
    found = reclaimable_pods.evictions(small.snapshot, one, ElasticQuota())
    return {name: " ".join(victim.name for victim in eviction.victims) for name, eviction in found.items()}


@pytest.mark.scenario("EQ-25")
def test_the_least_important_pods_with_which_others_exceed_their_min_are_shown() -> None:
    small = lending()
    assert view(small, asking(2)) == {}  # admitted
    assert view(small, asking(3)) == {"n1": "a-small", "n2": "a-tiny"}
    assert view(small, asking(5)) == {"n1": "a-large", "n2": "a-late"}  # of any priority
    assert view(small, asking(6)) == {"n1": "a-large", "n2": "a-late a-tiny"}
    assert view(small, asking(7)) == {}  # beyond the min of b
    small.see(of("c", 4, 4), pod("c-low", 3, namespace="c", node="n1"))
    assert view(small, asking(5)) == {"n1": "a-small", "n2": "a-late"}  # not of a namespace within its min
    assert view(small, asking(3, "a")) == {}
    assert view(small, asking(3, policy="Never")) == {}


@pytest.mark.scenario("EQ-25")
def test_no_pod_is_reclaimed_of_a_namespace_whose_min_is_unreadable() -> None:
    small = lending()
    small.see(of("spare", 10, 10))
    small.see(of("a", 10, 20, min={}))
    assert view(small, asking(3)) != {}, "a min that is left out is zero"
    small.see(of("a", 10, 20, min={}, errors=("spec.min is not an object",)))
    assert view(small, asking(3)) == {}


@pytest.mark.scenario("EQ-25")
@pytest.mark.parametrize("reclaim", [False, True])
def test_a_preemption_reclaims_pods_only_if_so_configured(reclaim: bool) -> None:
    small = lending(reclaim=reclaim)
    base = cycles.cycle(asking(5), frozenset(("n2",)), small.snapshot)
    (low,) = [one for one in small.snapshot.on("n2") if one.name == "b-low"]
    answer = offers.judge(small.plugins, base, {"n2": [low.uid]})
    if not reclaim:
        reason = "elastic quota b/quota: no capacity in cpu within the mins of all quotas"
        assert answer.dropped == {"n2": reason}
        return
    assert [one.name for one in answer.kept["n2"].added] == ["a-tiny"]


@pytest.mark.scenario("EQ-25")
def test_no_pod_is_reclaimed_that_is_still_being_bound() -> None:
    small = lending(reclaim=True)
    (low,) = [one for one in small.snapshot.on("n2") if one.name == "b-low"]
    (tiny,) = [one for one in small.snapshot.on("n2") if one.name == "a-tiny"]
    waiting = msgspec.structs.replace(tiny, node="", phase="Pending")
    world = small.snapshot
    for event in (events.PodSeen(pod=waiting), events.placed(waiting, "n2")):
        world = projections.project(world, event)
    base = cycles.cycle(asking(5), frozenset(("n2",)), world)
    answer = offers.judge(small.plugins, base, {"n2": [low.uid]})
    assert answer.dropped == {"n2": "a pod that would have to go is still being bound"}


@pytest.mark.scenario("EQ-25")
def test_no_more_pods_are_reclaimed_while_those_before_terminate() -> None:
    """Namespace b exceeds its min by one pod: evicting another one would take what it is guaranteed."""
    borrowed = [pod(f"b-{at}", 4, namespace="b", node=f"n{at}", priority=500) for at in (1, 2)]
    low = [pod(f"low-{at}", 4, namespace="free", node=f"n{at}") for at in (1, 2)]
    asking_4 = pod("p", 4, namespace="a", priority=100)
    small = cluster(
        *(node(name, 8, allocatable={"cpu": 8 * CORE, "pods": 110}) for name in ("n1", "n2")),
        of("a", 4, 8),
        of("b", 4, 8),
        *low,
        *borrowed,
        asking_4,
        reclaim=True,
    )

    def answer(name: str, victim: model.Pod) -> offers.PreemptAnswer:
        base = cycles.cycle(asking_4, frozenset((name,)), small.snapshot)
        return offers.judge(small.plugins, base, {name: [victim.uid]})

    assert view(small, asking_4) == {"n1": "b-1", "n2": "b-2"}
    assert [one.name for one in answer("n1", low[0]).kept["n1"].added] == ["b-1"]
    small.see(msgspec.structs.replace(borrowed[0], terminating=True))
    assert not answer("n2", low[1]).kept
    assert view(small, asking_4) == {}, "as much is shown as is evicted"
