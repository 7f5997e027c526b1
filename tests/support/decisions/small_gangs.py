"""Small clusters with gangs; amounts of cpu in cores."""

import msgspec

from app.domain import events, model
from app.framework import capabilities, cycles, pipeline, plans
from app.plugins.coscheduling import admission, gangs, membership, options
from app.plugins.coscheduling.gang_model import KoordinatorPodGroup, NativePodGroup, SigsPodGroup
from app.plugins.coscheduling.plugin import Coscheduling
from app.verbs import nominations
from tests.support.decisions import scheduling_driver

CORE = 1000
ZONE = "topology.kubernetes.io/zone"
RACK = "rack"


def node(name: str, cpu: int = 8, labels: dict[str, str] | None = None, **changed: object) -> model.Node:
    """A node of so many cores, and 110 pods."""
    made = model.Node(
        name=name,
        uid=f"uid-{name}",
        labels=labels or {},
        allocatable={"cpu": cpu * CORE, "pods": 110},
        ready=True,
    )
    return msgspec.structs.replace(made, **changed)


def pod(
    name: str, cpu: int = 1, *, namespace: str = "x", node: str = "", gang: str = "", **changed: object
) -> model.Pod:
    """A pod; with ``gang`` one that names a gang by Koordinator's annotation."""
    made = model.Pod(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        annotations={options.NAME: gang} if gang else {},
        requests={"cpu": cpu * CORE},
        node=node,
        phase="Running" if node else "Pending",
        created="2026-01-01T00:00:00Z",
    )
    return msgspec.structs.replace(made, **changed)


def gang(
    name: str, count: int, cpu: int = 1, *, minimum: int | str = 0, namespace: str = "x", **given: str
) -> list[model.Pod]:
    """Members of a gang that its pods define by Koordinator's annotations; ``given``: further ones."""
    annotations = {
        options.NAME: name,
        options.MINIMUM: str(minimum or count),
        **{f"{options.PREFIX}{key.replace('_', '-')}": value for key, value in given.items()},
    }
    return [
        pod(f"{name}{number}", cpu, namespace=namespace, annotations=annotations) for number in range(count)
    ]


def sigs(name: str, minimum: int, *, namespace: str = "x", **changed: object) -> SigsPodGroup:
    """A PodGroup of the sigs' scheduler plugins."""
    made = SigsPodGroup(uid=f"uid-{namespace}-{name}", namespace=namespace, name=name, minimum=minimum)
    return msgspec.structs.replace(made, **changed)


def native(name: str, minimum: int, *, namespace: str = "x", **changed: object) -> NativePodGroup:
    """A PodGroup of kube-scheduler's own gangs."""
    made = NativePodGroup(uid=f"uid-{namespace}-{name}-n", namespace=namespace, name=name, minimum=minimum)
    return msgspec.structs.replace(made, **changed)


def koordinator(name: str, minimum: int, *, namespace: str = "x", **changed: object) -> KoordinatorPodGroup:
    """Koordinator's PodGroup."""
    made = KoordinatorPodGroup(
        uid=f"uid-{namespace}-{name}-k", namespace=namespace, name=name, minimum=minimum
    )
    return msgspec.structs.replace(made, **changed)


class Cluster(scheduling_driver.Cluster):
    """A cluster in which Coscheduling decides, alone or beside others."""

    def __init__(
        self,
        *things: scheduling_driver.Thing,
        beside: tuple[capabilities.Plugin, ...] = (),
        layers: tuple[str, ...] = (),
    ) -> None:
        configured: list[capabilities.Plugin] = [
            *beside,
            Coscheduling(layers=layers) if layers else Coscheduling(),
        ]
        super().__init__(*things, configured=configured)

    def planned(self, pod: model.Pod, nodes: list[str] | None = None) -> str:
        """The node that filter keeps for the pod; empty if none is kept."""
        kept = self.filter(pod, nodes).kept
        assert len(kept) <= 1
        return next(iter(kept), "")

    def commit(self, pod: model.Pod, node: str) -> dict[str, str]:
        """What a bind commits: pod -> node; empty if it is refused."""
        if self.filter(pod, [node]).refused:
            return {}
        made = self.commitment(pod, node)
        self.take(events.PlacementsCommitted(placements=made.placements, at="now", claims=made.claims))
        return {one.pod.name: one.node for one in made.placements}

    def commitment(self, pod: model.Pod, node: str) -> plans.Commitment:
        """What a bind would commit, and on which conditions."""
        made = nominations.in_bind(self.plugins, self._cycle(pod, [node]), node)
        assert isinstance(made, plans.Commitment), made
        return made

    def run(self, pod: model.Pod, node: str) -> None:
        """The watch shows the pod bound."""
        self.see(msgspec.structs.replace(pod, node=node, phase="Running"))

    def placed(self) -> dict[str, str]:
        """Pods that are placed and not bound."""
        return {one.pod.name: one.node for one in self.snapshot.placements.values()}


def defined(small: Cluster, name: str = "train") -> gangs.Gang:
    """The gang of that name as Koordinator's annotations and pod groups define it."""
    found = gangs.find(small.snapshot, membership.GangKey("koordinator", "x", name))
    assert found is not None
    return found


def decided(small: Cluster, one: model.Pod) -> admission.GangDecision | None:
    """What the gang of a member decides, with its plan."""
    (plugin,) = (found for found in small.plugins.plugins if isinstance(found, Coscheduling))
    cycle = cycles.cycle(one, frozenset(small.snapshot.nodes), small.snapshot)
    return admission.decide(pipeline.with_peers(small.plugins, cycle, plugin.name), plugin)
