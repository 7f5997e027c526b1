"""The promises of reliability, checked on the log and on the cluster while a simulation goes on.

| | |
|---|---|
| P1 | the counts and versions in Redis are the fold of the log |
| P3 | the same sight twice is one event |
| P5 | who has lost the epoch writes nothing |
| P6 | no placement exceeds a hard quota, nothing is bound that was not promised |
| P7 | a pod gets one node, and a bind that says so is true |
| P9 | who was deleted stays so, and who has the name now is another |
| end | once faults are over, the log says what the cluster is |
"""

import msgspec

from app.domain import events, model
from app.kube import decoding
from app.store import logs
from tests.campaigns import clusters, folding


class Broken(AssertionError):
    """A promise does not hold; the text begins with its name."""


def demand(holds: bool, promise: str, text: str) -> None:
    if not holds:
        raise Broken(f"{promise}: {text}")


class Watchdog:
    """Reads along, and compares."""

    def __init__(self, log: logs.Log, cluster: clusters.Cluster, *, steady: bool) -> None:
        """``steady``: nothing but pods changes, so that no quota may ever be exceeded in the cluster."""
        self.fold = folding.Fold()
        self._log = log
        self._cluster = cluster
        self._steady = steady
        self.highest: dict[str, int] = {}

    def read(self) -> None:
        """Take what is new in the log, and check each event against what was before."""
        while entries := self._log.read(self.fold.offset):
            for entry in entries:
                demand(entry.offset == self.fold.offset + 1, "P1", f"offset {entry.offset} is not dense")
                self._check(entry.event)
                self.fold.apply(entry.event)

    def compare(self) -> None:
        """The views in Redis, and the cluster itself."""
        self.read()
        fold, counted = self.fold, self._log.counts()
        demand(counted == fold.counts(), "P1", f"counts {counted}, the fold has {fold.counts()}")
        versions = self._log.versions()
        wrong = {
            subject: (versions.get(subject), fold.versions.get(subject))
            for subject in versions.keys() | fold.versions.keys()
            if versions.get(subject) != fold.versions.get(subject)
        }
        demand(not wrong, "P1", f"versions (stored, folded) {wrong}")
        for uid, nodes in self._cluster.bound.items():
            demand(len(nodes) == 1, "P7", f"pod {uid} was bound to {sorted(nodes)}")
        self._bound_is_recorded()
        if self._steady:
            quotas = self.quotas()
            for domain, used in self._cluster.usage().items():
                demand(used <= quotas.get(domain, 0), "P6", f"{domain}: {used} of {quotas} are bound")

    def quotas(self) -> dict[str, int]:
        """What the cluster's policy allows."""
        (policy,) = self._cluster.all("workloadpolicies")
        return {one["name"]: one["replicas"] for one in policy["spec"]["allocationPolicy"]}

    def _bound_is_recorded(self) -> None:
        """Whatever runs under a policy was promised before, and stays so until the watch shows it."""
        standings = self.fold.standings()
        for pod in self._cluster.all("pods"):
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            if node and "workload-policy/kosmos.io" in meta["labels"]:
                recorded = standings.get(meta["uid"], (None, ""))[1]
                demand(
                    recorded == node, "P6", f"{meta['name']} runs on {node}, the log has it on {recorded!r}"
                )

    def _check(self, event: events.AnyEvent) -> None:
        fold = self.fold
        match event:
            case events.PodSeen(pod=pod):
                demand(fold.pods.get(pod.uid) != pod, "P3", f"pod {pod.uid} is recorded again as it was")
                demand(pod.uid not in fold.gone, "P9", f"pod {pod.uid} was gone and is back")
                before = fold.pods.get(pod.uid)
                moved = before is not None and before.node and before.node != pod.node
                demand(not moved, "P9", f"pod {pod.uid} moved from {before.node if before else ''}")
            case events.PodGone(uid=uid):
                known = uid in fold.pods or uid in fold.placements
                demand(known, "P3", f"pod {uid} goes, but was not there")
            case events.NodeSeen(node=node):
                known_node = fold.nodes.get(node.name)
                demand(known_node != node, "P3", f"node {node.name} is recorded again as it was")
                same = known_node is None or known_node.uid == node.uid
                demand(same, "P9", f"node {node.name} became another without an end of the former")
            case events.PolicySeen(policy=policy):
                known_policy = fold.policies.get(policy.key)
                demand(known_policy != policy, "P3", f"policy {policy.key} is recorded again as it was")
            case events.PodPlaced(pod=pod, node=name):
                self._placed(pod, name)
            case _:
                pass

    def _placed(self, pod: model.Pod, name: str) -> None:
        fold = self.fold
        standing = fold.standings().get(pod.uid, (pod, ""))[1]
        demand(standing in ("", name), "P7", f"pod {pod.uid} is promised {name}, but has {standing}")
        if standing:
            return  # the same promise, renewed
        policy = fold.policies.get(f"{pod.namespace}/{pod.labels.get('workload-policy/kosmos.io', '')}")
        if "workload-policy/kosmos.io" not in pod.labels:
            return
        if policy is None:
            raise Broken(f"P6: pod {pod.uid} is promised {name} under a policy that is not there")
        node = fold.nodes.get(name)
        domain = node.labels.get(policy.topology_key) if node is not None else None
        most = next((one.replicas for one in policy.allocations if one.name == domain), 0)
        counts = fold.counts()
        key = f"{policy.key}|{policy.topology_key}={domain}"
        demand(counts.get(key, 0) < most, "P6", f"{key} has {counts.get(key, 0)} of {most}, gets one more")

    # -- the end -----------------------------------------------------------------------------

    def converged(self) -> None:
        """The log says what the cluster is, nothing is promised any more, and the counts are a recount."""
        self.compare()
        fold, cluster = self.fold, self._cluster
        pods = {pod.uid: pod for pod in (decoding.pod(_bytes(made)) for made in cluster.all("pods"))}
        nodes = {node.name: node for node in (decoding.node(_bytes(made)) for made in cluster.all("nodes"))}
        policies = {
            policy.key: policy
            for policy in (decoding.policy(_bytes(made)) for made in cluster.all("workloadpolicies"))
        }
        demand(fold.pods == pods, "end", f"pods differ: {_difference(fold.pods, pods)}")
        demand(fold.nodes == nodes, "end", f"nodes differ: {_difference(fold.nodes, nodes)}")
        demand(fold.policies == policies, "end", f"policies differ: {_difference(fold.policies, policies)}")
        demand(not fold.placements, "end", f"promised for ever: {sorted(fold.placements)}")
        if clusters.POLICY in {policy.name for policy in policies.values()}:
            counted = {
                key.rpartition("=")[2]: count
                for key, count in self._log.counts().items()
                if key.startswith(f"{clusters.NAMESPACE}/{clusters.POLICY}|{clusters.KEY}=")
            }
            demand(counted == cluster.usage(), "end", f"{counted}, the cluster has {cluster.usage()}")


def _bytes(made: clusters.Json) -> bytes:
    return msgspec.json.encode(made)


def _difference(have: dict[str, model.Pod] | dict[str, model.Node] | dict[str, model.WorkloadPolicy],
                want: dict[str, model.Pod] | dict[str, model.Node] | dict[str, model.WorkloadPolicy]) -> str:
    named = sorted(key for key in have.keys() | want.keys() if have.get(key) != want.get(key))
    return "; ".join(f"{key}: log {have.get(key)}, cluster {want.get(key)}" for key in named[:3])
