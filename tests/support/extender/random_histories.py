"""Random histories of a small cluster with zones and racks, from a seed."""

import dataclasses
import random
from collections.abc import Iterator

import msgspec

from app.domain import events, model
from tests.support import declared
from tests.support.extender import api_worlds


def history(seed: int, length: int) -> list[events.AnyEvent]:
    """Nodes that come, change and go, pods that wait, are placed, bound and deleted, and a policy."""
    return list(_History(random.Random(seed)).happen(length))


@dataclasses.dataclass
class _History:
    random: random.Random
    nodes: dict[str, model.Node] = dataclasses.field(default_factory=dict)
    pods: dict[str, model.Pod] = dataclasses.field(default_factory=dict)
    made: int = 0

    def happen(self, length: int) -> Iterator[events.AnyEvent]:
        for kind in sorted(declared.SCHEMA.names):
            yield events.Relisted(kind, since="", until="1", reason="start")
        yield api_worlds.policy(host=2, member=1)
        for _ in range(length):
            yield self._next()

    def _next(self) -> events.AnyEvent:
        choices = [self._node, self._new_pod]
        if self.nodes:
            choices += [self._changed, self._changed]
        if len(self.nodes) > 4:
            choices.append(self._node_gone)
        if self.pods:
            choices.append(self._pod_gone)
        if self.nodes and any(not pod.node for pod in self.pods.values()):
            choices += [self._bound, self._bound, self._placed]
        if self.random.random() < 0.1:
            choices = [self._policy]
        return self.random.choice(choices)()

    def _policy(self) -> events.AnyEvent:
        return api_worlds.policy(host=self.random.randint(0, 4), member=self.random.randint(0, 3))

    def _node(self) -> events.AnyEvent:
        self.made += 1
        pick = self.random.choice
        seen = api_worlds.node(
            f"n{self.made}",
            role=pick(("host", "member")),
        ).node
        labels = {"role": seen.labels["role"]}
        if self.random.random() < 0.9:
            labels["topology.kubernetes.io/zone"] = pick("ab")
        if self.random.random() < 0.8:
            labels["topology.kubernetes.io/rack"] = pick(("r1", "r2", "r3"))
        node = msgspec.structs.replace(seen, labels=labels, allocatable={**seen.allocatable, "cpu": 2000})
        return self._seen(node)

    def _seen(self, node: model.Node) -> events.AnyEvent:
        self.nodes[node.name] = node
        return events.NodeSeen(node=node)

    def _changed(self) -> events.AnyEvent:
        node = self.nodes[self.random.choice(sorted(self.nodes))]
        match self.random.randrange(3):
            case 0:
                return self._seen(msgspec.structs.replace(node, ready=not node.ready))
            case 1:
                return self._seen(msgspec.structs.replace(node, unschedulable=not node.unschedulable))
            case _:
                moved = {**node.labels, "topology.kubernetes.io/rack": self.random.choice(("r1", "r4"))}
                return self._seen(msgspec.structs.replace(node, labels=moved))

    def _node_gone(self) -> events.AnyEvent:
        node = self.nodes.pop(self.random.choice(sorted(self.nodes)))
        return events.NodeGone(name=node.name, uid=node.uid)

    def _new_pod(self) -> events.AnyEvent:
        self.made += 1
        pod = api_worlds.pod(f"p{self.made}")
        self.pods[pod.uid] = pod
        return events.PodSeen(pod=pod)

    def _waiting(self) -> model.Pod:
        free = sorted(uid for uid, pod in self.pods.items() if not pod.node)
        return self.pods[self.random.choice(free)]

    def _bound(self) -> events.AnyEvent:
        pod = msgspec.structs.replace(
            self._waiting(), node=self.random.choice(sorted(self.nodes)), phase="Running"
        )
        self.pods[pod.uid] = pod
        return events.PodSeen(pod=pod)

    def _placed(self) -> events.AnyEvent:
        return events.placed(self._waiting(), self.random.choice(sorted(self.nodes)))

    def _pod_gone(self) -> events.AnyEvent:
        pod = self.pods.pop(self.random.choice(sorted(self.pods)))
        return events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)
