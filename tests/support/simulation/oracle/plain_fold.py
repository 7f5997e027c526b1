"""A second fold of the log, slow and plain: dicts, and every count recomputed.

It shares no code with app.domain.projections and the counters of plugins, so mistakes there become visible.
"""

from typing import Any

import msgspec

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support.simulation.oracle import plain_budgets, plain_quotas

KINDS = (
    "nodes",
    "pods",
    "workloadpolicies",
    "poddisruptionbudgets",
    "elasticquotas",
    "sigselasticquotas",
    "koordinatorpodgroups",
    "sigspodgroups",
    "nativepodgroups",
    "workloads",
    "clusternetworktopologies",
)


class Fold:
    """The state of a log, entry by entry."""

    def __init__(self) -> None:
        self.offset = 0
        self.nodes: dict[str, model.Node] = {}
        self.pods: dict[str, model.Pod] = {}
        self.policies: dict[str, policy_model.WorkloadPolicy] = {}
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        """Declared kind -> identity -> the object as it is in the log."""
        self.groups: dict[str, int] = {}
        """``namespace/name`` of a PodGroup -> its minimum."""
        self.wholes: set[str] = set()
        """Those of kube-scheduler's own that are disrupted as a whole."""
        self.budgets: dict[str, plain_budgets.Budget] = {}
        """``namespace/name`` of a PodDisruptionBudget -> the object."""
        self.quotas: dict[str, plain_quotas.Quota] = {}
        """``namespace/name`` of an ElasticQuota of Koordinator -> the object."""
        self.namespace_quotas: dict[str, plain_quotas.Quota] = {}
        """``namespace/name`` of an ElasticQuota of kubernetes-sigs -> the object."""
        self.placements: dict[str, tuple[model.Pod, str]] = {}
        self.written: dict[str, dict[str, str]] = {}
        """uid -> the annotations of the pod's latest placement."""
        self.versions: dict[str, int] = {}
        self.gone: set[str] = set()
        """uids of deleted pods."""
        self.unplaced: dict[str, int] = {}
        """uid -> the offset at which a pod was seen on a node where it had no placement."""
        self.unlisted = set(KINDS)
        """Kinds to be listed, for the first time or since the store may have lost events."""

    def apply(self, event: events.AnyEvent) -> None:
        self.offset += 1
        match event:
            case events.PodSeen(pod=pod):
                self._appears(pod)
                self.pods[pod.uid] = pod
                if pod.node or pod.phase in ("Succeeded", "Failed"):
                    self.placements.pop(pod.uid, None)
                self.versions[f"pod:{pod.uid}"] = self.offset
            case events.PodGone(uid=uid):
                self.pods.pop(uid, None)
                self.placements.pop(uid, None)
                self.gone.add(uid)
                self.unplaced.pop(uid, None)
                self.versions.pop(f"pod:{uid}", None)
            case events.PlacementsCommitted(placements=placements):
                for placement in placements:
                    self.placements[placement.pod.uid] = placement.pod, placement.node
                    self.written[placement.pod.uid] = placement.annotations
                    self.versions[f"pod:{placement.pod.uid}"] = self.offset
                self.versions |= dict.fromkeys(event.claims, self.offset)
            case events.PlacementReleased(uid=uid):
                self.placements.pop(uid, None)
                self.versions[f"pod:{uid}"] = self.offset
            case events.NodeSeen(node=found):
                self.nodes[found.name] = found
                self.versions[f"node:{found.name}"] = self.offset
            case events.NodeGone(name=name):
                self.nodes.pop(name, None)
                self.versions.pop(f"node:{name}", None)
            case events.ObjectObserved() | events.ObjectGone():
                self._object(event)
            case events.ViewsRepaired(moved=moved, ended=ended):
                self.versions |= dict.fromkeys(("store:views", *moved), self.offset)
                for subject in ended:
                    self.versions.pop(subject, None)
            case events.StoreRewound() | events.StoreRestarted():
                self.unlisted = set(KINDS)
                self.versions[event.subject] = self.offset
            case events.RecorderElected(unwatched=unwatched):
                self.unlisted.update(set(unwatched).intersection(KINDS))
                self.versions[event.subject] = self.offset
            case events.Relisted(kind=kind):
                self.unlisted.discard(kind)
                self.versions[event.subject] = self.offset
            case _:
                self.versions[event.subject] = self.offset

    def _appears(self, pod: model.Pod) -> None:
        before, placed = self.pods.get(pod.uid), self.placements.get(pod.uid)
        if pod.node and not (before and before.node) and not (placed and placed[1] == pod.node):
            self.unplaced[pod.uid] = self.offset

    def _object(self, event: events.ObjectObserved | events.ObjectGone) -> None:
        key = event.identity
        if isinstance(event, events.ObjectGone):
            self.objects.get(event.kind, {}).pop(key, None)
            match event.kind:
                case "workloadpolicies":
                    self.policies.pop(key, None)
                case "elasticquotas":
                    self.quotas.pop(key, None)
                case "sigselasticquotas":
                    self.namespace_quotas.pop(key, None)
                case "poddisruptionbudgets":
                    self.budgets.pop(key, None)
                case _:
                    self.groups.pop(key, None)
                    self.wholes.discard(key)
            self.versions.pop(event.subject, None)
        else:
            self.versions[event.subject] = self.offset
            found = msgspec.json.decode(event.data)
            self.objects.setdefault(event.kind, {})[key] = found
            if event.kind == "workloadpolicies":
                self.policies[key] = msgspec.json.decode(event.data, type=policy_model.WorkloadPolicy)
            elif event.kind == "poddisruptionbudgets":
                self.budgets[key] = found
            elif event.kind in ("sigspodgroups", "nativepodgroups"):
                self.groups[key] = found["minimum"]
                (self.wholes.add if found.get("disrupted_whole") else self.wholes.discard)(key)
            elif event.kind == "elasticquotas":
                self.quotas[key] = found
            elif event.kind == "sigselasticquotas":
                self.namespace_quotas[key] = found
        if event.kind == "elasticquotas":
            self.versions["quotas:all"] = self.offset
        if event.kind == "sigselasticquotas":
            self.versions["sigsquotas:all"] = self.offset
        if event.kind == "workloadpolicies":
            self.versions[f"policies:{key.partition('/')[0]}"] = self.offset

    def pods_and_nodes(self) -> dict[str, tuple[model.Pod, str]]:
        """uid -> the pod as last observed, and the node where it runs or is placed."""
        found = dict(self.placements)
        for uid, pod in self.pods.items():
            found[uid] = pod, pod.node or (found[uid][1] if uid in found else "")
        return found

    def counts(self) -> dict[str, int]:
        """``NAMESPACE/POLICY|DOMAIN`` -> pods; ``quota||NAME|RESOURCE`` and ``sigsquota|NAMESPACE|RESOURCE``
        -> amounts.
        """
        located = self.pods_and_nodes()
        quotas = plain_quotas.by_name(self.quotas.values())
        found = plain_quotas.counts(located.values(), quotas)
        spaces = {quota["namespace"] for quota in self.namespace_quotas.values()}
        found |= plain_quotas.of_namespaces(located.values(), spaces)
        for pod, name in located.values():
            for key in self.keys(pod, name):
                found[key] = found.get(key, 0) + 1
        return found

    def shared(self, pod: model.Pod, name: str) -> frozenset[str]:
        """All counts with a limit that the pod contributes to on that node."""
        quotas = plain_quotas.by_name(self.quotas.values())
        return frozenset(self.keys(pod, name)).union(plain_quotas.keys(pod, name, quotas))

    def keys(self, pod: model.Pod, name: str) -> list[str]:
        """The counts that the pod belongs to on that node."""
        node = self.nodes.get(name)
        if node is None or pod.terminating or pod.phase in ("Succeeded", "Failed"):
            return []
        return [
            f"{policy.key}|{policy.topology_key}={node.labels[policy.topology_key]}"
            for policy in self.policies.values()
            if policy.namespace == pod.namespace
            and not policy.errors
            and policy.topology_key in node.labels
            and _selected(policy.selector, pod)
        ]


def limits(policy: policy_model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the policy is Required and counts the pod on some node."""
    return policy.type == "Required" and selects(policy, pod)


def selects(policy: policy_model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the policy counts the pod on some node."""
    return not policy.errors and policy.namespace == pod.namespace and _selected(policy.selector, pod)


def _selected(selector: model.Selector, pod: model.Pod) -> bool:
    for one in selector.expressions:
        there, value = one.key in pod.labels, pod.labels.get(one.key)
        holds = {
            "In": there and value in one.values,
            "NotIn": value not in one.values,
            "Exists": there,
            "DoesNotExist": not there,
        }
        if not holds.get(one.operator, False):
            return False
    return all(pod.labels.get(key) == value for key, value in selector.labels.items())
