"""An internal fault, such as a plugin that raises: the reply of each verb does no harm."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest

from app.api.extender import verb_handlers
from app.domain import model
from app.framework import cycles, registry
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
        assert "internal fault (ZeroDivisionError)" in answer["Error"]
        assert "detail" not in answer["Error"]
    assert faults(verb) == counted + 1
    # Nothing was placed or bound.
    assert (replica.events(after=before), shop.bound(pod)) == ([], "")


def faults(verb: str) -> float:
    answer = "prioritize" if verb == "priority" else verb
    return samples.value("topolog_faults_total", verb=answer)
