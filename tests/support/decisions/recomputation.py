"""Recomputes everything that a snapshot derives from its facts and placements, without an index."""

from collections.abc import Collection, Iterable, Mapping

from app.domain import model, snapshots
from app.plugins.workload_policy import policy_model
from tests.support import declared


def pods_and_nodes(snapshot: snapshots.Snapshot) -> dict[str, tuple[model.Pod, str]]:
    """Uid -> (pod, node that it is bound to or placed on)."""
    found: dict[str, tuple[model.Pod, str]] = {}
    for uid, placement in snapshot.placements.items():
        found[uid] = placement.pod, placement.node
    for uid, pod in snapshot.pods.items():
        node = found[uid][1] if uid in found else ""
        found[uid] = pod, pod.node or node
    return found


def counts(snapshot: snapshots.Snapshot) -> dict[str, int]:
    located = pods_and_nodes(snapshot).values()
    return counted(located, snapshot.nodes, list(snapshot.all(declared.POLICIES).values()))


def counted(
    located: Iterable[tuple[model.Pod, str]],
    nodes: Mapping[str, model.Node],
    policies: Collection[policy_model.WorkloadPolicy],
) -> dict[str, int]:
    """The counts of pods on these nodes; each pod comes with the name of its node."""
    found: dict[str, int] = {}
    for pod, name in located:
        node = nodes.get(name)
        if node is None or pod.terminating or pod.phase in ("Succeeded", "Failed"):
            continue
        for policy in policies:
            if policy.namespace != pod.namespace or policy.errors or policy.topology_key not in node.labels:
                continue
            if _selects(policy.selector, pod.labels):
                label = policy.topology_key
                key = f"{policy.namespace}/{policy.name}|{label}={node.labels[label]}"
                found[key] = found.get(key, 0) + 1
    return found


def _selects(selector: model.Selector, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.labels.items()):
        return False
    holds = {
        "In": lambda r: r.key in labels and labels[r.key] in r.values,
        "NotIn": lambda r: r.key not in labels or labels[r.key] not in r.values,
        "Exists": lambda r: r.key in labels,
        "DoesNotExist": lambda r: r.key not in labels,
    }
    return all(holds[requirement.operator](requirement) for requirement in selector.expressions)


def derived(snapshot: snapshots.Snapshot) -> dict[str, object]:
    """Every index, as plain dicts and sets."""
    located = pods_and_nodes(snapshot)
    columns: dict[str, dict[str, set[str]]] = {}
    for node in snapshot.nodes.values():
        for label, value in node.labels.items():
            columns.setdefault(label, {}).setdefault(value, set()).add(node.name)
    residents: dict[str, set[str]] = {}
    used: dict[str, dict[str, int]] = {}
    attached: dict[str, set[str]] = {}
    labelled: dict[tuple[str, str, str], set[str]] = {}
    namespaces: dict[str, set[str]] = {}
    for uid, (pod, name) in located.items():
        if name:
            residents.setdefault(name, set()).add(uid)
        if name and pod.phase not in ("Succeeded", "Failed"):
            sums = used.setdefault(name, {"pods": 0})
            sums["pods"] += 1
            for resource, amount in pod.requests.items():
                if amount:
                    sums[resource] = sums.get(resource, 0) + amount
            if pod.constraints is not None and pod.constraints.pod_affinity:
                attached.setdefault(name, set()).add(uid)
        namespaces.setdefault(pod.namespace, set()).add(uid)
        for label in snapshot.indexed & pod.labels.keys():
            labelled.setdefault((pod.namespace, label, pod.labels[label]), set()).add(uid)
    policies_in: dict[str, dict[str, policy_model.WorkloadPolicy]] = {}
    for key, policy in snapshot.all(declared.POLICIES).items():
        policies_in.setdefault(policy.namespace, {})[key] = policy
    return {
        "counts": counts(snapshot),
        "topology": columns,
        "residents": residents,
        "used": used,
        "attached": attached,
        "labelled": labelled,
        "namespaces": namespaces,
        "policies_in": policies_in,
        "names": {pod.key: uid for uid, (pod, _) in located.items()},
        "waiting": {uid for uid, (pod, name) in located.items() if pod.pending and not name},
        "nominated": {
            uid for uid, (pod, _) in located.items() if pod.nominated and not pod.node and pod.counted
        },
    }


def kept(snapshot: snapshots.Snapshot) -> dict[str, object]:
    """The same indexes, as the snapshot holds them."""
    return {
        "counts": dict(snapshot.counts),
        "topology": {
            label: {value: set(column[value]) for value in column}
            for label, column in snapshot.topology.columns.items()
        },
        "residents": {key: set(pods) for key, pods in snapshot.residents.items()},
        "used": {node: dict(snapshot.used(node)) for node in snapshot.residents if snapshot.used(node)},
        "attached": {
            node: uids
            for node in snapshot.residents
            if (uids := {pod.uid for pod in snapshot.attached(node)})
        },
        "labelled": {key: set(pods) for key, pods in snapshot.labelled.items()},
        "namespaces": {key: set(pods) for key, pods in snapshot.namespaces.items()},
        "policies_in": {
            key: dict(policies)
            for key, policies in snapshot.objects.namespaces.get("workloadpolicies", {}).items()
        },
        "names": dict(snapshot.names),
        "waiting": set(snapshot.waiting),
        "nominated": set(snapshot.nominated),
    }
