"""The law of placements: each is within the quotas, and is released only if it can no longer be bound."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.domain import events, model
from app.kube.writes import binding
from app.plugins.workload_policy import policy_model
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import binding_law, gang_law, guarantees, losses, plain_fold

UNDER_WAY = 4.9
"""Seconds for which a Binding can be in flight after its placement, in this cluster."""


class Stray(NamedTuple):
    """A placement that a failover has lost."""

    uid: str
    keys: frozenset[str]
    """The counts that it contributed to."""
    until: float
    """The moment after which no Binding of it can be in flight."""


class PlacementLaw:
    """Checks the placements of one log, one event after another."""

    def __init__(
        self,
        cluster: cluster_objects.Cluster,
        lost: losses.Losses,
        *,
        selected: bool,
        monotonic: Callable[[], float],
    ) -> None:
        """``selected``: every Required policy limits every pod that its selector selects."""
        self._cluster = cluster
        self._losses = lost
        self._selected = selected
        self._monotonic = monotonic
        self._strays: list[Stray] = []
        self._carried: dict[str, tuple[str, float]] = {}
        """uid -> the version that the Binding of its placement carries, and when the placement was read."""
        self.placed: set[tuple[str, str]] = set()
        """uid and node of each placement that was ever appended."""
        self._leading: set[str] = set()
        """uids of those that were placed together with others, by their own bind."""

    def failed_over(self, before: plain_fold.Fold, after: plain_fold.Fold) -> None:
        """The store has lost the placements that are in the first fold only."""
        self._carried.clear()
        until = self._monotonic() + UNDER_WAY
        for uid, (pod, node) in before.placements.items():
            if after.placements.get(uid, (pod, ""))[1] != node:
                self._strays.append(Stray(uid, before.shared(pod, node), until))

    def committed(self, event: events.PlacementsCommitted, fold: plain_fold.Fold) -> None:
        """Raises Broken if the event, which follows the fold, breaks the law."""
        for at, one in enumerate(event.placements):
            self._placed(fold, one.pod, one.node, event.placements[:at])
            self.placed.add((one.pod.uid, one.node))
            self._carried[one.pod.uid] = one.resource_version, self._monotonic()
            (self._leading.discard if at or len(event.placements) == 1 else self._leading.add)(one.pod.uid)

    def released(self, event: events.PlacementReleased, fold: plain_fold.Fold) -> None:
        """Raises Broken if the event, which follows the fold, breaks the law."""
        uid, name = event.uid, event.node
        # A placement that an undetectable failover has lost may be appended and released again, and a
        # pod without a policy is bound without a record when the store does not answer (decision 1).
        placed = fold.placements.get(uid)
        if event.cause in ("unbound", "superseded"):
            # A bind releases the gang that it placed before it sends anything; what it sends later is
            # compared with the log then.
            version, _ = self._carried.get(uid, ("", 0.0))
            unsent = uid in self._leading and (uid, version) not in self._cluster.ever_sent
            withdrawn = unsent and event.cause == "superseded"
            carries = not withdrawn and self._carries(uid)
            guarantees.demand(not carries, "P6", f"{uid} is released, and may yet be bound")
            bound = name in self._cluster.bound.get(uid, set())
            unrecorded = placed is not None and _uncounted(placed[0], fold)
            # A gang may be placed with a pod that has run and is gone, as long as the log lacks its end.
            ended = event.cause == "superseded" and not self._cluster.exists(uid)
            text = f"{uid} is released from {name}, where it is bound"
            guarantees.demand(not bound or unrecorded or ended, "P6", text)
        named = placed is not None and not cluster_objects.LIMITING.isdisjoint(placed[0].labels)
        feasible = named and not self._losses.unseen and self._cluster.feasible(uid, name, self._monotonic())
        guarantees.demand(not feasible, "P6", f"{uid} on {name} is released, and its Binding is under way")

    def _placed(
        self, fold: plain_fold.Fold, pod: model.Pod, name: str, beside: Sequence[model.Placement]
    ) -> None:
        """``beside``: the other placements of the same event that count before this one."""
        guarantees.demand(
            not fold.unlisted, "P6", f"{pod.uid} is placed before {sorted(fold.unlisted)} are listed"
        )
        for stray in self._strays:
            lost = stray.keys.isdisjoint(fold.shared(pod, name)) or not self._may_come(stray)
            guarantees.demand(lost, "P6", f"{pod.uid} is placed beside {stray}, which may yet be bound")
        former = fold.pods_and_nodes().get(pod.uid, (pod, ""))[1]
        guarantees.demand(
            former in ("", name), "P7", f"pod {pod.uid} is placed on {name}, but also on {former}"
        )
        self._alike(fold, pod, name)
        before = fold.placements.get(pod.uid, (pod, ""))[0]
        if former and binding_law.read(before) == binding_law.read(pod):
            return  # the same placement, renewed
        own = fold.keys(*fold.pods_and_nodes()[pod.uid]) if former else ()
        for policy in self._limiting(fold, pod, name):
            node = fold.nodes.get(name)
            domain = node.labels.get(policy.topology_key) if node is not None else None
            most = next((one.replicas for one in policy.allocations if one.name == domain), 0)
            key = f"{policy.key}|{policy.topology_key}={domain}"
            others = fold.counts().get(key, 0) - (key in own)
            taken = others + sum(key in fold.keys(one.pod, one.node) for one in beside)
            guarantees.demand(taken < most, "P6", f"{key} has {taken} of {most}, gets one more")

    def _alike(self, fold: plain_fold.Fold, pod: model.Pod, name: str) -> None:
        """The log counts the pod as it was judged.

        Where the store has lost events unnoticed, the versions that an append expects may be those of others.
        """
        if self._losses.unseen:
            return
        known = fold.pods.get(pod.uid)
        if known is not None:
            counted, judged = fold.shared(known, name), fold.shared(pod, name)
            text = f"{pod.uid} is judged for {sorted(judged)}, counts in {sorted(counted)}"
            guarantees.demand(counted == judged, "P6", text)

    def _limiting(
        self, fold: plain_fold.Fold, pod: model.Pod, name: str
    ) -> list[policy_model.WorkloadPolicy]:
        """The policies whose quotas the pod must not exceed."""
        policies = fold.policies
        found = [policy for policy in policies.values() if self._selected and plain_fold.limits(policy, pod)]
        if "workload-policy/kosmos.io" in pod.labels:
            policy = policies.get(f"{pod.namespace}/{pod.labels['workload-policy/kosmos.io']}")
            if policy is None:
                raise guarantees.Broken(
                    f"P6: pod {pod.uid} is placed on {name} under a policy that does not exist"
                )
            selected = plain_fold.limits(policy, pod)
            guarantees.demand(
                selected, "P6", f"pod {pod.uid} is placed on {name} under a policy that does not select it"
            )
            found += [] if policy in found else [policy]
        return found

    def _carries(self, uid: str) -> bool:
        """Whether a Binding of the pod's placement in flight would be carried out when it arrives."""
        version, since = self._carried.get(uid, ("", 0.0))
        return (
            bool(version)
            and self._monotonic() - since < binding.UNFENCED
            and any(
                pod["metadata"]["uid"] == uid
                and pod["metadata"]["resourceVersion"] == version
                and not pod["spec"].get("nodeName")
                for pod in self._cluster.all("pods")
            )
        )

    def _may_come(self, stray: Stray) -> bool:
        """Whether the pod exists unbound, and a Binding of it may be in flight."""
        there = any(pod["metadata"]["uid"] == stray.uid for pod in self._cluster.all("pods"))
        return (
            not self._losses.unseen
            and there
            and stray.uid not in self._cluster.bound
            and self._monotonic() < stray.until
        )


def _uncounted(pod: model.Pod, fold: plain_fold.Fold) -> bool:
    """Whether no policy, quota or gang selects the pod, so that it may be bound without a record."""
    limited = not cluster_objects.LIMITING.isdisjoint(pod.labels) or gang_law.gang(pod)
    return pod.labels.get("app") != "web" and not limited and not fold.quotas
