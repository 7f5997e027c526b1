"""Changes of a simulated cluster by users, kubelets and another scheduler."""

import random
from collections.abc import Callable, Collection

from tests.support.simulation import seed_traits
from tests.support.simulation.cluster import cluster_objects, drawn_labels
from tests.support.simulation.oracle import eviction_law, gang_law, plain_quotas, quota_law


class Activity:
    """Makes random changes to one cluster."""

    def __init__(
        self,
        cluster: cluster_objects.Cluster,
        rng: random.Random,
        log_step: Callable[[str], None],
        traits: seed_traits.Traits,
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._log_step = log_step
        self._traits = traits
        self.labels = drawn_labels.Labels(rng, traits)
        """Those of the pods that users create."""
        self._names = cluster_objects.MANY if traits.preempting else cluster_objects.NAMES
        self._started = 0
        self._tree = quota_law.DEEP if traits.deep else quota_law.TREE
        if traits.guaranteeing:
            self._tree = quota_law.GUARANTEED

    def begin(self) -> None:
        """Create nodes, a policy and some pods."""
        cluster, rng = self._cluster, self._rng
        for name, role in cluster_objects.NODES.items():
            cluster.node(name, role=role)
        for name, minimum in gang_law.GROUPS.items() if self._traits.gathering else ():
            cluster.group(name, minimum)
            for node in cluster_objects.NODES:
                cluster.edit("nodes", ("", node), _narrow)
        cluster.policy({"host": rng.randint(1, 2), "member": rng.randint(1, 3)})
        for name in self._tree if self._traits.sharing else ():
            self._create_quota(name)
        if self._traits.selected:
            cluster.policy(
                {"host": rng.randint(1, 3), "member": rng.randint(1, 2)}, cluster_objects.OVERLAPPING
            )
        for name, labels in drawn_labels.BUDGETS.items() if self._traits.evicting else ():
            cluster.budget(name, labels, rng.randint(0, 2))
        if self._traits.preempting:
            self._begin_full()
        for name in cluster_objects.NAMES[: rng.randint(2, 6)]:
            cluster.pod(name, self.labels.drawn())
        cluster.pod("plain", {"app": "plain"})

    def _begin_full(self) -> None:
        """Groups of kube-scheduler's own, budgets, and pods that take most of the capacity."""
        cluster, rng = self._cluster, self._rng
        for name, minimum in eviction_law.NATIVE.items():
            cluster.native_group(name, minimum, whole=name == eviction_law.WHOLE)
        for name, labels in drawn_labels.BUDGETS.items():
            cluster.budget(name, labels, rng.randint(0, 2))
        for node in cluster_objects.NODES:
            self._fill(node, rng.randint(1, gang_law.CAPACITY))

    def _fill(self, node: str, count: int) -> None:
        """Another scheduler binds less important pods to the node."""
        there = {pod["metadata"]["name"] for pod in self._cluster.all("pods")}
        names = [f"low-{node}-{number}" for number in range(gang_law.CAPACITY)]
        for name in [name for name in names if name not in there][:count]:
            self._cluster.pod(name, self.labels.less_important(), node=node)

    def crowd(self) -> None:
        """Members of the group that preempts are created, and most of the capacity is taken."""
        rng, cluster = self._rng, self._cluster
        labels = {
            cluster_objects.GROUP: eviction_law.PREEMPTING,
            cluster_objects.PRIORITY: str(eviction_law.HIGH),
        }
        pods = cluster.all("pods")
        free = [name for name in self._names if name not in {pod["metadata"]["name"] for pod in pods}]
        self._log_step(f"users create members of {eviction_law.PREEMPTING}, and others take the capacity")
        waiting = sum(pod["metadata"]["labels"] == labels and not pod["spec"].get("nodeName") for pod in pods)
        for name in free[: max(0, rng.randint(1, 4) - waiting)]:
            cluster.pod(name, labels)
        for made in cluster.all("nodes"):
            node = made["metadata"]["name"]
            held = sum(
                pod["spec"].get("nodeName") == node and pod["status"]["phase"] in ("Pending", "Running")
                for pod in pods
            )
            self._fill(node, gang_law.CAPACITY - held - (rng.random() < 0.2))

    def overuse(self) -> None:
        """Another scheduler binds pods of a quota; a more important one waits for the quota, or for nodes."""
        rng, cluster = self._rng, self._cluster
        there = {pod["metadata"]["name"] for pod in cluster.all("pods")}
        team = rng.choice(quota_law.TEAMS)
        names = [name for name in (f"{team}-{number}" for number in range(6)) if name not in there]
        self._log_step(f"another scheduler binds pods of quota {team}")
        for name in names[: rng.randint(0, 4)]:
            labels = {**self.labels.of_a_quota(), plain_quotas.LABEL: team}
            cluster.pod(name, labels, node=rng.choice(sorted(cluster_objects.NODES)))
            self._phase((cluster_objects.NAMESPACE, name), "Running")
        asks = f"{team}-asks"
        if asks in there:
            return
        fate = rng.random()
        if fate < 0.6:
            labels = {**self.labels.of_a_quota(), plain_quotas.LABEL: team}
            made = cluster.pod(asks, labels)
            what = f"elastic quota {team}: no capacity in cpu" if fate < 0.5 else "Insufficient cpu"
            self.refuse(made["metadata"], f"0/3 nodes are available: 3 {what}.")

    def users(self) -> None:
        """A user, a kubelet or another scheduler makes one change."""
        acts: list[Callable[[], None]] = [
            self._create,
            self._create,
            self._delete,
            self._recreate,
            self._echo,
        ]
        if self._traits.selected:
            acts.append(self._bind_elsewhere)
        if self._traits.gathering:
            acts.append(self._edit_group)
        if self._traits.preempting:
            acts += [self._edit_native_group, self.budgets]
        if self._traits.evicting:
            acts.append(self.budgets)
        if self._traits.sharing and not self._traits.deep:
            acts += [self._edit_quota, self._renew_quota]
        if not self._traits.steady:
            acts += [
                self._relabel,
                self._renew_node,
                self._edit_policy,
                self._renew_policy,
                self._relabel_pod,
            ]
        self._rng.choice(acts)()

    def kubelets(self) -> None:
        """Terminating pods are deleted, and may have ended before; others start to run, or finish."""
        for pod in self._cluster.all("pods"):
            key = _key(pod)
            if "deletionTimestamp" in pod["metadata"]:
                if (
                    self._traits.gathering
                    and pod["status"]["phase"] == "Running"
                    and self._rng.random() < 0.5
                ):
                    self._phase(key, "Failed")
                else:
                    self._cluster.objects.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
                self._phase(key, "Succeeded" if self._rng.random() < 0.1 else "Running")
                if self._traits.preempting and "startTime" not in pod["status"]:
                    self._start(key)

    def refuse(self, meta: cluster_objects.Json, why: str) -> None:
        """kube-scheduler writes the reason into the status of an unbound pod, which changes its version."""
        status = {"conditions": [{"type": "PodScheduled", "status": "False", "message": why}]}
        for pod in self._cluster.all("pods"):
            if pod["metadata"]["uid"] == meta["uid"] and not pod["spec"].get("nodeName"):
                self._cluster.edit("pods", _key(pod), lambda made: made["status"].update(status))

    def _phase(self, key: tuple[str, str], phase: str) -> None:
        self._cluster.edit("pods", key, lambda made: made["status"].update(phase=phase))

    def _start(self, key: tuple[str, str]) -> None:
        """Each pod starts at a second of its own: kube-scheduler takes equal ones in any order."""
        self._started += 1
        started = f"2026-07-01T09:{self._started // 60 % 60:02}:{self._started % 60:02}Z"
        self._cluster.edit("pods", key, lambda made: made["status"].update(startTime=started))

    def _one(self, resource: str) -> cluster_objects.Json | None:
        found = self._cluster.all(resource)
        return self._rng.choice(found) if found else None

    def _create(self) -> None:
        names = {pod["metadata"]["name"] for pod in self._cluster.all("pods")}
        free = [name for name in self._names if name not in names]
        if free:
            made = self._cluster.pod(self._rng.choice(free), self.labels.drawn())
            self._log_step(f"users create {made['metadata']['name']}")

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
            self._cluster.edit("pods", _key(pod), terminate)
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

    def restart(self, gang: str) -> None:
        """A job is restarted: the members of its gang are deleted, and some are created again at once."""
        there = self._cluster.all("pods")
        members = [pod for pod in there if pod["metadata"]["labels"].get(gang_law.LABEL) == gang]
        self._log_step(f"users restart {gang}")
        for pod in members:
            if pod["spec"].get("nodeName"):
                self._cluster.edit("pods", _key(pod), terminate)
            else:
                self._cluster.objects.remove("pods", _key(pod))
        free = [name for name in self._names if name not in {pod["metadata"]["name"] for pod in there}]
        for name in free[: self._rng.randint(1, 3)]:
            self._cluster.pod(name, {gang_law.LABEL: gang})

    def _edit_native_group(self) -> None:
        name, minimum = self._rng.choice(sorted(eviction_law.NATIVE)), self._rng.randint(1, 3)
        self._log_step(f"users set the minimum of {name} to {minimum}")
        spec = self._cluster.gang_policy(minimum)
        self._cluster.edit(
            "nativepodgroups", (cluster_objects.NAMESPACE, name), lambda made: made["spec"].update(spec)
        )

    def budgets(self) -> None:
        """The disruption controller allows other numbers of evictions."""
        name, allowed = self._rng.choice(sorted(drawn_labels.BUDGETS)), self._rng.randint(0, 2)
        self._log_step(f"budget {name} allows {allowed} evictions")
        self._cluster.edit(
            "poddisruptionbudgets",
            (cluster_objects.NAMESPACE, name),
            lambda made: made["status"].update(disruptionsAllowed=allowed),
        )

    def protect(self, uids: Collection[str]) -> None:
        """Users change the labels of one of these pods, so that another budget selects it, or none."""
        there = [pod for pod in self._cluster.all("pods") if pod["metadata"]["uid"] in uids]
        if there:
            key, tier = _key(self._rng.choice(there)), self._rng.choice(("db", "cache", "web"))
            self._log_step(f"users label {key[1]} tier={tier}")
            self._cluster.edit("pods", key, lambda made: made["metadata"]["labels"].update(tier=tier))

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
            self._create_quota(name)

    def _create_quota(self, name: str) -> None:
        self._cluster.quota(name, *self._tree[name], team=name in quota_law.TEAMS)

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
    made["status"]["allocatable"]["pods"] = str(gang_law.CAPACITY)


def terminate(made: cluster_objects.Json) -> None:
    made["metadata"]["deletionTimestamp"] = "2026-07-01T10:00:00Z"


def nominate(node: str) -> Callable[[cluster_objects.Json], None]:
    """The change of a pod that waits for capacity on the node."""
    return lambda made: made["status"].update(nominatedNodeName=node)
