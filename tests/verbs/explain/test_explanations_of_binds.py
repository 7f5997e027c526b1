"""Every recorded bind, computed again by explain, equals the reply that was given."""

import json
import random

import pytest

from app.api.extender import verb_handlers
from app.domain import model
from app.simulation.apiserver import faults
from app.store.decisions import records
from app.verbs.explain import explanations
from tests.support.decisions import configured
from tests.support.extender import replicas

BINDING = faults.calls("POST", "/binding")


def bind(replica: replicas.Replica, pod: model.Pod, node: str) -> str:
    """The ``Error`` of the reply, and a record of it, as kube-scheduler's call leaves them."""
    call = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
    answering = verb_handlers.Extender(replica.context, replica.clock.monotonic)
    reply = answering.answer("bind", json.dumps(call).encode(), names_limit=10_000)
    assert reply.status == 200
    error: str = json.loads(reply.body)["Error"]
    return error


def explained(replica: replicas.Replica) -> list[tuple[records.Decision, explanations.Explanation]]:
    """Every record with its explanation, oldest first."""
    store = replica.store
    store.decisions.start()
    store.decisions.stop()
    return [
        (
            one,
            explanations.explain(
                one, store.decisions, store.histories, configured.by(replica.context.plugins, store)
            ),
        )
        for one in reversed(store.decisions.latest(limit=1000))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_every_recorded_bind_is_explained_as_it_was_answered(shop: replicas.Cluster, seed: int) -> None:
    dice, one = random.Random(seed), shop.replica()
    labels = [replicas.WEB, replicas.WEB, {"app": "other"}, {"app": "web"}]
    pods = [shop.pod(f"web-{at}", dice.choice(labels)) for at in range(12)]
    replies = []
    for _ in range(40):
        pod, node = dice.choice(pods), dice.choice(["h1", "h2", "m1", "m2"])
        if dice.random() < 0.6:
            shop.see()
        bound, replied = shop.bound(pod), bind(one, pod, node)
        assert (replied == "") == (shop.bound(pod) == node)
        replies.append((pod, node, replied, bound))
    found = explained(one)
    assert len(found) == len(replies)
    seen: dict[str, int] = {}
    for (pod, node, replied, before), (decision, explanation) in zip(replies, found, strict=True):
        trace = explanation.trace
        seen[decision.outcome] = seen.get(decision.outcome, 0) + 1
        assert (decision.verb, decision.pod.uid, decision.node) == ("bind", pod.uid, node)
        assert (trace.candidates, explanation.chosen) == (frozenset((node,)), node)
        if decision.outcome == "bound":
            assert replied == ""
            # A call that is repeated is answered as the first one was, whatever was appended since.
            assert trace.kept == {node} or before == node
            assert (explanation.difference == "") == (trace.kept == {node})
        elif decision.outcome == "refused":
            assert replied == f"topolog: {trace.refusals[0].reason}"
            assert explanation.difference == ""
        else:
            # Not a matter of policies: the pod was bound elsewhere already.
            assert before not in ("", node)
            assert explanation.difference.endswith(replied)
    assert all(seen[outcome] > 1 for outcome in ("bound", "refused", "error"))


def test_a_refusal_is_explained_at_the_state_that_refused(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    first, second = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    assert bind(other, first, "h1") == ""
    reply = bind(one, second, "h2")
    shop.delete(first)
    shop.see()
    ((decision, explanation),) = [
        found for found in explained(one) if found[0].position.offset and found[0].pod.uid == second.uid
    ]
    assert reply == "topolog: workload policy shop/spread: no capacity on these nodes (host 1/1, member 0/2)"
    assert decision.reasons == {reply.removeprefix("topolog: "): 1}
    assert (explanation.trace.refused, explanation.difference) == (frozenset(("h2",)), "")
    assert [placement.pod for placement in explanation.placements] == [first.key]


def test_a_refusal_of_the_api_server_alone_is_explained_as_such(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=403)
    assert "the API server refused the binding" in bind(one, pod, "h1")
    ((decision, explanation),) = explained(one)
    assert (decision.outcome, explanation.trace.kept) == ("error", frozenset(("h1",)))
    assert "answered with an error: topolog: the API server refused" in explanation.difference


def test_a_repeated_bind_is_explained_by_the_pods_own_placement(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    assert bind(one, pod, "h1") == ""
    shop.api.objects.change(
        "nodes", ("", "h1"), lambda node: node["metadata"]["labels"].update(role="elsewhere") or node
    )
    shop.see()
    assert bind(one, pod, "h1") == ""
    (_, first), (_, again) = explained(one)
    assert (first.difference, first.trace.kept) == ("", frozenset(("h1",)))
    assert again.difference == "the pod already had its placement there; a new one would be refused"
