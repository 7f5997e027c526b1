"""The values of the chart: those of the overlay dev by default, and files with what the others change.

What an overlay sets in a pod is read from its objects, so that a changed request is changed in one place.
"""

import functools
import textwrap
from collections.abc import Mapping
from typing import Any, Final

import yaml

from tests.support import manifests
from tests.support.charts import parts

Values = dict[str, Any]

DEFAULT: Final = "dev"
PROFILES: Final = ("ha", "existing-scheduler")
"""Overlays with a file of values of their own."""
COMMENTS: Final[Mapping[str, str]] = {
    "cluster": "Name of this Kubernetes cluster in the store. Clusters may share a store but not a name."
    " Another name is another log: with a store of yours, stop every process before you change it"
    " (docs/how-to/replace-the-store.md#stop-every-process).",
    "image": "The image of all processes. It is not published: registry and repository of yours. A"
    " digest wins over a tag; an empty tag is the version of the chart.",
    "imagePullSecrets": "Secrets for the registries, such as [{name: registry}].",
    "config": "Settings of all processes, by group: {logging: {level: debug}}. docs/reference/settings.md"
    " has them all.",
    "scheduler": "sidecar: a second kube-scheduler, topolog-scheduler, beside the extender in each of its"
    " pods. existing: the extender behind a Service, for a kube-scheduler that the cluster has, whose"
    " configuration is in the ConfigMap topolog-kube-scheduler."
    " An empty tag is the API server's minor version.",
    "certificates": "bootstrap: made and renewed in the cluster by topolog-bootstrap. certManager: by"
    " cert-manager, of a CA of its own or of issuerRef. existing: by you, as the"
    " Secrets that NOTES names. extraHosts are further names of the server, and with bootstrap also"
    " addresses.",
    "store": "Either the bundled Valkey, or a store of yours: its URL, or a Secret with a URL for each"
    " process. With bundled.tls it is reached by TLS alone.",
    "archive": "Where events are kept before they are trimmed: url is s3://BUCKET/PREFIX, gs:// or az://."
    " existingSecret has the credentials as variables; without one, the cloud gives the pods an identity,"
    " by serviceAccountAnnotations or podLabels. variables are those without secrets, such as"
    " {AWS_REGION: eu-central-1}. ports and cidrs are those of the object store; no cidrs are any address."
    " existingClaim, in place of a url, is a PersistentVolumeClaim that the pods can mount at the same time.",
    "recorder": "Each process has the same values. The empty ones are for your cluster: nodes, zones,"
    " volumes, variables.",
    "extender": "hpa, such as {minReplicas: 2, maxReplicas: 5, targetCPU: 70}, is a HorizontalPodAutoscaler"
    " in place of replicas, by CPU in percent of the request, where several existing kube-schedulers call the"
    " extenders. The upgrade that sets it leaves one extender until the autoscaler has run: scale the"
    " Deployment to minReplicas at once.",
    "bootstrap": "Makes the Secrets of the installation, and renews its certificates.",
    "view": "The dashboard, streams and heavy questions. Scheduling does not need it.",
    "crds": "The definition of WorkloadPolicy. Set install to false where Kosmos is installed; keep it"
    " on uninstall.",
    "rbac": "aggregate: policies and quotas become part of the ClusterRoles view, edit and admin of"
    " Kubernetes.",
    "resourceQuota": "A quota for the priority class system-cluster-critical, without which some clusters"
    " (GKE) create no pod of that class outside kube-system. Its limit of 1000 pods is no limit for Topolog."
    " The installation needs the right to create it.",
    "admission": "Warns of pods that name a quota and escape it; Deny refuses them. schedulerNames are the"
    " profiles that call the extender.",
    "quotaAnnotations": "The controller may write Koordinator's annotations on quotas, and no more of them."
    ' It does so with config.plugins.args: {"ElasticQuota": {"koordinator_annotations": true}}.',
    "evictions": "The controller may evict pods, as PodDisruptionBudgets allow. It does so with"
    ' config.plugins.args: {"ElasticQuota": {"quota_preemption": "evict", "overuse": "evict"}}.',
    "networkPolicy": "Denies all traffic except what the processes need. With an existing kube-scheduler,"
    " schedulerCIDRs are the addresses it calls from. Empty schedulerCIDRs are any address with an existing"
    " kube-scheduler, and none otherwise; empty apiServerCIDRs and storeCIDRs are any address. With Cilium,"
    " blocks match no node of the cluster: leave schedulerCIDRs and apiServerCIDRs empty there. The ports are"
    " those behind Services: 8443 for the API server of minikube, 16443 for that of MicroK8s. Prometheus"
    " scrapes from monitoringNamespace.",
    "monitoring": "Objects of the Prometheus operator, and dashboards for a Grafana that loads them from"
    " ConfigMaps. labels are for both objects of the operator, which selects by them. runbooks is the URL"
    " below which you show the folder docs/ of this version: alerts then link to its sections.",
    "tests": "`helm test` runs `topolog doctor all`; skip leaves checks out by their IDs. extra*"
    " are what its pod needs to reach a store outside of the cluster, as for the processes.",
}
"""Value -> what it is for."""
REMOVED: Final[Mapping[str, str]] = {}
"""Value of a released chart that is gone -> the version whose changelog deprecated it."""
_ARCHIVE: Final[Values] = {
    "url": "",
    "existingClaim": "",
    "existingSecret": "",
    "variables": {},
    "serviceAccountAnnotations": {},
    "podLabels": {},
    "ports": [443],
    "cidrs": [],
}


@functools.cache
def of_overlay(name: str) -> Values:
    """The values with which the chart renders an overlay."""
    deployments = manifests.in_overlay(name, "Deployment")
    budgets = manifests.in_overlay(name, "PodDisruptionBudget")
    processes = {
        process: _process(process, deployments[f"topolog-{process}"], budgets) for process in parts.PROCESSES
    }
    recorder = deployments["topolog-recorder"]["spec"]["template"]["spec"]
    processes["recorder"]["migration"] = {"resources": recorder["initContainers"][0]["resources"]}
    processes["view"] = {"enabled": True, **processes["view"]}
    sidecars = _sidecars(name)
    return {
        "cluster": manifests.settings()["TOPOLOG_CLUSTER"],
        "image": {**_image(recorder["containers"][0]["image"]), "tag": ""},
        "imagePullSecrets": [],
        "config": {},
        "scheduler": {
            "mode": "sidecar" if sidecars else "existing",
            "image": {**_image("registry.k8s.io/kube-scheduler:"), "tag": ""},
            "resources": (sidecars or _sidecars(DEFAULT))[0]["resources"],
        },
        "certificates": {"source": "bootstrap", "issuerRef": {}, "extraHosts": []},
        "store": {"bundled": _store(name), "external": {"url": "", "existingSecret": ""}},
        "archive": _ARCHIVE,
        **processes,
        "crds": {"install": True, "keep": True},
        "rbac": {"create": True, "aggregate": True},
        "resourceQuota": {"enabled": True},
        "admission": {
            "enabled": "topolog-admission" in manifests.in_overlay(name, "ConfigMap"),
            "action": "Warn",
            "schedulerNames": ["topolog-scheduler"],
        },
        "quotaAnnotations": {"enabled": False},
        "evictions": {"enabled": False},
        "networkPolicy": {
            "enabled": True,
            "schedulerCIDRs": [],
            "apiServerCIDRs": [],
            "apiServerPorts": _ports(name, 6443),
            "storeCIDRs": [],
            "storePorts": _ports(name, 6379),
            "monitoringNamespace": "monitoring",
        },
        "monitoring": {
            **{each: {"enabled": False} for each in ("podMonitor", "prometheusRule", "dashboards")},
            "labels": {},
            "runbooks": "",
        },
        "tests": {"enabled": True, "skip": [], "extraEnv": [], "extraVolumes": [], "extraVolumeMounts": []},
    }


def _ports(overlay: str, known: int) -> list[int]:
    """The ports of the rule for what listens on a port that is known."""
    rules = manifests.in_overlay(overlay, "NetworkPolicy")["topolog"]["spec"]["egress"]
    found = ([each["port"] for each in rule["ports"]] for rule in rules)
    return next(ports for ports in found if known in ports)


def _sidecars(overlay: str) -> list[manifests.Object]:
    pod = manifests.in_overlay(overlay, "Deployment")["topolog-extender"]["spec"]["template"]["spec"]
    return [each for each in pod["containers"] if each["name"] == "kube-scheduler"]


def _process(process: str, found: manifests.Object, budgets: Mapping[str, manifests.Object]) -> Values:
    pod = found["spec"]["template"]["spec"]
    own = next(each for each in pod["containers"] if each["name"] != "kube-scheduler")
    made = {
        "replicas": found["spec"]["replicas"],
        "resources": own["resources"],
        "strategy": found["spec"].get("strategy", {}),
        **_placement(pod),
    }
    if process in ("recorder", "controller", "extender"):
        budget = budgets.get(f"topolog-{process}", {"spec": {}})["spec"]
        made["podDisruptionBudget"] = {
            key: budget[key] for key in ("minAvailable", "maxUnavailable") if key in budget
        }
    if process == "extender":
        made["hpa"] = {}
    return made


def _placement(pod: manifests.Object) -> Values:
    return {
        "nodeSelector": pod.get("nodeSelector", {}),
        "tolerations": pod.get("tolerations", []),
        "affinity": pod.get("affinity", {}),
        "topologySpreadConstraints": pod.get("topologySpreadConstraints", []),
        "priorityClassName": pod.get("priorityClassName", ""),
        "podAnnotations": {},
        "extraEnv": [],
        "extraVolumes": [],
        "extraVolumeMounts": [],
    }


def _store(overlay: str) -> Values:
    found = manifests.in_overlay(overlay, "StatefulSet")["topolog-valkey"]["spec"]
    pod = found["template"]["spec"]
    (server,), (users,) = pod["containers"], pod["initContainers"]
    claim = found["volumeClaimTemplates"][0]["spec"]
    return {
        "enabled": True,
        "tls": False,
        "image": _image(server["image"]),
        "maxMemory": server["args"][2],
        "persistence": {"size": claim["resources"]["requests"]["storage"], "storageClass": ""},
        "resources": server["resources"],
        "users": {"resources": users["resources"]},
        **_placement(pod),
    }


def _image(text: str) -> Values:
    place, _, tag = text.rpartition(":")
    registry, _, repository = place.partition("/")
    return {"registry": registry, "repository": repository, "tag": tag, "digest": "", "pullPolicy": ""}


def default_file() -> str:
    """The text of values.yaml."""
    lines = [
        "# The values of the overlay dev: everything on one node. values-ha.yaml is for production.",
        "# Made from deploy/ by `make docs`: change the overlays or tests/support/charts/values.py.",
    ]
    for name, value in of_overlay(DEFAULT).items():
        lines.append("")
        lines += textwrap.wrap(
            COMMENTS.get(name, ""), 110, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        lines.append(_dumped({name: value}))
    return "\n".join(lines) + "\n"


def profile_file(name: str) -> str:
    """The text of a file of values for another overlay: what it changes."""
    head = f"# What the overlay {name} changes. Made from deploy/ by `make docs`.\n"
    return head + _dumped(_changes(of_overlay(DEFAULT), of_overlay(name))) + "\n"


def _changes(former: Mapping[str, Any], later: Mapping[str, Any]) -> Values:
    found: Values = {}
    for key, value in later.items():
        if isinstance(value, dict) and isinstance(former.get(key), dict) and former[key]:
            if inner := _changes(former[key], value):
                found[key] = inner
        elif value != former.get(key):
            found[key] = value
    # Helm merges objects, so that a key is removed by null.
    return found | {key: None for key in former.keys() - later.keys()}


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _dumped(value: Values) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=110).rstrip("\n")
