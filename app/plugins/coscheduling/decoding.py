"""Decodes PodGroups of all families, Workloads and the network topology.

What cannot be read is an error of the object, which is kept and shown; its members are then refused with the
reason. Sizes are limited, because a gang is placed in one append.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from app.domain.fit import quantities
from app.framework import manifests
from app.plugins.coscheduling import gang_model, options

G = TypeVar("G", bound=gang_model.PodGroup)
Json = bytes | msgspec.Raw

RESOURCES, GROUPS, LAYERS = 100, 1_000, 16
"""Maximum resources of minResources, groups of a Workload, and layers of a topology."""
_TEXT = 64 * 1024
"""Maximum characters of an annotation that is kept."""
_REASON = 512
_PARENT = "spec.parentCompositePodGroupName"
_MAX_SECONDS = 2**31 - 1


class _Manifest(manifests.ApiStruct):
    metadata: manifests.Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")


_manifest = msgspec.json.Decoder(_Manifest)


class _Rules:
    """The rules of the parts of a specification, and what is wrong with them."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def part(self, path: str, found: object) -> Mapping[str, Any]:
        """An object of the specification; empty if there is none."""
        if found is None:
            return {}
        if not isinstance(found, dict):
            self.errors.append(f"{path} must be an object")
            return {}
        return found

    def members(self, path: str, found: object) -> int:
        """A number of members; 0 if there is none."""
        return self._number(path, found, gang_model.LARGEST, "members are placed together")

    def seconds(self, path: str, found: object) -> int:
        """A number of seconds; 0 if there is none."""
        return self._number(path, found, _MAX_SECONDS, "seconds are allowed")

    def _number(self, path: str, found: object, most: int, what: str) -> int:
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int):
            self.errors.append(f"{path} must be a whole number")
            return 0
        if found < 0:
            self.errors.append(f"{path} is negative: {manifests.shortened(str(found), 40)}")
            return 0
        if found > most:
            text = manifests.shortened(str(found), 40)
            self.errors.append(f"{path} is {text}; at most {most:,} {what}")
            return 0
        return found

    def text(self, path: str, found: object) -> str:
        """A text; empty if there is none."""
        if found is None:
            return ""
        if not isinstance(found, str) or not found.isprintable() or len(found) > 317:
            self.errors.append(f"{path} must be a short text")
            return ""
        return found

    def amounts(self, path: str, found: object) -> dict[str, int]:
        """A resource list."""
        given = self.part(path, found)
        if len(given) > RESOURCES:
            self.errors.append(f"{path} has {len(given)} resources; at most {RESOURCES} are allowed")
            return {}
        amounts: dict[str, int] = {}
        for resource, value in sorted(given.items()):
            try:
                amount = quantities.parse(value, resource) if not isinstance(value, bool) else -1
            except (ValueError, OverflowError, TypeError):
                amount = -1
            if amount < 0:
                self.errors.append(f"{path}.{manifests.shortened(resource, 80)} is not a quantity")
            else:
                amounts[resource] = amount
        return amounts

    def few(self) -> tuple[str, ...]:
        """The first errors."""
        return tuple([manifests.shortened(error, _REASON) for error in self.errors[:10]])


class _Reader(_Rules):
    """The specification of one object, and what is wrong with it."""

    def __init__(self, raw: Json) -> None:
        """Raises ValueError if the object cannot be identified."""
        super().__init__()
        seen = _manifest.decode(raw)
        self.metadata = seen.metadata
        self.spec = self.part("spec", msgspec.json.decode(seen.spec))

    def group(
        self,
        kind: type[G],
        *,
        minimum: int,
        timeout: int = 0,
        resources: gang_model.Amounts | None = None,
        topology_key: str = "",
        disrupted_whole: bool = False,
    ) -> G:
        """The PodGroup."""
        meta = self.metadata
        kept = {key: text for key, text in (meta.annotations or {}).items() if key in options.ANNOTATIONS}
        for key in sorted(key for key, text in kept.items() if len(text) > _TEXT):
            self.errors.append(f"annotation {key} has more than {_TEXT:,} characters")
            del kept[key]
        return kind(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            created=meta.creation_timestamp or "",
            options=kept,
            errors=self.few(),
            minimum=minimum,
            timeout=timeout,
            resources=resources or {},
            topology_key=topology_key,
            disrupted_whole=disrupted_whole,
        )


def koordinator(raw: Json) -> gang_model.KoordinatorPodGroup:
    """Koordinator's PodGroup. Raises ValueError only if it cannot be identified; so do the others."""
    return _declared(raw, gang_model.KoordinatorPodGroup)


def sigs(raw: Json) -> gang_model.SigsPodGroup:
    """The PodGroup of the sigs' scheduler plugins."""
    return _declared(raw, gang_model.SigsPodGroup)


def _declared(raw: Json, kind: type[G]) -> G:
    read = _Reader(raw)
    spec = read.spec
    return read.group(
        kind,
        minimum=max(1, read.members("spec.minMember", spec.get("minMember"))),
        timeout=read.seconds("spec.scheduleTimeoutSeconds", spec.get("scheduleTimeoutSeconds")),
        resources=read.amounts("spec.minResources", spec.get("minResources")),
    )


def native(raw: Json) -> gang_model.NativePodGroup:
    """The PodGroup of Kubernetes 1.36 and later."""
    read = _Reader(raw)
    constraints = read.part("spec.schedulingConstraints", read.spec.get("schedulingConstraints"))
    keys = constraints.get("topology") or []
    key = ""
    if not isinstance(keys, list) or len(keys) > 1:
        read.errors.append("spec.schedulingConstraints.topology must have one item at most")
    elif keys:
        path = "spec.schedulingConstraints.topology[0]"
        key = read.text(f"{path}.key", read.part(path, keys[0]).get("key"))
    if parent := read.spec.get("parentCompositePodGroupName"):
        name = manifests.shortened(str(parent), 80)
        read.errors.append(f"{_PARENT} is {name}: composite pod groups are not modelled")
    return read.group(
        gang_model.NativePodGroup,
        minimum=_minimum(read, "spec.schedulingPolicy", read.spec.get("schedulingPolicy")),
        topology_key=key,
        disrupted_whole=_disrupted_whole(read.spec.get("disruptionMode")),
    )


def _disrupted_whole(found: object) -> bool:
    """Of disruptionMode: an object since Kubernetes 1.37, a text in 1.36."""
    return found == "PodGroup" or (isinstance(found, dict) and found.get("all") is not None)


def _minimum(read: _Reader, path: str, found: object) -> int:
    """minCount of a scheduling policy; 0 for the policy ``basic``."""
    gang = read.part(path, found).get("gang")
    return read.members(f"{path}.gang.minCount", read.part(f"{path}.gang", gang).get("minCount"))


def check(found: gang_model.PodGroup, *, least: int = 0) -> tuple[str, ...]:
    """What a PodGroup with these fields would be refused for; ``least``: the smallest minimum."""
    rules = _Rules()
    if rules.members("minimum", found.minimum) < least and not rules.errors:
        rules.errors.append(f"minimum is {found.minimum}; at least {least} is required")
    rules.seconds("timeout", found.timeout)
    rules.amounts("resources", found.resources)
    rules.text("topology_key", found.topology_key)
    for key, value in found.options.items():
        if key not in options.ANNOTATIONS or len(value) > _TEXT:
            rules.errors.append(f"options.{manifests.shortened(key, 80)} is not an annotation that is kept")
    return rules.few()


def check_workload(found: gang_model.Workload) -> tuple[str, ...]:
    """What a Workload with these fields would be refused for."""
    rules = _Rules()
    if len(found.groups) > GROUPS:
        rules.errors.append(f"groups has {len(found.groups)} entries; at most {GROUPS} are allowed")
    for name, minimum in found.groups.items():
        rules.members(f"groups.{rules.text('groups', name)}", minimum)
    return rules.few()


def check_topology(found: gang_model.NetworkTopology) -> tuple[str, ...]:
    """What a network topology with these fields would be refused for."""
    rules = _Rules()
    if len(found.layers) > LAYERS:
        rules.errors.append(f"layers has {len(found.layers)} entries; at most {LAYERS} are allowed")
    names = [rules.text("layers", layer.name) for layer in found.layers]
    if len(set(names)) < len(names):
        rules.errors.append("layers names a layer twice")
    return rules.few()


def workload(raw: Json) -> gang_model.Workload:
    """The Workload of Kubernetes 1.35."""
    read = _Reader(raw)
    listed = read.spec.get("podGroups") or []
    groups: dict[str, int] = {}
    if not isinstance(listed, list) or len(listed) > GROUPS:
        read.errors.append(f"spec.podGroups must be a list of at most {GROUPS} groups")
        listed = []
    for number, one in enumerate(listed):
        path = f"spec.podGroups[{number}]"
        found = read.part(path, one)
        name = read.text(f"{path}.name", found.get("name"))
        if name in groups:
            read.errors.append(f"{path}.name {name} occurs twice")
        groups[name] = _minimum(read, f"{path}.policy", found.get("policy"))
    meta = read.metadata
    return gang_model.Workload(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or "",
        groups=groups,
        errors=read.few(),
    )


def topology(raw: Json) -> gang_model.NetworkTopology:
    """The network topology: its layers from the top to the one above the nodes."""
    read = _Reader(raw)
    listed = read.spec.get("networkTopologySpec") or []
    parents: dict[str, str] = {}
    labels: dict[str, tuple[str, ...]] = {}
    if not isinstance(listed, list) or len(listed) > LAYERS:
        read.errors.append(f"spec.networkTopologySpec must be a list of at most {LAYERS} layers")
        listed = []
    for number, one in enumerate(listed):
        path = f"spec.networkTopologySpec[{number}]"
        found = read.part(path, one)
        name = read.text(f"{path}.topologyLayer", found.get("topologyLayer"))
        parents[name] = read.text(f"{path}.parentTopologyLayer", found.get("parentTopologyLayer"))
        keys = found.get("labelKey") or []
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            read.errors.append(f"{path}.labelKey must be a list of label keys")
            keys = []
        labels[name] = tuple(keys)
    layers = _from_the_top(read, parents, labels)
    meta = read.metadata
    return gang_model.NetworkTopology(
        uid=meta.uid, namespace="", name=meta.name, layers=layers, errors=read.few()
    )


NODES = "NodeTopologyLayer"
"""The layer of the nodes themselves, from which the others are found."""
ROOT = "ClusterTopologyLayer"
"""The implicit layer above all others."""


def _from_the_top(
    read: _Reader, parents: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
) -> tuple[gang_model.Layer, ...]:
    """The layers above the nodes, by their parents."""
    if not parents:
        return ()
    if NODES not in parents:
        read.errors.append(f"spec.networkTopologySpec has no layer {NODES}")
        return ()
    found: list[gang_model.Layer] = []
    at = parents[NODES]
    while at and at != ROOT:
        if at not in parents:
            read.errors.append(f"layer {at} is a parent, and is not listed")
            return ()
        if any(layer.name == at for layer in found):
            read.errors.append(f"layer {at} is above itself")
            return ()
        found.append(gang_model.Layer(at, labels[at]))
        at = parents[at]
    return tuple(reversed(found))
