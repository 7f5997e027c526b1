"""Checks a cluster before Topolog is installed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app import plurals
from app.doctor import api_reader, own_pods
from app.doctor.cluster import catalog, checks, examination, rights
from app.framework import doctor_checks

CREATED: Final = (
    *(
        ("", name)
        for name in ("namespaces", "resourcequotas", "serviceaccounts", "configmaps", "secrets", "services")
    ),
    *(("apps", name) for name in ("deployments", "statefulsets")),
    ("policy", "poddisruptionbudgets"),
    ("networking.k8s.io", "networkpolicies"),
    *(
        ("rbac.authorization.k8s.io", name)
        for name in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
)
"""Group and resource of each kind that the manifests of deploy/ have, and of Secrets, where Helm keeps a
release."""
_CLUSTERED: Final = frozenset(
    (
        *("namespaces", "clusterroles", "clusterrolebindings", "customresourcedefinitions"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    )
)
_NO_CLASS: Final = (
    "install a provisioner of volumes and make its StorageClass the default one, or set store.url to a server"
    " of your own"
)
_DEFAULT: Final = tuple(
    f"{group}.kubernetes.io/is-default-class" for group in ("storageclass", "storageclass.beta")
)
"""Annotations of a default StorageClass: Kubernetes honours the beta one, too."""


def examine(
    reader: api_reader.ApiReader, wanted: examination.Expected, *, bundled: bool
) -> Iterator[doctor_checks.Result]:
    """All checks; ``bundled``: whether the store will run in the cluster."""
    yield from examination.each(
        (catalog.VERSION,), lambda: [checks.version(str(reader.get("/version").get("gitVersion", "")))]
    )
    yield from examination.each(
        (catalog.DEFINITIONS,), lambda: list(_definitions(examination.definitions(reader, wanted)))
    )
    yield from examination.each((catalog.INSTALLER,), lambda: [_installer(reader, wanted.namespace)])
    yield from examination.each((catalog.VACANT,), lambda: [_vacant(reader, wanted.namespace)])
    if bundled:
        path = "/apis/storage.k8s.io/v1/storageclasses"
        yield from examination.each((catalog.STORAGE,), lambda: [storage(reader.items(path))])


def storage(classes: Sequence[Mapping[str, Any]]) -> doctor_checks.Result:
    """C14."""
    names = [str(one["metadata"]["name"]) for one in classes]
    usual = [
        str(one["metadata"]["name"])
        for one in classes
        if any((one["metadata"].get("annotations") or {}).get(each) == "true" for each in _DEFAULT)
    ]
    if usual:
        return catalog.STORAGE.ok("StorageClass", usual[0])
    if names:
        return catalog.STORAGE.problem(
            "StorageClass", f"none of {', '.join(names)}", known={"CLASS": names[0]}
        )
    return catalog.STORAGE.problem("StorageClass", "there is none", fix=_NO_CLASS)


def _definitions(found: Sequence[doctor_checks.Result]) -> Iterator[doctor_checks.Result]:
    """A definition that does not exist is created by the installation."""
    for one in found:
        absent = one.verdict == doctor_checks.PROBLEM and one.seen == checks.UNDEFINED
        yield catalog.DEFINITIONS.ok(one.subject, "not defined yet") if absent else one


def _installer(reader: api_reader.ApiReader, namespace: str) -> doctor_checks.Result:
    wanted = [
        rights.Right("create", group, resource, "", "" if resource in _CLUSTERED else namespace)
        for group, resource in CREATED
    ]
    lacking = [str(one) for one in wanted if not reader.allowed(one.attributes())]
    if lacking:
        return catalog.INSTALLER.problem("the user of the kubeconfig", f"may not {plurals.listed(lacking)}")
    return catalog.INSTALLER.ok("the user of the kubeconfig", f"may create all {len(wanted)} kinds")


def _vacant(reader: api_reader.ApiReader, namespace: str) -> doctor_checks.Result:
    subject = f"namespace {namespace}"
    found = own_pods.of_namespace(reader, namespace)
    if found:
        return catalog.VACANT.warning(subject, f"{len(found)} pods of Topolog run there")
    return catalog.VACANT.ok(subject, "has no pod of Topolog")
