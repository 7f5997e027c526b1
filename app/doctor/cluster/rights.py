"""The permissions that each process uses: those of deploy/rbac, and those that follow from declared kinds."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from app.domain import declared_objects
from app.telemetry import metrics

_LEASES = "coordination.k8s.io"


class Right(NamedTuple):
    """A permission, as a SubjectAccessReview asks for it."""

    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/binding``; or a path of the API server: ``/apis``."""
    name: str = ""
    """Of one object; empty: of every object."""
    namespace: str = ""
    """Empty: in every namespace."""

    def attributes(self) -> dict[str, dict[str, str]]:
        """The resourceAttributes or nonResourceAttributes of a review."""
        resource, _, subresource = self.resource.partition("/")
        if not resource:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.resource}}
        named = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {"resourceAttributes": {key: value for key, value in named.items() if value}}

    def __str__(self) -> str:
        of = f" {self.name}" if self.name else ""
        within = f" in namespace {self.namespace}" if self.namespace else ""
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{of}{within}"


EVICT = Right("create", "", "pods/eviction")
"""What the controller uses if an argument requests it."""

DISCOVERY = (Right("get", "", "/apis"), Right("get", "", "/apis/*"))
"""Without them nothing proves that a kind is absent (app.kube.watch.discovery).

Kubernetes grants them to every authenticated user by the ClusterRoleBinding ``system:discovery``, which
hardened clusters remove.
"""

EXCESS = (
    Right("get", "", "secrets"),
    Right("create", "", "pods"),
    Right("delete", "", "pods"),
    Right("patch", "", "pods"),
    Right("create", "", "pods/exec"),
    Right("patch", "", "nodes"),
    Right("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    Right("impersonate", "", "users"),
)
"""Permissions that no process uses, and that do the most harm."""

_OF_THE_CLUSTER = frozenset({"nodes", "clusterrolebindings", "users"})
"""Resources without a namespace: a RoleBinding grants nothing on them."""

SCHEDULER = (Right("delete", "", "pods"),)
"""Those among them that kube-scheduler uses: it preempts. A pod has one account for both."""


def within(right: Right, namespace: str) -> tuple[Right, ...]:
    """A permission as a ClusterRoleBinding grants it, and as a RoleBinding of the namespace can."""
    if right.resource in _OF_THE_CLUSTER:
        return (right,)
    return (right, right._replace(namespace=namespace))


def needed(
    kinds: Iterable[declared_objects.Kind[Any]],
    statuses: Iterable[str],
    *,
    namespace: str,
    leases: Mapping[str, str],
) -> dict[str, tuple[Right, ...]]:
    """Process -> its permissions.

    ``statuses``: names of the kinds whose status plugins write; ``leases``: process -> name of its Lease.
    """
    declared, written = tuple(kinds), frozenset(statuses)
    found: dict[str, list[Right]] = {process: [] for process in metrics.PROCESSES}
    verbs = {metrics.RECORDER: ("get", "list", "watch"), metrics.AUDITOR: ("get", "list")}
    for process, used in verbs.items():
        for group, resource in (
            ("", "nodes"),
            ("", "pods"),
            *((one.group, one.resource) for one in declared),
        ):
            found[process] += (Right(verb, group, resource) for verb in used)
        found[process] += DISCOVERY
    found[metrics.CONTROLLER] += (Right(verb, "", "pods") for verb in ("get", "list", "watch"))
    found[metrics.CONTROLLER].append(Right("patch", "", "pods/status"))
    for group in ("", "events.k8s.io"):
        found[metrics.CONTROLLER] += (Right(verb, group, "events") for verb in ("create", "patch"))
    for kind in declared:
        if kind.name in written:
            found[metrics.CONTROLLER].append(Right("get", kind.group, kind.resource))
            found[metrics.CONTROLLER].append(Right("patch", kind.group, f"{kind.resource}/status"))
    found[metrics.EXTENDER] += (Right("get", "", "pods"), Right("create", "", "pods/binding"))
    for process in (*metrics.WRITERS, metrics.COMPACTOR):
        found[process].append(Right("get", "", "namespaces", "kube-system"))
    for process in metrics.ELECTED:
        found[process].append(Right("create", _LEASES, "leases", namespace=namespace))
        found[process] += (
            Right(verb, _LEASES, "leases", leases[process], namespace) for verb in ("get", "update")
        )
    return {process: tuple(rights) for process, rights in found.items()}
