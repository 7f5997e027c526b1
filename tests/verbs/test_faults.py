"""An internal fault, such as a plugin that raises: the reply of each verb does no harm."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest

from app.api.extender import verb_handlers
from app.domain import model, snapshots, verdicts
from app.framework import cycles, registry
from app.verbs import binding, candidates, errors, filtering, placer, prioritizing
from tests.support.extender import replicas
from tests.support.monitoring import samples


@dataclass(frozen=True, slots=True)
class Faulty:
    """Is interested in every pod, and raises in every method."""

    name: ClassVar[str] = "Faulty"

    def interested(self, pod: model.Pod) -> bool:
        return True

    def filter(self, cycle: cycles.Cycle) -> NoReturn:
        raise ZeroDivisionError("detail")

    def score(self, cycle: cycles.Cycle) -> NoReturn:
        raise ZeroDivisionError("detail")


@pytest.mark.parametrize("verb", ["filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt"])
def test_a_fault_is_answered_in_the_verbs_own_form(shop: replicas.Cluster, verb: str) -> None:
    replica, pod = shop.replica(), shop.pod("web-1", priority=1)
    victim = shop.pod("low")
    shop.put(victim, "h1")
    before = shop.see()
    context = dataclasses.replace(replica.context, plugins=registry.Registry([Faulty()]))
    sent = json.loads(json.dumps(shop.api.objects.get("pods", (pod.namespace, pod.name))))
    body: dict[str, Any] = {
        "Pod": sent,
        "NodeNames": ["h1", "m1"],
        "NodeNameToMetaVictims": {"h1": {"Pods": [{"UID": victim.uid}]}},
        "PodName": pod.name,
        "PodNamespace": pod.namespace,
        "PodUID": pod.uid,
        "Node": "m1",
    }
    counted = faults(verb)
    reply = verb_handlers.Extender(context, replica.clock.monotonic).answer(
        verb, json.dumps(body).encode(), names_limit=100_000
    )
    answer = json.loads(reply.body)
    assert reply.status == 200
    if verb.startswith("priorit"):
        assert {one["Host"]: one["Score"] for one in answer} == {"h1": 0, "m1": 0}
    elif verb == "preempt":
        assert answer == {"NodeNameToMetaVictims": {}}
    else:
        done = "bound" if verb == "bind" else "decided"
        text = f"topolog: plugin Faulty failed in filter (ZeroDivisionError); nothing was {done}"
        assert answer["Error"] == text
        context.decisions.start()
        context.decisions.stop()
        (recorded,) = context.decisions.latest(limit=1)
        assert (recorded.verb, recorded.error) == (verb, text)
    assert faults(verb) == counted + 1
    # Nothing was placed or bound.
    assert (replica.events(after=before), shop.bound(pod)) == ([], "")


@dataclass(frozen=True, slots=True)
class FaultyPreference(Faulty):
    """Filters pods that may pass without it while the store is away."""

    name: ClassVar[str] = "FaultyPreference"

    def soft(self, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
        return True


def test_filter_refuses_a_pod_that_bind_would_refuse(shop: replicas.Cluster) -> None:
    replica, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    context = dataclasses.replace(replica.context, plugins=registry.Registry([FaultyPreference()]))
    failed = r"plugin FaultyPreference failed in filter \(ZeroDivisionError\)"
    with pytest.raises(errors.PluginFailed, match=failed):
        filtering.run(context, pod, candidates.Candidates(("h1", "m1")))
    request = placer.BindRequest(namespace=pod.namespace, name=pod.name, uid=pod.uid, node="m1")
    with pytest.raises(errors.Refused, match=failed):
        binding.run(context, request)


@dataclass(frozen=True, slots=True)
class FaultyScores:
    """Raises in its scores alone."""

    name: ClassVar[str] = "FaultyScores"

    def interested(self, pod: model.Pod) -> bool:
        return True

    def score(self, cycle: cycles.Cycle) -> NoReturn:
        raise ZeroDivisionError("detail")


@dataclass(frozen=True, slots=True)
class Prefers:
    """Prefers one node."""

    node: str
    name: ClassVar[str] = "Prefers"

    def interested(self, pod: model.Pod) -> bool:
        return True

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return verdicts.Rating({7: frozenset((self.node,))})


@pytest.mark.parametrize("node", ["h1", "m1"])
def test_scores_of_a_plugin_that_fails_are_left_out(shop: replicas.Cluster, node: str) -> None:
    replica, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    plugins = registry.Registry([FaultyScores(), Prefers(node)])
    context = dataclasses.replace(replica.context, plugins=plugins)
    offered = candidates.Candidates(("h1", "m1"))
    counted = {verb: faults(verb) for verb in ("prioritize", "filter_onlyone")}
    assert prioritizing.run(context, pod, offered).trace.totals == {7: {node}}
    assert filtering.run_only_one(context, pod, offered).only == node
    assert {verb: faults(verb) for verb in counted} == {verb: was + 1 for verb, was in counted.items()}


def faults(verb: str) -> float:
    answer = "prioritize" if verb == "priority" else verb
    return samples.value("topolog_faults_total", verb=answer)
