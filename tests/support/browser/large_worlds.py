"""A large cluster in few events: zones, racks, pods of several sizes, and nodes in every state."""

import collections
from collections.abc import Iterator, Mapping

import msgspec

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support import declared
from tests.support.extender import api_worlds

ZONE, RACK = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
OTHERS = {ZONE: {f"zone-{letter}": 500 for letter in "abc"}, "role": {"host": 1500}}
"""Label -> value -> the quota of the other pods."""
_RACK = 18
_PRESENT = 400


def nodes(number: int) -> Iterator[events.AnyEvent]:
    """Nodes in three zones with racks of 18; some are cordoned, some not ready."""
    for at in range(number):
        seen = api_worlds.node(f"node-{at:05}").node
        labels = {ZONE: f"zone-{'abc'[at % 3]}", RACK: f"rack-{at // 3 // _RACK:03}", "role": "host"}
        yield events.NodeSeen(
            node=msgspec.structs.replace(seen, labels=labels, ready=at % 97 != 5, unschedulable=at % 89 == 7)
        )


def quota(name: str, key: str, values: Mapping[str, int]) -> events.ObjectObserved:
    """A policy for the pods that are not of shop/spread."""
    return declared.observed(
        policy_model.WorkloadPolicy(
            uid=f"uid-{name}",
            namespace="shop",
            name=name,
            topology_key=key,
            selector=model.Selector(labels={"app": "other"}),
            allocations=tuple(policy_model.Allocation(value, most) for value, most in values.items()),
        )
    )


def history(number: int, pods: int) -> list[events.AnyEvent]:
    """Everything listed, the nodes, three policies, and pods, of which every tenth waits."""
    listed = [
        events.Relisted(kind, since="", until="1", reason="start") for kind in sorted(declared.SCHEMA.names)
    ]
    return [
        *listed,
        *nodes(number),
        api_worlds.policy(host=40, member=0),
        *(quota(f"by-{key.rpartition('/')[2]}", key, values) for key, values in OTHERS.items()),
        *(events.PodSeen(pod=pod) for pod in some_pods(0, pods, number)),
    ]


def some_pods(first: int, count: int, number: int) -> Iterator[model.Pod]:
    """Pods on the nodes, with requests from an eighth of a node to all of it."""
    for at in range(first, first + count):
        pod = api_worlds.pod(f"pod-{at}")
        bound = "" if at % 10 == 9 else f"node-{at * 7 % number:05}"
        labels = pod.labels if at % 20 == 0 or not bound else {"app": "other"}
        yield msgspec.structs.replace(
            pod,
            node=bound,
            labels=labels,
            requests={"cpu": 1000 * (1 + at % 8), "memory": 1 << 30},
            phase="Running" if bound else "Pending",
        )


def changes(first: int, number: int, count: int) -> list[events.AnyEvent]:
    """Pods that come, of which the last 400 stay: ``count`` events."""
    found: list[events.AnyEvent] = []
    present: collections.deque[model.Pod] = collections.deque()
    for pod in some_pods(first, count, number):
        found.append(events.PodSeen(pod=pod))
        present.append(pod)
        if len(present) > _PRESENT:
            gone = present.popleft()
            found.append(events.PodGone(gone.uid, gone.namespace, gone.name))
        if len(found) >= count:
            break
    return found[:count]


def append(world: api_worlds.World, happened: list[events.AnyEvent]) -> int:
    """Append events in batches; returns the last offset."""
    last = 0
    for start in range(0, len(happened), 250):
        last = world.append(*happened[start : start + 250])
    return last
