"""The parts of the chart that the overlays have, too: which objects, on what condition, with which values."""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from tests.support import kustomizations, manifests
from tests.support.charts import helm_templates, policies, workloads

Object = helm_templates.Object

WORKERS: Final = ("recorder", "controller", "auditor", "compactor")
PROCESSES: Final = (*WORKERS, "extender", "view", "bootstrap")
"""Each has a group of values of the same shape."""
BOOTSTRAP: Final = 'eq (include "topolog.bootstrapped" .) "true"'


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
        "resourcequota": Part(
            "base",
            # In kube-system it would limit the pods of others, and none needs it.
            'and .Values.resourceQuota.enabled (ne .Release.Namespace "kube-system")',
            frozenset({("ResourceQuota", "topolog-critical-pods")}),
        ),
        **{each: Part("base", "", _of_process(each)) for each in WORKERS},
        "extender": Part("base", "", _of_process("extender") | health),
        "scheduler-accounts": Part(
            "components/sidecar",
            f"and .Values.rbac.create ({workloads.SIDECAR})",
            _named("components/sidecar") - _of_process("extender"),
        ),
        "view": Part("components/view", ".Values.view.enabled", _named("components/view")),
        "bootstrap": Part("components/bootstrap", BOOTSTRAP, _named("components/bootstrap")),
        "valkey": Part(
            "components/bundled-valkey", ".Values.store.bundled.enabled", _named("components/bundled-valkey")
        ),
        "store-tls": Part(workloads.STORE_TLS, workloads.TLS, _named(workloads.STORE_TLS)),
        "networkpolicy": Part(
            "components/networkpolicies",
            ".Values.networkPolicy.enabled",
            _named("components/networkpolicies"),
        ),
        "networkpolicy-extender": Part(
            "overlays/existing-scheduler",
            "and .Values.networkPolicy.enabled"
            ' (or .Values.networkPolicy.schedulerCIDRs (eq .Values.scheduler.mode "existing"))',
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
CERTIFICATES: Final = "components/cert-manager"
ANNOTATIONS: Final = "components/quota-annotations"
EVICTIONS: Final = "components/evictions"
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
    for folder in (CERTIFICATES, ANNOTATIONS, EVICTIONS, workloads.STORE_TLS):
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
    """A service account; the object store may identify those of the archive's processes by annotations."""
    if one["metadata"]["name"].removeprefix("topolog-") in (*workloads.ARCHIVING, "scheduler"):
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
    return workloads.TLS if of_store else ""


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
    "Deployment": workloads.changed,
    "StatefulSet": workloads.changed,
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
