"""Objects of the declared kinds beside nodes and pods, whichever they are.

The only module of the questions that depends on how kinds are declared.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from app.domain import counters, events, model, snapshots
from app.framework import supposing
from app.kube import errors as kube_errors
from app.kube.objects import decoding
from app.kube.watch import kinds as watched
from app.verbs.questions import manifests

DECLARED: Mapping[str, watched.Kind] = {
    kind.name: kind for kind in watched.ALL if kind not in (watched.NODES, watched.PODS)
}
_TYPES: Mapping[str, type[model.WorkloadPolicy]] = {watched.POLICIES.name: model.WorkloadPolicy}
Declared = model.WorkloadPolicy
"""An object of a declared kind."""


def decoded(kind: str, manifest: Mapping[str, Any]) -> Declared:
    """The object of a manifest, decoded as the watch decodes it. Raises Impossible, also if it is invalid."""
    declared = _kind(kind)
    try:
        raw = manifests.complete(manifest, "manifest", namespaced=True)
        found, _ = declared.decode(raw)
    except kube_errors.Undecodable as error:
        raise supposing.Impossible("manifest", f"{error}") from error
    return _valid(found, "manifest")


def recorded(kind: str, held: Mapping[str, Any], field: str) -> Declared:
    """The object with these fields, as the log records them. Raises Impossible."""
    _kind(kind)
    try:
        found = msgspec.convert(held, _TYPES[kind], strict=True)
    except msgspec.ValidationError as error:
        raise supposing.Impossible(field, f"{error}") from error
    unknown = [name for name in held if name not in found.__struct_fields__]
    if unknown:
        raise supposing.Impossible(field, f"{kind} have no field {unknown[0]}")
    return _valid(found, field)


def get(snapshot: snapshots.Snapshot, kind: str, name: str) -> Declared:
    """The object of that name. Raises Impossible."""
    found = _kind(kind).find(snapshot, name)
    if not isinstance(found, Declared):
        raise supposing.Impossible("name", f"there is no {kind} {name} at {snapshot.position}")
    return found


def exists(snapshot: snapshots.Snapshot, kind: str, name: str) -> bool:
    """Whether there is an object of that name. Raises Impossible for an unknown kind."""
    return _kind(kind).find(snapshot, name) is not None


def fields(found: Declared) -> dict[str, Any]:
    """The fields of the object as the log records them; those with their default value are left out."""
    held: dict[str, Any] = msgspec.to_builtins(found)
    return held


def identity(kind: str, found: Declared) -> str:
    """NAMESPACE/NAME of the object, or NAME."""
    return _kind(kind).identity(found)


def replaced(snapshot: snapshots.Snapshot, kind: str, after: Declared) -> Sequence[events.AnyEvent]:
    """The events after which the snapshot holds the object; one of the same name keeps its uid."""
    declared = _kind(kind)
    before = declared.find(snapshot, declared.identity(after))
    if isinstance(before, Declared):
        after = msgspec.structs.replace(after, uid=before.uid, created=before.created)
    return declared.observe(before, after)


def deleted(kind: str, found: Declared) -> Sequence[events.AnyEvent]:
    """The events after which the object no longer exists."""
    return (_kind(kind).gone(found.namespace, found.name, found.uid, False),)


def observed_in(event: events.AnyEvent) -> tuple[str, Declared] | None:
    """The kind and the object that the event is an observation of; None for any other event."""
    if isinstance(event, events.PolicySeen):
        return watched.of(event.policy).name, event.policy
    return None


def all_of(snapshot: snapshots.Snapshot, kind: str) -> Mapping[str, Declared]:
    """The objects of the kind by identity."""
    return {
        name: found for name, found in _kind(kind).listed(snapshot).items() if isinstance(found, Declared)
    }


def counts_of(snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
    """The counts to which the pod contributes on the node."""
    policies = tuple(snapshot.policies_of(pod.namespace))
    return tuple(counters.contributions(pod, snapshot.nodes.get(node), policies))


def _kind(kind: str) -> watched.Kind:
    declared = DECLARED.get(kind)
    if declared is None:
        raise supposing.Impossible(
            "kind", f"there is no kind {kind}; declared kinds: {', '.join(sorted(DECLARED))}"
        )
    return declared


def _valid(found: decoding.Object, field: str) -> Declared:
    if not isinstance(found, Declared):
        _other(found)
    if found.errors:
        raise supposing.Impossible(field, "; ".join(found.errors))
    return found


def _other(found: object) -> NoReturn:
    raise TypeError(f"not an object of a declared kind: {type(found).__name__}")
