"""Room that kube-scheduler may free for a group of its own by evicting less important pods.

It preempts for a group by running the whole cycle as if every pod of a lower priority were gone (Kubernetes
1.36 and later), and then puts back those that are not in the way of the nodes that were found. Its calls of
filter in that cycle look like any other, except that nodes are on offer that have no room. It does not call
preempt for a group, so what must not be evicted has to be left out of the supposition here.
"""

from collections.abc import Iterable

from app.domain import model, snapshots
from app.domain.fitting import node_fit, node_sums
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.membership import GangKey


class Evictions:
    """The pods that may go for a group of a priority."""

    def __init__(self, snapshot: snapshots.Snapshot, priority: int) -> None:
        self._snapshot = snapshot
        self._priority = priority
        self._expendable: dict[GangKey, bool] = {}

    def suppose(self, pod: model.Pod, candidates: Iterable[model.NodeName]) -> bool:
        """Whether some candidate has room for the pod only if pods go: so kube-scheduler supposes it."""
        nodes, snapshot = self._snapshot.nodes, self._snapshot
        for name in candidates:
            node = nodes.get(name)
            if node is None or not self._has_less_important(name):
                continue
            # Ports are not looked at, for speed.
            if node_fit.crowded(pod, node, node_fit.Occupancy(snapshot.used(name))):
                held = self.occupancy(name)
                if held is not None and not node_fit.crowded(pod, node, held):
                    return True
        return False

    def occupancies(self) -> dict[model.NodeName, node_fit.Occupancy]:
        """What the nodes would hold, of those on which that differs."""
        found = ((name, self.occupancy(name)) for name in self._snapshot.residents)
        return {name: held for name, held in found if held is not None}

    def occupancy(self, name: model.NodeName) -> node_fit.Occupancy | None:
        """What the node would hold; None if no pod may go from there.

        A node on which a less important pod has to stay with its gang is left as it is: kube-scheduler might
        put a more important pod back in its place.
        """
        if not self._has_less_important(name):
            return None
        amounts, ports = dict(self._snapshot.used(name)), list[model.HostPort]()
        for pod in filter(node_sums.holding, self._snapshot.on(name)):
            if pod.priority < self._priority:
                if not self._may_go(pod):
                    return None
                node_sums.add_up(amounts, pod, -1)
            elif pod.constraints is not None:
                ports += pod.constraints.host_ports
        return node_fit.Occupancy(amounts, tuple(ports))

    def _has_less_important(self, name: model.NodeName) -> bool:
        snapshot = self._snapshot
        lowest = snapshot.residents.get(name, node_sums.EMPTY).lowest_priority(snapshot.pod)
        return lowest is not None and lowest < self._priority

    def _may_go(self, pod: model.Pod) -> bool:
        """Whether the eviction of the pod breaks up no gang that is whole."""
        key = membership.of(pod)
        if key is None:
            return True
        found = self._expendable.get(key)
        if found is None:
            gang = gangs.find(self._snapshot, key)
            found = self._expendable[key] = (
                gang is None or gang.given.victims or gang.disrupted_whole or len(gang.seats) < gang.minimum
            )
        return found
