"""Permissions and definitions that the declarations of plugins need, compared with manifests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.domain import declared_objects
from app.framework import capabilities

Object = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource, verb."""

VERBS = {"recorder": ("get", "list", "watch"), "auditor": ("get", "list")}
"""Process -> what it does with the objects of every kind."""


def kinds(plugins: Iterable[capabilities.Plugin]) -> list[declared_objects.Kind[Any]]:
    """The kinds that the plugins declare."""
    return [kind for one in plugins if isinstance(one, capabilities.Owns) for kind in one.kinds()]


def statuses(plugins: Iterable[capabilities.Plugin]) -> set[str]:
    """Names of the kinds whose status the plugins write."""
    return {name for one in plugins if isinstance(one, capabilities.Reconciles) for name in one.statuses}


def needed(plugins: Sequence[capabilities.Plugin]) -> dict[str, set[Right]]:
    """Process -> its rights to objects of declared kinds."""
    found: dict[str, set[Right]] = {
        process: {(kind.group, kind.resource, verb) for kind in kinds(plugins) for verb in verbs}
        for process, verbs in VERBS.items()
    }
    written = [kind for kind in kinds(plugins) if kind.name in statuses(plugins)]
    found["controller"] = {(kind.group, kind.resource, "get") for kind in written}
    found["controller"] |= {(kind.group, f"{kind.resource}/status", "patch") for kind in written}
    return {**found, "extender": set(), "compactor": set()}


def on_request(plugins: Sequence[capabilities.Plugin]) -> set[Right]:
    """Rights of the controller that an operator grants by a component, because an argument requests them."""
    return {("", "pods/eviction", "create") for one in plugins if isinstance(one, capabilities.Evicts)}


def granted(role: Object) -> set[Right]:
    """The rights of a ClusterRole; those to single objects are left out."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        if "resourceNames" not in rule and "nonResourceURLs" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def differences(where: str, wanted: set[Right], found: set[Right]) -> list[str]:
    """What to change in a file, one sentence each."""
    return [
        *(f"{where}: add {_spelled(right)}, which a plugin declares" for right in sorted(wanted - found)),
        *(f"{where}: remove {_spelled(right)}, which no plugin declares" for right in sorted(found - wanted)),
    ]


def _spelled(right: Right) -> str:
    group, resource, verb = right
    return f"`{verb}` of {resource} in the API group {group or '(core)'}"


def definition_problems(
    where: str, definition: Object, kind: declared_objects.Kind[Any], written: Iterable[str]
) -> list[str]:
    """What differs between a CustomResourceDefinition and a kind; ``written``: kinds with a status."""
    spec = definition["spec"]
    served = [version["name"] for version in spec["versions"] if version["served"]]
    bare = [
        version["name"] for version in spec["versions"] if "status" not in version.get("subresources", {})
    ]
    pairs: Mapping[str, tuple[object, object]] = {
        "metadata.name": (definition["metadata"]["name"], f"{kind.resource}.{kind.group}"),
        "spec.group": (spec["group"], kind.group),
        "spec.names.kind": (spec["names"]["kind"], kind.manifest),
        "spec.names.plural": (spec["names"]["plural"], kind.resource),
        "spec.scope": (spec["scope"], "Namespaced" if kind.namespaced else "Cluster"),
        "served versions": (sorted(served), sorted(kind.versions)),
    }
    found = [
        f"{where}: {field}: {present!r}, but kind {kind.name} declares {declared!r}"
        for field, (present, declared) in pairs.items()
        if present != declared
    ]
    if bare and kind.name in written:
        versions = ", ".join(bare)
        found.append(f"{where}: version {versions} needs subresources.status; a plugin writes the status")
    return found
