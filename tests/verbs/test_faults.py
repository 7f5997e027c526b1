"""A fault of ours, such as a plugin that raises: each verb's reply is one that does no harm."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest
from prometheus_client import REGISTRY

from app.api import extender
from app.domain import model
from app.framework import cycles, registry
from tests.verbs import replicas


@dataclass(frozen=True, slots=True)
class Faulty:
    """Is interested in every pod, and fails at whatever it is asked."""

    name: ClassVar[str] = "Faulty"

    def interested(self, pod: model.Pod) -> bool:
        return True

    def filter(self, cycle: cycles.Cycle) -> NoReturn:
        raise ZeroDivisionError("detail")

    def score(self, cycle: cycles.Cycle) -> NoReturn:
        raise ZeroDivisionError("detail")


@pytest.mark.parametrize("verb", ["filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt"])
def test_a_fault_is_answered_in_the_verbs_own_form(shop: replicas.Cluster, verb: str) -> None:
    replica, pod = shop.replica(), shop.pod("web-1")
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
    reply = extender.Extender(context, replica.clock.monotonic).answer(
        verb, json.dumps(body).encode(), names_limit=100_000
    )
    told = json.loads(reply.body)
    assert reply.status == 200
    if verb.startswith("priorit"):
        assert {one["Host"]: one["Score"] for one in told} == {"h1": 0, "m1": 0}
    elif verb == "preempt":
        assert told == {"NodeNameToMetaVictims": {}}
    else:
        assert "internal fault (ZeroDivisionError)" in told["Error"]
        assert "detail" not in told["Error"]
    assert faults(verb) == counted + 1
    # Nothing was promised or bound.
    assert (replica.events(after=before), shop.bound(pod)) == ([], "")


def faults(verb: str) -> float:
    told = "prioritize" if verb == "priority" else verb
    return REGISTRY.get_sample_value("topolog_faults_total", {"verb": told}) or 0.0
