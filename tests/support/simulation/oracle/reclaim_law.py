"""The law of evictions for quotas: the state of the log from which each was planned needs it.

A quota is over its max, or refuses a pod more important than the victim, whose condition names the quota.
Terminating pods count as gone. Where any goes, other waiting pods that are as important may have what it
leaves.
"""

from collections.abc import Collection, Iterable

from app.domain import model
from tests.support.simulation.oracle import plain_fold, plain_quotas


class State:
    """What the log has at the moment of a plan."""

    def __init__(self, fold: plain_fold.Fold) -> None:
        running = [
            (pod, node)
            for pod, node in fold.pods_and_nodes().values()
            if pod.phase not in ("Succeeded", "Failed")
        ]
        self._pods = [(pod, node) for pod, node in running if not pod.terminating]
        self._some_go = any(pod.terminating and node for pod, node in running)
        self._quotas = plain_quotas.by_name(fold.quotas.values())

    def problem(self, uid: str, evicted: Collection[str]) -> str:
        """Why the pod must not be evicted now; ``evicted``: those that go already. Empty if it may."""
        left = [(pod, node) for pod, node in self._pods if pod.uid not in evicted]
        victim = next((pod for pod, node in left if pod.uid == uid and node), None)
        if victim is None:
            return "it does not run, or goes already"
        name = plain_quotas.of(victim, self._quotas)
        if name not in self._quotas:
            return "it has no quota"
        if plain_quotas.firm(victim):
            return "it is not preemptible"
        used = self._used(name, left)
        over = used > self._limit(name)
        waiting = list(self._waiting(left)) if self._some_go or evicted else []
        asking = self._asking(victim, name, left)
        if not over and not any(self._refused(pod, left, waiting) for pod in asking):
            return f"quota {name} has {used} of {self._limit(name)}, and refuses no more important pod"
        rest = used - victim.requests.get(plain_quotas.RESOURCE, 0)
        least = self._quotas[name].get("min", {}).get(plain_quotas.RESOURCE, 0)
        return f"quota {name} keeps {rest}, less than its min" if over and rest < least else ""

    def _waiting(self, left: Iterable[tuple[model.Pod, str]]) -> Iterable[model.Pod]:
        """The pods whose quota has refused them."""
        for pod, node in left:
            name = plain_quotas.of(pod, self._quotas)
            if not node and f"elastic quota {name}: " in pod.unscheduled:
                yield pod

    def _asking(
        self, victim: model.Pod, name: str, left: Iterable[tuple[model.Pod, str]]
    ) -> Iterable[model.Pod]:
        return (
            pod
            for pod in self._waiting(left)
            if pod.priority > victim.priority and plain_quotas.of(pod, self._quotas) == name
        )

    def _refused(
        self, pod: model.Pod, left: Collection[tuple[model.Pod, str]], waiting: Collection[model.Pod]
    ) -> bool:
        """Whether a quota of the pod is full, beside nominated and waiting pods that are as important."""
        with_them = {one.uid for one in waiting if one.uid != pod.uid and one.priority >= pod.priority}
        beside = [
            (one, node or one.nominated or "its next node")
            for one, node in left
            if node
            or one.uid in with_them
            or (one.nominated and one.uid != pod.uid and one.priority >= pod.priority)
        ]
        name = plain_quotas.of(pod, self._quotas)
        asked = pod.requests.get(plain_quotas.RESOURCE, 0)
        full = (
            self._used(above, beside) + asked > self._limit(above)
            for above in plain_quotas.upwards(name, self._quotas)
        )
        firm = self._used(name, beside, "np|") + asked
        least = self._quotas[name].get("min", {}).get(plain_quotas.RESOURCE, 0)
        return any(full) or (plain_quotas.firm(pod) and firm > least)

    def _used(self, name: str, pods: Iterable[tuple[model.Pod, str]], part: str = "") -> int:
        placed = [(pod, node) for pod, node in pods if node]
        counts = plain_quotas.counts(placed, self._quotas)
        return counts.get(f"quota||{name}|{part}{plain_quotas.RESOURCE}", 0)

    def _limit(self, name: str) -> float:
        most: float = self._quotas[name].get("max", {}).get(plain_quotas.RESOURCE, float("inf"))
        return most
