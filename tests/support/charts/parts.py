"""The parts of the chart that the overlays have, too: which objects, on what condition, with which values."""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from tests.support import kustomizations, manifests
from tests.support.charts import helm_templates, optional, policies

Object = helm_templates.Object

WORKERS: Final = ("recorder", "controller", "auditor", "compactor")
PROCESSES: Final = (*WORKERS, "extender", "view", "bootstrap")
"""Each has a group of values of the same shape."""
BOOTSTRAP: Final = 'eq (include "topolog.bootstrapped" .) "true"'
SIDECAR: Final = 'eq .Values.scheduler.mode "sidecar"'
_SHAPE: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


class Part(NamedTuple):
    """One template of the chart."""

    source: str
    """Where in deploy/ its objects come from."""
    condition: str
    """When they are installed; empty: always."""
    names: frozenset[tuple[str, str]]
    """Kind and name of each object."""


def _named(folder: str) -> frozenset[tuple[str, str]]:
    found = (
        each
        for path in manifests.files()
        if path.is_relative_to(manifests.DEPLOY / folder)
        for each in manifests.documents(path)
    )
    return frozenset(
        (one["kind"], one["metadata"]["name"])
        for one in found
        if one["kind"] not in (*manifests.NO_OBJECTS, "Namespace")
    )


def _of_process(process: str) -> frozenset[tuple[str, str]]:
    kinds = ("Deployment", "PodDisruptionBudget", "Service")
    return frozenset((kind, f"topolog-{process}") for kind in kinds)


def parts() -> Mapping[str, Part]:
    """Template -> part."""
    health = frozenset({("Service", "topolog-health")})
    rbac = _named("rbac")
    return {
        "crds": Part("crds", ".Values.crds.install", _named("crds")),
        "accounts": Part("rbac", ".Values.rbac.create", rbac),
        "people": Part("roles", ".Values.rbac.create", _named("roles")),
        **{each: Part("base", "", _of_process(each)) for each in WORKERS},
        "extender": Part("base", "", _of_process("extender") | health),
        "scheduler-accounts": Part(
            "components/sidecar",
            f"and .Values.rbac.create ({SIDECAR})",
            _named("components/sidecar") - _of_process("extender"),
        ),
        "view": Part("components/view", ".Values.view.enabled", _named("components/view")),
        "bootstrap": Part("components/bootstrap", BOOTSTRAP, _named("components/bootstrap")),
        "valkey": Part(
            "components/bundled-valkey", ".Values.store.bundled.enabled", _named("components/bundled-valkey")
        ),
        "store-tls": Part(STORE_TLS, TLS, _named(STORE_TLS)),
        "networkpolicy": Part(
            "components/networkpolicies",
            ".Values.networkPolicy.enabled",
            _named("components/networkpolicies"),
        ),
        "networkpolicy-extender": Part(
            "overlays/existing-scheduler",
            "and .Values.networkPolicy.enabled .Values.networkPolicy.schedulerCIDRs",
            frozenset({("NetworkPolicy", "topolog-extender")}),
        ),
        "networkpolicy-archive": Part(
            ARCHIVE, "and .Values.networkPolicy.enabled .Values.archive.url", _named("components/archive")
        ),
        "certificates": Part(
            "components/cert-manager", 'eq .Values.certificates.source "certManager"', _named(CERTIFICATES)
        ),
        "admission": Part("admission", ".Values.admission.enabled", _named("admission")),
        "evictions": Part(EVICTIONS, ".Values.evictions.enabled", _named(EVICTIONS)),
        "quota-annotations": Part(ANNOTATIONS, ".Values.quotaAnnotations.enabled", _named(ANNOTATIONS)),
    }


ARCHIVE: Final = "components/archive-identity"
ARCHIVING: Final = frozenset({"compactor", "extender", "view"})
"""Processes that write or read the archive."""
CERTIFICATES: Final = "components/cert-manager"
ANNOTATIONS: Final = "components/quota-annotations"
EVICTIONS: Final = "components/evictions"
STORE_TLS: Final = "components/store-tls"
TLS: Final = ".Values.store.bundled.tls"
OTHERWISE: Final = frozenset({"Namespace"})
"""Kinds that Helm creates itself."""
GENERATED: Final = ("topolog", "topolog-kube-scheduler", "topolog-valkey")
"""ConfigMaps whose names have a hash, each a named template of the chart."""


@functools.cache
def known() -> dict[tuple[str, str], Object]:
    """Kind and name -> object, not to be changed, of all rendered overlays; those with everything win."""
    found: dict[tuple[str, str], Object] = {}
    for overlay in ("ha", "existing-scheduler", "dev"):
        for one in manifests.overlay(overlay):
            found.setdefault((one["kind"], one["metadata"]["name"]), one)
    for folder in (CERTIFICATES, ANNOTATIONS, EVICTIONS, STORE_TLS):
        for path in sorted((manifests.DEPLOY / folder).glob("*.yaml")):
            for one in manifests.documents(path):
                if one["kind"] not in manifests.NO_OBJECTS:
                    found[one["kind"], one["metadata"]["name"]] = one
    (policy,) = kustomizations.render(manifests.DEPLOY / ARCHIVE)
    found["NetworkPolicy", policy["metadata"]["name"]] = policy
    return found


def template(part: Part) -> str:
    """The text of a template."""
    marks, every = helm_templates.Marks(), known()
    objects = [copy.deepcopy(one) for key, one in every.items() if key in part.names]
    texts = []
    for one in objects:
        condition = _prepared(one, marks)
        text = marks.rendered(one)
        texts.append(
            f"{{{{- if {condition} }}}}\n---\n{text}{{{{- end }}}}\n" if condition else f"---\n{text}"
        )
    body = "".join(texts)
    head = f"{{{{- /* Made from deploy/{part.source} by `make docs`: change that, not this file. */}}}}\n"
    if part.condition:
        body = f"{{{{- if {part.condition} }}}}\n{body}{{{{- end }}}}\n"
    return head + body


def _prepared(one: Object, marks: helm_templates.Marks) -> str:
    """Put the values of the chart into an object; return the condition of its own, if it has one."""
    metadata = one["metadata"]
    labels = metadata.pop("labels", {})
    labels.pop("app.kubernetes.io/part-of", None)
    metadata["labels"] = {**_aggregated(labels, marks), marks.included("topolog.labels"): None}
    return _CHANGES.get(one["kind"], _unchanged)(one, marks)


def _unchanged(one: Object, marks: helm_templates.Marks) -> str:
    return ""


def _own_account(one: Object, marks: helm_templates.Marks) -> str:
    own = ("topolog-bootstrap", "topolog-view", "topolog-quota-annotations", "topolog-evictions")
    return ".Values.rbac.create" if one["metadata"]["name"] in own else ""


def _account(one: Object, marks: helm_templates.Marks) -> str:
    """A service account; the object store may know those of the archive's processes by annotations."""
    if one["metadata"]["name"].removeprefix("topolog-") in (*ARCHIVING, "scheduler"):
        one["metadata"][marks.given("annotations", ".Values.archive.serviceAccountAnnotations")] = None
    return _own_account(one, marks)


def _aggregated(labels: Mapping[str, str], marks: helm_templates.Marks) -> Object:
    made: Object = {}
    for name, value in labels.items():
        if name.startswith("rbac.authorization.k8s.io/"):
            made |= {marks.line("if .Values.rbac.aggregate"): None, name: value, marks.line("end"): None}
        else:
            made[name] = value
    return made


def _definition(one: Object, marks: helm_templates.Marks) -> str:
    kept = {
        marks.line("if .Values.crds.keep"): None,
        "helm.sh/resource-policy": "keep",
        marks.line("end"): None,
    }
    annotations = one["metadata"].pop("annotations", {})
    if annotations:
        one["metadata"]["annotations"] = {**annotations, **kept}
    else:
        first, second, last = kept
        one["metadata"] |= {first: None, "annotations": {second: "keep"}, last: None}
    return ""


def _budget(one: Object, marks: helm_templates.Marks) -> str:
    process = one["metadata"]["name"].removeprefix("topolog-")
    if process == "valkey":
        return ""
    del one["spec"]["minAvailable"]
    field = f".Values.{process}.podDisruptionBudget"
    one["spec"] = {**one["spec"], marks.further(field): None}
    return field


def _parameters(one: Object, marks: helm_templates.Marks) -> str:
    if one["metadata"]["name"] == "topolog-admission":
        one["data"]["schedulerNames"] = marks.value('join "," .Values.admission.schedulerNames | quote')
    return ""


def _binding(one: Object, marks: helm_templates.Marks) -> str:
    if one["metadata"]["name"] == "topolog-quota-annotations":
        return ""  # A right that is restricted by a warning is not restricted.
    if "validationActions" in one["spec"]:
        one["spec"]["validationActions"] = [marks.value(".Values.admission.action"), "Audit"]
    return ""


def _certificate(one: Object, marks: helm_templates.Marks) -> str:
    """A certificate of an issuer of the cluster's, where one is named; else of a CA of its own."""
    of_store = one["metadata"]["name"] == "topolog-valkey-tls"
    if one["kind"] == "Issuer" or one["spec"].get("isCA"):
        return "not .Values.certificates.issuerRef.name"
    reference = ".Values.certificates.issuerRef"
    one["spec"]["issuerRef"] = {
        marks.line(f"if {reference}.name"): None,
        marks.further(reference): None,
        marks.line("else"): None,
        **one["spec"]["issuerRef"],
        marks.line("end"): None,
    }
    if "dnsNames" in one["spec"] and not of_store:
        one["spec"]["dnsNames"].append(marks.further(".Values.certificates.extraHosts"))
    return TLS if of_store else ""


def _workload(one: Object, marks: helm_templates.Marks) -> str:
    name = one["metadata"]["name"].removeprefix("topolog-")
    optional.put(one, manifests.DEPLOY / STORE_TLS, TLS, marks)
    values = ".Values.store.bundled" if name == "valkey" else f".Values.{name}"
    pod = one["spec"]["template"]["spec"]
    if one["kind"] == "Deployment":
        one["spec"]["replicas"] = marks.value(f"{values}.replicas")
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
    if name == "valkey":
        own["args"][2] = marks.value(f"{values}.maxMemory")
        (claim,) = one["spec"]["volumeClaimTemplates"]
        claim["spec"]["resources"]["requests"]["storage"] = marks.value(f"{values}.persistence.size")
        claim["spec"] |= {
            marks.line(f"with {values}.persistence.storageClass"): None,
            "storageClassName": marks.value("."),
            marks.line("end"): None,
        }
    return ""


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
    """Further volumes; names of ConfigMaps with a hash."""
    for volume in pod["volumes"]:
        if "configMap" in volume:
            kind = volume["configMap"]["name"].rpartition("-")[0].removeprefix("topolog-")
            name = {"valkey": "topolog.valkeyName", "kube-scheduler": "topolog.schedulerName"}[kind]
            volume["configMap"]["name"] = marks.value(f'include "{name}" .')
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


_CHANGES: Final[Mapping[str, Callable[[Object, helm_templates.Marks], str]]] = {
    "CustomResourceDefinition": _definition,
    "PodDisruptionBudget": _budget,
    "ConfigMap": _parameters,
    "ValidatingAdmissionPolicyBinding": _binding,
    "NetworkPolicy": policies.changed,
    "Issuer": _certificate,
    "Certificate": _certificate,
    "ServiceAccount": _account,
    **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), _own_account),
    "Deployment": _workload,
    "StatefulSet": _workload,
}


def unknown(objects: Iterable[Object]) -> list[tuple[str, str]]:
    """The objects that no template has."""
    has = {name for part in parts().values() for name in part.names}
    return [
        (one["kind"], one["metadata"]["name"])
        for one in objects
        if one["kind"] not in OTHERWISE
        and (one["kind"], one["metadata"]["name"]) not in has
        and not (one["kind"] == "ConfigMap" and one["metadata"]["name"].rpartition("-")[0] in GENERATED)
    ]
