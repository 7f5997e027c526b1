"""Changes of a simulated cluster by users, kubelets and another scheduler."""

import random
from collections.abc import Callable

from tests.support.decisions import pod_sets
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import gang_law, plain_quotas, quota_law


class Activity:
    """Makes random changes to one cluster."""

    def __init__(
        self,
        cluster: cluster_objects.Cluster,
        rng: random.Random,
        log_step: Callable[[str], None],
        *,
        steady: bool,
        selected: bool = False,
        planning: bool = False,
        gathering: bool = False,
        sharing: bool = False,
    ) -> None:
        """``steady``: only pods change. ``selected``: some pods are counted by policies that they do not
        name, there are two policies, and another scheduler binds pods, too. ``planning``: most pods belong
        to a set whose pods are placed together. ``gathering``: most pods belong to a gang, and capacity is
        scarce. ``sharing``: most pods belong to an elastic quota.
        """
        self._cluster = cluster
        self._rng = rng
        self._log_step = log_step
        self._steady = steady
        self._selected = selected
        self._planning = planning
        self._gathering = gathering
        self._sharing = sharing

    def begin(self) -> None:
        """Create nodes, a policy and some pods."""
        cluster, rng = self._cluster, self._rng
        for name, role in cluster_objects.NODES.items():
            cluster.node(name, role=role)
        for name, minimum in gang_law.GROUPS.items() if self._gathering else ():
            cluster.group(name, minimum)
            for node in cluster_objects.NODES:
                cluster.edit("nodes", ("", node), _narrow)
        cluster.policy({"host": rng.randint(1, 2), "member": rng.randint(1, 3)})
        for name, (parent, least, most) in quota_law.TREE.items() if self._sharing else ():
            cluster.quota(name, parent, least, most)
        if self._selected:
            cluster.policy(
                {"host": rng.randint(1, 3), "member": rng.randint(1, 2)}, cluster_objects.OVERLAPPING
            )
        for name in cluster_objects.NAMES[: rng.randint(2, 6)]:
            cluster.pod(name, self._labels())
        cluster.pod("plain", {"app": "plain"})

    def users(self) -> None:
        """A user, a kubelet or another scheduler makes one change."""
        acts: list[Callable[[], None]] = [
            self._create,
            self._create,
            self._delete,
            self._recreate,
            self._echo,
        ]
        if self._selected:
            acts.append(self._bind_elsewhere)
        if self._gathering:
            acts.append(self._edit_group)
        if self._sharing:
            acts += [self._edit_quota, self._renew_quota]
        if not self._steady:
            acts += [
                self._relabel,
                self._renew_node,
                self._edit_policy,
                self._renew_policy,
                self._relabel_pod,
            ]
        self._rng.choice(acts)()

    def kubelets(self) -> None:
        """Terminating pods are deleted; others start to run, or finish."""
        for pod in self._cluster.all("pods"):
            key = _key(pod)
            if "deletionTimestamp" in pod["metadata"]:
                self._cluster.objects.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
                self._phase(key, "Succeeded" if self._rng.random() < 0.1 else "Running")

    def refuse(self, meta: cluster_objects.Json, why: str) -> None:
        """kube-scheduler writes the reason into the status of an unbound pod, which changes its version."""
        status = {"conditions": [{"type": "PodScheduled", "status": "False", "message": why}]}
        for pod in self._cluster.all("pods"):
            if pod["metadata"]["uid"] == meta["uid"] and not pod["spec"].get("nodeName"):
                self._cluster.edit("pods", _key(pod), lambda made: made["status"].update(status))

    def _phase(self, key: tuple[str, str], phase: str) -> None:
        self._cluster.edit("pods", key, lambda made: made["status"].update(phase=phase))

    def _one(self, resource: str) -> cluster_objects.Json | None:
        found = self._cluster.all(resource)
        return self._rng.choice(found) if found else None

    def _create(self) -> None:
        names = {pod["metadata"]["name"] for pod in self._cluster.all("pods")}
        free = [name for name in cluster_objects.NAMES if name not in names]
        if free:
            made = self._cluster.pod(self._rng.choice(free), self._labels())
            self._log_step(f"users create {made['metadata']['name']}")

    def _labels(self) -> dict[str, str]:
        if self._sharing and self._rng.random() < 0.85:
            return self._of_a_quota()
        return self._drawn()

    def _of_a_quota(self) -> dict[str, str]:
        """Labels of a pod of a team's quota; some also name the policy or a gang."""
        labels = {plain_quotas.LABEL: self._rng.choice(quota_law.TEAMS)}
        if self._rng.random() < 0.25:
            labels[plain_quotas.FIRM] = "false"
        if self._gathering and self._rng.random() < 0.6:
            return {**labels, gang_law.LABEL: self._rng.choice(sorted(gang_law.GROUPS))}
        return {**cluster_objects.WEB, **labels} if self._rng.random() < 0.2 else labels

    def _drawn(self) -> dict[str, str]:
        if self._planning and self._rng.random() < 0.8:
            seat = self._rng.choice(sorted(cluster_objects.NODES))
            pod_set = self._rng.choice(("red", "blue"))
            return {**cluster_objects.WEB, pod_sets.POD_SET: pod_set, pod_sets.SEAT: seat}
        if self._gathering and self._rng.random() < 0.8:
            gang = {gang_law.LABEL: self._rng.choice(sorted(gang_law.GROUPS))}
            return gang if self._rng.random() < 0.6 else {**cluster_objects.WEB, **gang}
        if not self._selected:
            return cluster_objects.WEB
        overlapping = {**cluster_objects.WEB, "workload-policy/kosmos.io": cluster_objects.OVERLAPPING}
        return self._rng.choice((cluster_objects.WEB, cluster_objects.COUNTED, overlapping))

    def _bind_elsewhere(self) -> None:
        """Another scheduler binds a pod of a DaemonSet."""
        node = self._one("nodes")
        if node is not None:
            on = node["metadata"]["name"]
            if not any(pod["metadata"]["name"] == f"daemon-{on}" for pod in self._cluster.all("pods")):
                self._log_step(f"another scheduler binds daemon-{on}")
                self._cluster.pod(f"daemon-{on}", cluster_objects.COUNTED, node=on)

    def _delete(self) -> None:
        pod = self._one("pods")
        if pod is None:
            return
        self._log_step(f"users delete {pod['metadata']['name']}")
        if pod["spec"].get("nodeName") and self._rng.random() < 0.5:
            self._cluster.edit("pods", _key(pod), _terminate)
        else:
            self._cluster.objects.remove("pods", _key(pod))

    def _recreate(self) -> None:
        pod = self._one("pods")
        if pod is not None:
            meta = pod["metadata"]
            self._log_step(f"users recreate {meta['name']}")
            self._cluster.objects.remove("pods", _key(pod))
            self._cluster.pod(meta["name"], meta["labels"])

    def _echo(self) -> None:
        """A change that is irrelevant for scheduling, or a line that cannot be decoded."""
        if self._rng.random() < 0.3:
            self._cluster.objects.send_raw("pods", b'{"type":"MODIFIED","object":{"metadata":{"name":5}}}')
            return
        pod = self._one("pods")
        if pod is not None:
            noise = str(self._rng.random())
            self._cluster.edit("pods", _key(pod), lambda made: made["status"].update(message=noise))

    def _relabel(self) -> None:
        node = self._one("nodes")
        if node is not None:
            role = self._rng.choice(("host", "member", "spare"))
            self._log_step(f"users make {node['metadata']['name']} a {role}")
            key = ("", node["metadata"]["name"])
            self._cluster.edit("nodes", key, lambda made: made["metadata"]["labels"].update(role=role))

    def _relabel_pod(self) -> None:
        pod = self._one("pods")
        if pod is not None:
            app = self._rng.choice(("web", "other"))
            self._log_step(f"users label {pod['metadata']['name']} app={app}")
            self._cluster.edit("pods", _key(pod), lambda made: made["metadata"]["labels"].update(app=app))

    def _renew_node(self) -> None:
        node = self._one("nodes")
        if node is not None:
            name, labels = node["metadata"]["name"], node["metadata"]["labels"]
            self._log_step(f"node {name} is recreated")
            self._cluster.objects.remove("nodes", ("", name))
            if self._rng.random() < 0.7:
                self._cluster.node(name, **{cluster_objects.KEY: labels.get(cluster_objects.KEY, "host")})
        there = {made["metadata"]["name"] for made in self._cluster.all("nodes")}
        missing = sorted(cluster_objects.NODES.keys() - there)
        if missing and self._rng.random() < 0.5:
            self._cluster.node(missing[0], role=cluster_objects.NODES[missing[0]])

    def _edit_policy(self) -> None:
        policy = self._one("workloadpolicies")
        if policy is not None:
            quotas = {"host": self._rng.randint(0, 3), "member": self._rng.randint(0, 3)}
            self._log_step("users edit the policy")
            key = (cluster_objects.NAMESPACE, policy["metadata"]["name"])
            spec = cluster_objects.Cluster.spec(quotas)
            self._cluster.edit("workloadpolicies", key, lambda made: made.update(spec=spec))

    def _edit_group(self) -> None:
        group = self._one("sigspodgroups")
        if group is not None:
            name, minimum = group["metadata"]["name"], self._rng.randint(1, 4)
            self._log_step(f"users set the minimum of {name} to {minimum}")
            key = (cluster_objects.NAMESPACE, name)
            self._cluster.edit("sigspodgroups", key, lambda made: made.update(spec={"minMember": minimum}))

    def _edit_quota(self) -> None:
        quota = self._one("elasticquotas")
        if quota is not None:
            name, least = quota["metadata"]["name"], self._rng.randint(0, 2)
            most = least + self._rng.randint(0, 3)
            self._log_step(f"users give quota {name} {least} to {most} cores")
            spec = self._cluster.amounts(least, most)
            self._cluster.edit(
                "elasticquotas", (cluster_objects.NAMESPACE, name), lambda made: made.update(spec=spec)
            )

    def _renew_quota(self) -> None:
        """A team's quota is deleted, or created again; that of the company stays."""
        name = self._rng.choice(quota_law.TEAMS)
        if name in {quota["metadata"]["name"] for quota in self._cluster.all("elasticquotas")}:
            self._log_step(f"users delete quota {name}")
            self._cluster.objects.remove("elasticquotas", (cluster_objects.NAMESPACE, name))
        if self._rng.random() < 0.7:
            self._log_step(f"users create quota {name}")
            self._cluster.quota(name, *quota_law.TREE[name])

    def _renew_policy(self) -> None:
        there = {policy["metadata"]["name"] for policy in self._cluster.all("workloadpolicies")}
        if cluster_objects.POLICY in there:
            self._log_step("users delete the policy")
            self._cluster.objects.remove(
                "workloadpolicies", (cluster_objects.NAMESPACE, cluster_objects.POLICY)
            )
        if self._rng.random() < 0.7:
            self._cluster.policy({"host": self._rng.randint(1, 2), "member": self._rng.randint(1, 3)})


def _key(pod: cluster_objects.Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _narrow(made: cluster_objects.Json) -> None:
    made["status"]["allocatable"]["pods"] = str(gang_law.ROOM)


def _terminate(made: cluster_objects.Json) -> None:
    made["metadata"]["deletionTimestamp"] = "2026-07-01T10:00:00Z"
