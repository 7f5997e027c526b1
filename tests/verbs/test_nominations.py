"""preempt takes into account what kube-scheduler is about to do after the calls before."""

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.simulation.apiserver import objects
from app.verbs import candidates, decision_reports, filtering, nominations, preempting
from app.verbs.preemption import offers
from tests.support import declared
from tests.support.extender import replicas, small_shops
from tests.support.monitoring import samples

LIMITED = {"quota.scheduling.koordinator.sh/name": "team"}


def placed(shop: replicas.Cluster, name: str, node: str, labels: dict[str, str] | None = None) -> model.Pod:
    pod = shop.pod(name, labels)
    shop.put(pod, node)
    return pod


def containers(cores: int) -> list[objects.Json]:
    return [{"name": "c", "resources": {"requests": {"cpu": str(cores)}}}]


def refused(one: replicas.Replica, pod: model.Pod, *nodes: str) -> bool:
    """Whether filter refuses the nodes; reported as one of kube-scheduler."""
    one.snapshot()
    offered = candidates.Candidates(nodes)
    answer = filtering.run(one.context, pod, offered)
    decision_reports.report(one.context, "filter", decision_reports.filtered(answer, offered), 0.0)
    return not answer.trace.kept


def preempt(one: replicas.Replica, pod: model.Pod, offer: offers.Offer) -> tuple[set[str], set[str]]:
    """The nodes that are kept, and why the others are not."""
    answer = preempting.run(one.context, pod, offer)
    return set(answer.kept), set(answer.dropped.values())


def nominated(shop: replicas.Cluster, pod: model.Pod, node: str) -> model.Pod:
    """The pod as kube-scheduler sends it from then on."""
    shop.nominate(pod, node)
    return msgspec.structs.replace(pod, nominated=node)


@pytest.mark.scenario("PR-48")
def test_a_burst_of_preemptors_evicts_for_those_that_fit(shop: replicas.Cluster) -> None:
    counted, other = placed(shop, "web-1", "h1"), placed(shop, "web-2", "m1")
    first, second = shop.pod("first", priority=100), shop.pod("second", priority=100)
    offer = {"h1": [counted.uid], "m1": [other.uid]}
    shop.see()

    def nominate() -> None:
        shop.nominate(first, "h1")
        shop.see()

    one = small_shops.while_waiting(shop.replica(), nominate)
    host = {"h1": [counted.uid]}
    assert preempt(one, first, host) == ({"h1"}, set())
    # Neither the nomination nor the eviction is recorded when kube-scheduler asks about the next pod.
    kept, reasons = preempt(one, second, host)
    assert not kept
    assert [reason.partition(" (")[0] for reason in reasons] == [
        "workload policy shop/spread: no capacity on these nodes"
    ]
    assert preempt(one, second, offer)[0] == {"m1"}


@pytest.mark.scenario("PR-48", "PR-50")
def test_a_pod_that_is_recorded_late_is_judged_with_the_grants_before(shop: replicas.Cluster) -> None:
    counted, first = placed(shop, "web-1", "h1"), shop.pod("first", priority=100)
    blocking = shop.pod("blocking", priority=100)
    shop.nominate(blocking, "h1")
    shop.see()
    second = shop.pod("second", priority=100)
    offer = {"h1": [counted.uid]}

    def unblock() -> None:
        shop.delete(blocking)
        shop.see()

    def nominate() -> None:
        shop.nominate(first, "h1")
        shop.see()

    one = small_shops.while_waiting(shop.replica(), unblock, nominate)
    one.context.preemptions.grant(first.uid, {"h1": (counted.uid,)}, one.context.monotonic())
    assert preempt(one, second, offer)[0] == set()


@pytest.mark.scenario("PR-48")
def test_a_grant_counts_before_its_pod_is_recorded(shop: replicas.Cluster) -> None:
    counted = placed(shop, "web-1", "h1")
    second = shop.pod("second", priority=100)
    shop.see()
    first, offer = shop.pod("first", priority=100), {"h1": [counted.uid]}

    def record() -> None:
        shop.nominate(first, "h1")
        shop.see()

    one = small_shops.while_waiting(shop.replica(), record)
    assert preempt(one, first, offer) == ({"h1"}, set())
    assert preempt(one, second, offer)[0] == set()


@pytest.mark.parametrize("recorded", [True, False])
def test_no_call_waits_longer_than_it_may(shop: replicas.Cluster, recorded: bool) -> None:
    """For the record of the pod, or of a victim if the pod is recorded."""
    counted = placed(shop, "other", "h2", {"app": "other"})
    placed(shop, "web-1", "h1")
    shop.see()
    one, vip = small_shops.while_waiting(shop.replica()), shop.pod("vip", priority=100)
    if recorded:
        shop.see()
    offer = {"h2": ["unknown" if recorded else counted.uid]}
    for _ in range(2):  # The second call does not wait.
        assert preempt(one, vip, offer)[0] == set()
        assert sum(one.clock.slept) == pytest.approx(preempting.WAIT, abs=2 * preempting.PAUSE)


@pytest.mark.scenario("PR-36")
def test_a_victim_that_is_recorded_late_is_waited_for(shop: replicas.Cluster) -> None:
    vip = shop.pod("vip", priority=100)
    shop.see()
    offer = {"h1": [placed(shop, "web-1", "h1").uid]}
    assert preempt(small_shops.while_waiting(shop.replica(), shop.see), vip, offer) == ({"h1"}, set())


@pytest.mark.scenario("PR-36")
def test_no_call_waits_for_a_victim_while_another_node_is_kept(shop: replicas.Cluster) -> None:
    vip, counted = shop.pod("vip", priority=100), placed(shop, "web-1", "h1")
    shop.see()
    one = small_shops.while_waiting(shop.replica())
    offer = {"h1": [counted.uid], "m1": ["unknown"]}
    assert preempt(one, vip, offer) == ({"h1"}, {offers.UNRECORDED})
    assert one.clock.slept == []


@pytest.mark.scenario("PR-48")
def test_a_grant_that_kube_scheduler_does_not_use_is_forgotten(shop: replicas.Cluster) -> None:
    counted = placed(shop, "web-1", "h1")
    first, second = shop.pod("first", priority=100), shop.pod("second", priority=100)
    offer = {"h1": [counted.uid]}
    shop.see()
    one = shop.replica()
    assert preempt(one, first, offer) == ({"h1"}, set())
    one.clock.ahead += 2 * nominations.NOMINATION
    assert preempt(one, second, offer) == ({"h1"}, set())
    assert not [grant for grant in one.context.preemptions.grants() if grant.uid == first.uid]


@pytest.mark.scenario("PR-49")
@pytest.mark.parametrize("recorded", [True, False])
def test_a_pod_waits_for_the_pods_that_were_evicted_for_it(shop: replicas.Cluster, recorded: bool) -> None:
    """Their quota counts them until they are gone, so that filter refuses the nominated node meanwhile."""
    small_shops.quota(shop, "team", 2)
    one = shop.replica(beside=(ElasticQuota,))
    cores = containers(1)
    victim, unrelated = (shop.pod(name, LIMITED, containers=cores) for name in ("old-1", "old-2"))
    vip = shop.pod("vip", LIMITED, priority=100, containers=cores)
    shop.put(victim, "h1")
    shop.put(unrelated, "h2")
    shop.see()
    assert preempt(one, vip, {"h1": [victim.uid]}) == ({"h1"}, set())
    vip = nominated(shop, vip, "h1")
    if recorded:
        shop.evict(victim)
    shop.see()
    before = samples.value("topolog_preemptions_lost_total")
    assert refused(one, vip, "h1")
    assert preempt(one, vip, {"h2": [unrelated.uid]}) == (set(), {preempting.AWAITS_VICTIMS})
    assert samples.value("topolog_preemptions_lost_total") == before
    shop.delete(victim)
    shop.see()
    assert not refused(one, vip, "h1")


@pytest.mark.scenario("PR-49")
def test_a_gang_evicts_no_more_pods_than_it_needs(shop: replicas.Cluster) -> None:
    """Its nominated nodes take it once the victims of all members are gone, of which some end earlier."""
    one = shop.replica(beside=(Coscheduling,))
    small_shops.nodes(shop, ("a", "b", "c"))
    victims = {name: shop.pod(f"old-{name}", {}, containers=containers(80)) for name in ("a", "b", "c")}
    members = gang_of_two(shop)
    for name, victim in victims.items():
        shop.put(victim, name)
    shop.see()
    offer = {name: [victim.uid] for name, victim in victims.items()}
    assert preempt(one, members[0], offer) == ({"a", "b", "c"}, set())
    first = nominated(shop, members[0], "a")
    shop.evict(victims["a"])
    shop.see()
    assert preempt(one, members[1], {name: offer[name] for name in "bc"}) == ({"b", "c"}, set())
    nominated(shop, members[1], "b")
    shop.delete(victims["a"])
    shop.see()  # The eviction for the second member is not recorded yet.
    assert refused(one, first, "a")
    assert preempt(one, first, {"c": offer["c"]}) == (set(), {preempting.AWAITS_VICTIMS})


def gang_of_two(shop: replicas.Cluster) -> list[model.Pod]:
    """Two members that each need a node without its pod."""
    group = {"metadata": {"namespace": "shop", "name": "gang"}, "spec": {"minMember": 2}}
    shop.api.objects.create("sigspodgroups", group)
    labels = {membership.SIGS_LABEL: "gang"}
    return [shop.pod(f"member-{at}", labels, priority=100, containers=containers(80)) for at in (0, 1)]


def running(shop: replicas.Cluster, *names: str) -> dict[str, model.Pod]:
    """Put a pod on each node."""
    pods = {name: shop.pod(f"old-{name}", {}, containers=containers(80)) for name in names}
    for name, pod in pods.items():
        shop.put(pod, name)
    return pods


def evictions(pods: dict[str, model.Pod]) -> offers.Offer:
    return {name: [pod.uid] for name, pod in pods.items()}


def fill(shop: replicas.Cluster, *names: str) -> offers.Offer:
    """Put a pod on each node; their evictions."""
    return evictions(running(shop, *names))


@pytest.mark.scenario("PR-50")
def test_the_last_member_of_a_gang_is_judged_with_all_others(shop: replicas.Cluster) -> None:
    """kube-scheduler has seen it earlier than the log, and would not try any member again."""
    small_shops.nodes(shop, ("a", "b"))
    offer = fill(shop, "a", "b")
    shop.see()
    members = gang_of_two(shop)
    one = small_shops.while_waiting(shop.replica(beside=(Coscheduling,)), shop.see)
    assert preempt(one, members[1], offer) == ({"a", "b"}, set())


@pytest.mark.scenario("PR-51")
def test_a_gang_is_judged_on_nodes_that_the_log_has_cordoned(shop: replicas.Cluster) -> None:
    """kube-scheduler has seen earlier than the log that they are uncordoned."""
    small_shops.nodes(shop, ("a", "b"))
    offer, members = fill(shop, "a", "b"), gang_of_two(shop)
    small_shops.cordon(shop, "a", "b")
    shop.see()
    one = small_shops.while_waiting(shop.replica(beside=(Coscheduling,)), lambda: None, shop.see)
    small_shops.cordon(shop, "a", "b", cordoned=False)
    assert preempt(one, members[1], offer) == ({"a", "b"}, set())


@pytest.mark.scenario("PR-51")
def test_a_gang_is_judged_on_nodes_that_the_log_does_not_have(shop: replicas.Cluster) -> None:
    small_shops.nodes(shop, ("a",))
    shop.see()
    small_shops.nodes(shop, ("b",))
    offer, members = fill(shop, "a", "b"), gang_of_two(shop)
    shop.see(declared.SCHEMA.names - {"nodes"})
    one = small_shops.while_waiting(shop.replica(beside=(Coscheduling,)), lambda: None, shop.see)
    assert preempt(one, members[1], offer) == ({"a", "b"}, set())


@pytest.mark.scenario("PR-51")
def test_nodes_that_stay_cordoned_are_not_waited_for_by_every_call(shop: replicas.Cluster) -> None:
    """kube-scheduler may run without the filter that refuses them."""
    small_shops.nodes(shop, ("a", "b"))
    offer, members = fill(shop, "a", "b"), gang_of_two(shop)
    small_shops.cordon(shop, "a", "b")
    shop.see()
    unrecorded = shop.pod("other", {membership.SIGS_LABEL: "gang"}, priority=100, containers=containers(80))
    one = small_shops.while_waiting(shop.replica(beside=(Coscheduling,)))

    def waits(member: model.Pod) -> bool:
        one.clock.slept.clear()
        assert preempt(one, member, offer)[0] == set()
        return bool(one.clock.slept)

    assert [waits(member) for member in members] == [True, False]
    # Calls still wait for pods.
    assert waits(unrecorded)


def test_no_pod_is_evicted_for_one_whose_binding_may_be_carried_out(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    vip, unrelated = shop.pod("vip", priority=100), placed(shop, "other", "h2", {"app": "other"})
    shop.see()
    assert other.bind(vip, "h1") == ""
    assert preempt(one, vip, {"h2": [unrelated.uid]}) == (set(), {preempting.MAY_BE_BOUND})


@pytest.mark.scenario("PR-49")
def test_members_evict_beside_the_victims_of_others_that_still_terminate(shop: replicas.Cluster) -> None:
    """Else each would wait for the one before."""
    one = shop.replica(beside=(Coscheduling,))
    small_shops.nodes(shop, ("a", "b"))
    old, members = running(shop, "a", "b"), gang_of_two(shop)
    offer = evictions(old)
    shop.see()
    assert preempt(one, members[0], offer) == ({"a", "b"}, set())
    nominated(shop, members[0], "a")
    shop.evict(old["a"])
    shop.see()
    assert preempt(one, members[1], {"b": offer["b"]}) == ({"b"}, set())


@pytest.mark.scenario("PR-49")
def test_no_pod_is_evicted_for_a_member_that_fits_beside_the_victims_of_others(
    shop: replicas.Cluster,
) -> None:
    one = shop.replica(beside=(Coscheduling,))
    small_shops.nodes(shop, ("a", "b", "free"))
    old, members = running(shop, "a", "b"), gang_of_two(shop)
    offer = evictions(old)
    shop.see()
    assert refused(one, members[0], "free")
    assert preempt(one, members[0], offer) == ({"a", "b"}, set())
    nominated(shop, members[0], "a")
    shop.evict(old["a"])
    shop.see()
    assert refused(one, members[1], "free")
    assert preempt(one, members[1], {"b": offer["b"]}) == (set(), {preempting.AWAITS_OTHERS})


@pytest.mark.scenario("PR-49")
def test_evictions_for_a_member_of_a_gang_that_does_not_start_become_rare(shop: replicas.Cluster) -> None:
    """What is created again may use the freed node, as pods of another scheduler do."""
    one = shop.replica(beside=(Coscheduling,))
    small_shops.nodes(shop, ("a", "b"))
    old, members = running(shop, "a", "b"), gang_of_two(shop)
    shop.see()
    for pause in (60, 120, 240):
        assert preempt(one, members[0], evictions(old)) == ({"a", "b"}, set())
        assert preempt(one, members[0], evictions(old)) == ({"a", "b"}, set()), "no pod was evicted"
        shop.delete(old["a"])
        old |= running(shop, "a")
        shop.see()
        assert preempt(one, members[0], evictions(old)) == (set(), {preempting.EVICTED_BEFORE})
        one.clock.ahead += pause - 1
        assert preempt(one, members[0], evictions(old)) == (set(), {preempting.EVICTED_BEFORE})
        one.clock.ahead += 1


@pytest.mark.scenario("PR-49")
@pytest.mark.parametrize(("gone", "paused"), [("a", True), ("b", False)])
def test_evictions_on_the_nominated_node_are_those_for_the_member(
    shop: replicas.Cluster, gone: str, paused: bool
) -> None:
    """On a node that kube-scheduler has not chosen for the member, it may evict for another one."""
    one = shop.replica(beside=(Coscheduling,))
    small_shops.nodes(shop, ("a", "b"))
    old, members = running(shop, "a", "b"), gang_of_two(shop)
    shop.see()
    assert preempt(one, members[0], evictions(old)) == ({"a", "b"}, set())
    first = nominated(shop, members[0], "a")
    shop.delete(old[gone])
    old |= running(shop, gone)
    shop.see()
    assert (preempt(one, first, evictions(old)) == (set(), {preempting.EVICTED_BEFORE})) == paused


def test_a_pod_alone_evicts_again_at_once(shop: replicas.Cluster) -> None:
    """kube-scheduler itself waits while its victims terminate."""
    one, vip = shop.replica(beside=(Coscheduling,)), shop.pod("vip", {}, priority=100)
    small_shops.nodes(shop, ("a",))
    for _ in range(2):
        old = running(shop, "a")
        shop.see()
        assert preempt(one, vip, evictions(old)) == ({"a"}, set())
        shop.delete(old["a"])


@pytest.mark.scenario("PR-49")
def test_a_pod_waits_until_the_log_shows_that_its_victims_are_gone(shop: replicas.Cluster) -> None:
    """kube-scheduler offers its nominated node, and would clear the nomination if that were refused."""
    small_shops.nodes(shop, ("a", "b"))
    old, members = running(shop, "a", "b"), gang_of_two(shop)
    shop.delete(old["b"])
    first = nominated(shop, members[0], "a")
    shop.evict(old["a"])
    shop.see()
    plain = shop.replica(beside=(Coscheduling,))
    started = len(plain.clock.slept)
    assert refused(plain, members[1], "b"), "the node is not that of a nomination"
    assert len(plain.clock.slept) == started
    stuck = small_shops.while_waiting(shop.replica(beside=(Coscheduling,)))
    before = stuck.clock.monotonic()
    assert refused(stuck, first, "a")
    assert stuck.clock.monotonic() - before == pytest.approx(filtering.FREED, abs=2 * filtering.PAUSE)
    plain = shop.replica(beside=(Coscheduling,))
    one = small_shops.while_waiting(plain, lambda: shop.delete(old["a"]), shop.see)
    assert not refused(one, first, "a")
