"""kube-scheduler in one simulation: it binds pods by the extenders, one pod at a time."""

from typing import TYPE_CHECKING

from tests.support.decisions import pod_sets
from tests.support.simulation import processes
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lossy_calls

if TYPE_CHECKING:
    from tests.support.simulation import histories


class Scheduler:
    """The binds of one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation") -> None:
        self._of = simulation
        self._rng, self._cluster, self._fleet = simulation.rng, simulation.cluster, simulation.fleet
        self._traits, self._log_step = simulation.traits, simulation.log_step
        self._lately: list[cluster_objects.Json] = []
        """The pods that were pending at the latest bind."""

    def any_node(self) -> str:
        """One of the nodes that there are at first."""
        return self._rng.choice(sorted(cluster_objects.NODES))

    def bind(self) -> None:
        """kube-scheduler wants a pod on a node."""
        pods = [pod for pod in self._cluster.all("pods") if "deletionTimestamp" not in pod["metadata"]]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        if self._lately and self._rng.random() < 0.15:
            # kube-scheduler may not have observed yet that it was deleted.
            pods = self._lately
        elif self._rng.random() < 0.85:
            pods = waiting
        self._lately = waiting
        if not pods:
            return
        if self._traits.fails_over and self._rng.random() < 0.3:
            self._of.failovers.replica.follow()
        pod, node = self._rng.choice(pods), self.any_node()
        if self._traits.preempting:
            node = next(iter(self._of.preemptions.roomy()), "")
            if not node:
                return
        which = self._rng.randrange(len(self._fleet.extenders))
        self.bound(which, pod, node)

    def bound(self, which: int, pod: cluster_objects.Json, node: str) -> None:
        """One of the extenders binds the pod, or is started if it is not running."""
        extender = self._fleet.extenders[which]
        if extender is None:
            self._fleet.start_extender(which)
            return
        meta = pod["metadata"]
        if self._traits.planning and self._rng.random() < 0.9:
            node = meta["labels"].get(pod_sets.SEAT, node)  # its plugin refuses it on other nodes
        if self._traits.gathering and self._rng.random() < 0.9:
            node = next(iter(extender.kept(pod)), node)
        if self._rng.random() < 0.75:
            extender.offer(pod)  # else another replica answered filter
        self._log_step(f"extender {which}: bind {meta['name']} ({meta['uid'][-4:]}) to {node}")
        bound_before = meta["uid"] in self._cluster.bound
        must_be_placed = self._must_be_placed(extender, meta["uid"], node)
        try:
            error = extender.bind(meta["namespace"], meta["name"], meta["uid"], node)
        except lossy_calls.Crashed:
            self._fleet.start_extender(which)
            error = "crashed"
        self._log_step(f"extender {which}: {meta['name']} -> {node}: {error or 'bound'}")
        if error and self._rng.random() < 0.4:
            self._of.activity.refuse(meta, error)
        if not error:
            if must_be_placed and not bound_before and self._must_be_placed(extender, meta["uid"], node):
                placed = self._of.watchdog.placed(meta["uid"], node)
                guarantees.demand(placed, "P6", f"{meta['name']} is bound to {node} without a placement")
            was = self._cluster.bound.get(meta["uid"], set())
            guarantees.demand(was == {node}, "P7", f"{meta['name']} was reported on {node}, is on {was}")

    def _must_be_placed(self, extender: processes.Extender, uid: str, node: str) -> bool:
        """Not known where the store loses events: those that the process has read may be others."""
        snapshot = extender.store.follower.snapshot
        return not self._traits.fails_over and self._of.watchdog.must_be_placed(snapshot, uid, node)

    def bind_anywhere(self, pod: cluster_objects.Json) -> None:
        """One of the extenders binds the pod to one of the nodes."""
        self.bound(self._rng.randrange(len(self._fleet.extenders)), pod, self.any_node())

    def orphan(self) -> None:
        """A Binding is in flight for long and its extender is killed: the controller has to fence it."""
        which = self._rng.randrange(len(self._fleet.extenders))
        extender = self._fleet.extenders[which]
        waiting = [pod for pod in self._cluster.all("pods") if not pod["spec"].get("nodeName")]
        if extender is None or not waiting:
            return
        extender.client.delayed = True
        self.bound(which, self._rng.choice(waiting), self.any_node())
        self._fleet.start_extender(which)
        for _ in range(2):
            self._fleet.settle()
