"""The same call of preempt again, at another replica, and beside other calls."""

import json
from concurrent import futures

import pytest

from app.api.extender import verb_handlers
from app.domain import model
from app.verbs.explain import explanations
from app.verbs.preemption import offers
from tests.support.decisions import configured
from tests.support.extender import replicas
from tests.support.store import materialised

NODES = ("h1", "h2", "m1", "m2")


def called(shop: replicas.Cluster, one: replicas.Replica, pod: model.Pod, offer: offers.Offer) -> bytes:
    """The body of the reply to kube-scheduler's call."""
    victims = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in offer.items()
    }
    sent = {"Pod": shop.api.objects.get("pods", (pod.namespace, pod.name)), "NodeNameToMetaVictims": victims}
    handlers = verb_handlers.Extender(one.context, one.clock.monotonic)
    reply = handlers.answer("preempt", json.dumps(sent).encode(), names_limit=1_000_000)
    assert reply.status == 200
    return reply.body


def offered(shop: replicas.Cluster) -> offers.Offer:
    """Nodes with a pod under the policy, of which one on the hosts and two on the members are admitted."""
    offer = {}
    for node in NODES:
        victim = shop.pod(f"web-{node}", {"app": "other"} if node == "h2" else None)
        shop.put(victim, node)
        offer[node] = [victim.uid]
    return offer


def kept(body: bytes) -> set[str]:
    return set(json.loads(body)["NodeNameToMetaVictims"])


@pytest.mark.scenario("PR-42")
def test_the_same_call_gets_the_same_bytes_from_every_replica(shop: replicas.Cluster) -> None:
    """While no call before it is remembered that the log does not show yet."""
    vip, offer = shop.pod("vip", priority=100), offered(shop)
    head = shop.see()
    one, other = shop.replica(), shop.replica()
    first = called(shop, one, vip, offer)
    assert kept(first) == {"h1", "m1", "m2"}
    counts = materialised.counts(one.store)
    assert [called(shop, each, vip, offer) for each in (one, other, shop.replica(), one)] == [first] * 4
    assert (one.snapshot().offset, materialised.counts(one.store)) == (head, counts)


@pytest.mark.scenario("PR-22")
def test_calls_at_once_do_not_affect_each_other(shop: replicas.Cluster) -> None:
    """Those for pods that take nothing from one another, at one replica."""
    offer = offered(shop)
    pods = [shop.pod(f"vip-{number}", priority=100) for number in range(4)]
    shop.see()
    asked = [(pod, {node: offer[node]}) for pod, node in zip(pods, NODES, strict=True)]
    alone = [called(shop, shop.replica(), *question) for question in asked]
    assert [kept(body) for body in alone] == [{"h1"}, set(), {"m1"}, {"m2"}]
    one = shop.replica()
    one.clock.passes = True
    with futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda question: called(shop, one, *question), asked * 5))
    assert together == alone * 5


def test_an_answer_beside_a_preemption_before_is_explained_as_it_was_given(shop: replicas.Cluster) -> None:
    """A victim that goes for another pod counts as gone, and is recorded nevertheless."""
    first, second = (shop.pod(f"vip-{number}", priority=100) for number in range(2))
    offer = offered(shop)
    shop.see()
    one = shop.replica()
    one.clock.passes = True
    at_h1 = {"h1": offer["h1"]}
    assert kept(called(shop, one, first, at_h1)) == {"h1"}
    shop.nominate(first, "h1")
    shop.see()
    assert kept(called(shop, one, second, at_h1)) == set()
    store = one.store
    store.decisions.start()
    store.decisions.stop()
    decision = store.decisions.latest(limit=1)[0]
    assert decision.going == (*offer["h1"],)
    explained = explanations.explain(
        decision, store.decisions, store.histories, configured.by(one.context.plugins, store)
    )
    (refusal,) = explained.trace.refusals
    assert refusal.reason.startswith("workload policy shop/spread: no capacity")
    assert (refusal.nodes, explained.difference) == (frozenset(("h1",)), "")
