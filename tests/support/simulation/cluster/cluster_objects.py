"""The cluster of a simulation: the objects of the simulated API server, without HTTP and without threads."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from app.domain import model
from app.kube.objects import decoding
from app.plugins.workload_policy import samples
from app.simulation import populations
from app.simulation.apiserver import apiservers, objects, requests, router
from tests.support import declared
from tests.support.simulation.cluster import sent_bindings
from tests.support.simulation.oracle import gang_law, plain_quotas

Json = dict[str, Any]

NAMESPACE, POLICY, KEY = "shop", "spread", "role"
WEB = {"app": "web", "workload-policy/kosmos.io": POLICY}
COUNTED = {"app": "web"}
"""Labels of a pod that the policy counts although the pod does not name it."""
PRIORITY, GROUP = "priority", "group"
"""Labels from which a pod gets its priority and its group of kube-scheduler, also if it is recreated."""
LIMITING = frozenset(("workload-policy/kosmos.io", plain_quotas.LABEL))
"""Labels of the pods that a policy or a quota limits."""
OVERLAPPING = "overlapping"
"""Another policy over the same pods, in histories under ``enforce: selected``."""
NAMES = tuple(f"web-{number}" for number in range(7))
MANY = tuple(f"web-{number:02}" for number in range(14))
"""The names of pods where they outnumber the capacity of the nodes."""
NODES = {"h1": "host", "h2": "host", "m1": "member", "m2": "member"}
RESOURCES = ("nodes", "workloadpolicies", "poddisruptionbudgets", "elasticquotas", "pods")
"""The kinds that a recorder reads in any order."""
QUIET = tuple(kind.name for kind in declared.SCHEMA.kinds if kind.name not in RESOURCES)
"""The other kinds: they are listed when a recorder begins, and change seldom or never."""
EVERY = (*QUIET, *RESOURCES)
"""All kinds, pods last."""


class Cluster:
    """The objects of the API server, and the changes that users and kubelets make."""

    def __init__(self) -> None:
        self.objects = objects.Objects(apiservers.resources(declared.SCHEMA))
        self.server = router.Router(self.objects, tokens=(), bookmarks=60.0)
        self.bound: dict[str, set[str]] = {}
        """uid -> every node that the pod was ever bound to."""
        self.bindings = 0
        self.away_until = 0.0
        """The moment until which no process reaches the API server."""
        self.foreign: set[str] = set()
        """uids of pods that another scheduler has bound, such as those of a DaemonSet."""
        self.sent: list[sent_bindings.Sent] = []
        """Bindings in flight."""
        self.ever_sent: dict[tuple[str, str], sent_bindings.Sent] = {}
        """uid and version -> the latest Binding of these that was sent."""
        self.written: list[sent_bindings.Written] = []
        """The Bindings carried out since the latest comparison."""
        self._uids = 0

    def uid(self) -> str:
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012d}"

    def node(self, name: str, **labels: str) -> None:
        made = populations.node(name, labels)
        made["metadata"]["uid"] = self.uid()
        self.objects.create("nodes", made)

    def policy(self, quotas: Mapping[str, int], name: str = POLICY) -> None:
        spec = self.spec(quotas)
        made = samples.policy(NAMESPACE, name, spec)
        made["metadata"]["uid"] = self.uid()
        self.objects.create("workloadpolicies", made)

    def group(self, name: str, minimum: int) -> None:
        """A PodGroup of scheduler-plugins."""
        metadata = {"namespace": NAMESPACE, "name": name, "uid": self.uid()}
        self.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": minimum}})

    def native_group(self, name: str, minimum: int, *, whole: bool = False) -> None:
        """A PodGroup of kube-scheduler's own. ``whole``: it is disrupted as a whole."""
        metadata = {"namespace": NAMESPACE, "name": name, "uid": self.uid()}
        spec = {**self.gang_policy(minimum), "disruptionMode": {"all" if whole else "single": {}}}
        self.objects.create("nativepodgroups", {"metadata": metadata, "spec": spec})

    @staticmethod
    def gang_policy(minimum: int) -> Json:
        return {"schedulingPolicy": {"gang": {"minCount": minimum}}}

    def budget(self, name: str, labels: Mapping[str, str], allowed: int) -> None:
        """A PodDisruptionBudget that allows so many evictions now."""
        made = {
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": self.uid()},
            "spec": {"selector": {"matchLabels": dict(labels)}},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
        }
        self.objects.create("poddisruptionbudgets", made)

    def quota(self, name: str, parent: str, least: int, most: int, *, team: bool = True) -> None:
        """An ElasticQuota; amounts in cores. ``team``: it is for pods, and no parent."""
        prefix = "quota.scheduling.koordinator.sh/"
        labels = {f"{prefix}parent": parent} if parent else {}
        if not team:
            labels[f"{prefix}is-parent"] = "true"
        metadata = {"namespace": NAMESPACE, "name": name, "uid": self.uid(), "labels": labels}
        self.objects.create("elasticquotas", {"metadata": metadata, "spec": self.amounts(least, most)})

    @staticmethod
    def amounts(least: int, most: int) -> Json:
        return {"min": {"cpu": least}, "max": {"cpu": most}}

    @staticmethod
    def spec(quotas: Mapping[str, int]) -> Json:
        return {
            "topologyKey": KEY,
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": name, "replicas": most} for name, most in quotas.items()],
            "allocationType": "Required",
            "allocationMethod": "Fill",
        }

    def pod(self, name: str, labels: Mapping[str, str] | None = None, *, node: str = "") -> Json:
        """A pending pod; with a ``node`` one that another scheduler has bound there.

        One Job owns all members of a gang, however often it is restarted.
        """
        labels = dict(WEB if labels is None else labels)
        # A core for each pod of an elastic quota, whose limits are small numbers of cores.
        cpu = "1" if plain_quotas.LABEL in labels else "100m"
        made = populations.pod(NAMESPACE, name, labels, cpu=cpu)
        uid = made["metadata"]["uid"] = self.uid()
        if PRIORITY in labels:
            made["spec"]["priority"] = int(labels[PRIORITY])
        if GROUP in labels:
            made["spec"]["schedulingGroup"] = {"podGroupName": labels[GROUP]}
        gang = labels.get(gang_law.LABEL) or labels.get(GROUP)
        if gang:
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": gang,
                "uid": f"job-{gang}",
                "controller": True,
            }
            made["metadata"]["ownerReferences"] = [owner]
        if node:
            made["spec"]["nodeName"] = node
            self.foreign.add(uid)
            self.bound[uid] = {node}
        self.objects.create("pods", made)
        return self.objects.get("pods", (NAMESPACE, name))

    def edit(self, resource: str, key: objects.Key, edit: Callable[[Json], None]) -> None:
        def change(found: Json) -> Json:
            edit(found)
            return found

        self.objects.change(resource, key, change)

    def all(self, resource: str) -> list[Json]:
        """All objects, sorted by name."""
        return sorted(self.objects.all(resource), key=lambda made: str(made["metadata"]["name"]))

    def send(self, request: requests.Request) -> router.Answer:
        """Answer a request, and note Bindings."""
        if not request.path.endswith("/binding"):
            return self.server.answer(request)
        *_, namespace, _, name, _ = request.path.split("/")
        before = next((pod for pod in self.all("pods") if _key(pod) == (namespace, name)), None)
        answer = self.server.answer(request)
        if before is not None and answer[0] < 400:
            self.bindings += 1
            self._written(decoding.pod(json.dumps(before).encode()), request)
        return answer

    def _written(self, pod: model.Pod, request: requests.Request) -> None:
        """Note a Binding that was carried out."""
        asked = json.loads(request.body)
        meta, node = asked["metadata"], asked["target"]["name"]
        version, annotations = meta.get("resourceVersion", ""), meta.get("annotations", {})
        self.bound.setdefault(pod.uid, set()).add(node)
        sent = self.ever_sent.get((pod.uid, version))
        read = sent.read if sent is not None else ()
        self.written.append(sent_bindings.Written(pod, node, version, annotations, read))

    def sends(self, binding: sent_bindings.Sent) -> None:
        """A Binding goes out."""
        self.sent.append(binding)
        self.ever_sent[binding.uid, binding.version] = binding

    def exists(self, uid: str) -> bool:
        """Whether the API server has the pod."""
        return self._pod(uid) is not None

    def _pod(self, uid: str) -> Json | None:
        return next((pod for pod in self.objects.all("pods") if pod["metadata"]["uid"] == uid), None)

    def feasible(self, uid: str, node: str, now: float) -> bool:
        """Whether a Binding of the pod to the node is in flight that can still be carried out."""
        pod = self._pod(uid)
        if pod is None or pod["spec"].get("nodeName"):
            return False
        current = str(pod["metadata"]["resourceVersion"])
        return any(one.feasible(uid, node, current, now) for one in self.sent)

    def usage(self, *, foreign: bool = True) -> dict[str, int]:
        """An independent recount: domain -> pods of the policy there, ``foreign`` ones too or not."""
        roles = {made["metadata"]["name"]: made["metadata"]["labels"].get(KEY) for made in self.all("nodes")}
        used: dict[str, int] = {}
        for pod in self.all("pods"):
            meta, status = pod["metadata"], pod.get("status", {})
            role = roles.get(pod["spec"].get("nodeName", ""))
            if role is None or meta["labels"].get("app") != "web" or meta["namespace"] != NAMESPACE:
                continue
            if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed"):
                continue
            if foreign or meta["uid"] not in self.foreign:
                used[role] = used.get(role, 0) + 1
        return used


def _key(made: Json) -> tuple[str, str]:
    return made["metadata"]["namespace"], made["metadata"]["name"]
