"""The pods of the chart: where its values are in them, and what is in them by a value alone."""

from typing import Final

from tests.support import manifests
from tests.support.charts import helm_templates, optional

Object = helm_templates.Object

ARCHIVE_CLAIM: Final = "components/archive-claim"
CLAIM: Final = ".Values.archive.existingClaim"
ARCHIVING: Final = frozenset({"compactor", "extender", "view"})
"""Processes that write or read the archive."""
SIDECAR: Final = 'eq .Values.scheduler.mode "sidecar"'
STORE_TLS: Final = "components/store-tls"
TLS: Final = ".Values.store.bundled.tls"
_PLACEMENTS: Final = 'dig "store" "placements" "" .Values.config'
_SHAPE: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def changed(one: Object, marks: helm_templates.Marks) -> str:
    """Put the values of the chart into a Deployment or StatefulSet; it has no condition of its own."""
    name = one["metadata"]["name"].removeprefix("topolog-")
    optional.put(one, manifests.DEPLOY / STORE_TLS, TLS, marks)
    optional.put(one, manifests.DEPLOY / ARCHIVE_CLAIM, CLAIM, marks)
    values = ".Values.store.bundled" if name == "valkey" else f".Values.{name}"
    pod = one["spec"]["template"]["spec"]
    if one["kind"] == "Deployment":
        del one["spec"]["replicas"]
        one["spec"] = _replicas(name, values, marks) | one["spec"]
        one["spec"].pop("strategy", None)
        one["spec"][marks.given("strategy", f"{values}.strategy")] = None
    metadata = one["spec"]["template"]["metadata"]
    if name in ARCHIVING:
        metadata["labels"][marks.further(".Values.archive.podLabels")] = None
    metadata[marks.given("annotations", f"{values}.podAnnotations")] = None
    for field in (*_SHAPE, "priorityClassName"):
        pod.pop(field, None)
    pod |= {marks.given(field, f"{values}.{field}"): None for field in _SHAPE}
    pod[marks.scalar("priorityClassName", f"{values}.priorityClassName")] = None
    pod[marks.given("imagePullSecrets", ".Values.imagePullSecrets")] = None
    containers = {each["name"]: each for each in pod["containers"]}
    for each in (*pod["containers"], *pod.get("initContainers", [])):
        _container(each, values, marks)
    own = next(each for called, each in containers.items() if called != "kube-scheduler")
    # What a process needs to reach its store, its init container needs as well.
    for each in (own, *pod.get("initContainers", [])):
        _extended(each, values, marks)
    _volumes(pod, values, marks)
    if name in ARCHIVING:
        keys = ".Values.archive.existingSecret"
        own["envFrom"] += [
            marks.line(f"with {keys}"),
            {"secretRef": {"name": marks.value(".")}},
            marks.line("end"),
        ]
    if "kube-scheduler" in containers:
        _with_sidecar(pod, containers["kube-scheduler"], marks)
    if name == "bootstrap":
        own["args"] = [
            "bootstrap",
            "--every=3600",
            marks.line("if .Values.store.bundled.enabled"),
            "--store-url=redis://topolog-valkey:6379",
            marks.line("end"),
            marks.line(f"if {TLS}"),
            "--store-tls",
            marks.line("end"),
            marks.line('if ne .Values.certificates.source "bootstrap"'),
            "--no-certificates",
            marks.line("else"),
            marks.line("range .Values.certificates.extraHosts"),
            marks.value('printf "--host=%s" . | quote'),
            marks.line("end"),
            marks.line("end"),
        ]
    if name == "extender":
        grace = '(dig "server" "grace" 10 .Values.config)'
        pod["terminationGracePeriodSeconds"] = marks.value(f"add 20 {grace}")
    if name == "valkey":
        own["args"][2] = marks.value(f"{values}.maxMemory")
        own["args"] += [
            marks.line(f'if eq ({_PLACEMENTS}) "fsync"'),
            *("--appendfsync", "always"),
            marks.line("end"),
        ]
        (users,) = pod["initContainers"]
        cluster, *further = users["env"]
        users["env"] = [
            {**cluster, "value": marks.value(".Values.cluster | quote")},
            marks.line(f"with {_PLACEMENTS}"),
            {"name": "TOPOLOG_STORE_PLACEMENTS", "value": marks.value(".")},
            marks.line("end"),
            *further,
        ]
        (claim,) = one["spec"]["volumeClaimTemplates"]
        claim["spec"]["resources"]["requests"]["storage"] = marks.value(f"{values}.persistence.size")
        claim["spec"] |= {
            marks.line(f"with {values}.persistence.storageClass"): None,
            "storageClassName": marks.value("."),
            marks.line("end"): None,
        }
    return ""


def _replicas(name: str, values: str, marks: helm_templates.Marks) -> Object:
    """The number of pods, unless an autoscaler sets it."""
    found: Object = {"replicas": marks.value(f"{values}.replicas")}
    if name == "extender":
        return {marks.line(f"if not {values}.hpa"): None, **found, marks.line("end"): None}
    return found


_IMAGES: Final = {"topolog": "image", "kube-scheduler": "scheduler.image", "valkey": "store.bundled.image"}
_RESOURCES: Final = {
    "migrate": ".Values.recorder.migration.resources",
    "users": ".Values.store.bundled.users.resources",
    "kube-scheduler": ".Values.scheduler.resources",
}


def _container(one: Object, values: str, marks: helm_templates.Marks) -> None:
    image = one["image"].rpartition("/")[2].partition(":")[0]
    one["image"] = marks.value(f'include "topolog.image.{image}" .')
    one[marks.scalar("imagePullPolicy", f".Values.{_IMAGES[image]}.pullPolicy")] = None
    del one["resources"]
    one[marks.given("resources", _RESOURCES.get(one["name"], f"{values}.resources"))] = None
    for source in one.get("envFrom", []):
        source["configMapRef"]["name"] = marks.value('include "topolog.settingsName" .')
    for each in one.get("env", []):
        if "valueFrom" in each:
            each["valueFrom"]["secretKeyRef"]["name"] = marks.value('include "topolog.storeSecret" .')


def _extended(one: Object, values: str, marks: helm_templates.Marks) -> None:
    """Further variables and mounts of a container."""
    if "env" in one:
        one["env"].append(marks.further(f"{values}.extraEnv"))
    else:
        one[marks.given("env", f"{values}.extraEnv")] = None
    one["volumeMounts"].append(marks.further(f"{values}.extraVolumeMounts"))


def _volumes(pod: Object, values: str, marks: helm_templates.Marks) -> None:
    """Further volumes; names of ConfigMaps with a hash, and of the archive's claim."""
    for volume in pod["volumes"]:
        if "configMap" in volume:
            kind = volume["configMap"]["name"].rpartition("-")[0].removeprefix("topolog-")
            name = {"valkey": "topolog.valkeyName", "kube-scheduler": "topolog.schedulerName"}[kind]
            volume["configMap"]["name"] = marks.value(f'include "{name}" .')
        if "persistentVolumeClaim" in volume:
            volume["persistentVolumeClaim"]["claimName"] = marks.value(f"{CLAIM} | quote")
    pod["volumes"].append(marks.further(f"{values}.extraVolumes"))


def _with_sidecar(pod: Object, scheduler: Object, marks: helm_templates.Marks) -> None:
    pod["serviceAccountName"] = marks.value(f'ternary "topolog-scheduler" "topolog-extender" ({SIDECAR})')
    pod["containers"] = [
        *(each for each in pod["containers"] if each is not scheduler),
        marks.line(f"if {SIDECAR}"),
        scheduler,
        marks.line("end"),
    ]
    its = [each for each in pod["volumes"] if isinstance(each, dict) and each["name"].startswith("scheduler")]
    pod["volumes"] = [
        marks.line(f"if {SIDECAR}"),
        *its,
        marks.line("end"),
        *(each for each in pod["volumes"] if each not in its),
    ]
