"""Objects of the declared kinds beside nodes and pods, whichever they are.

The only module of the questions that depends on how kinds are declared (domain.schema).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.domain import declared_objects, events, model, node_sets, observations, snapshots
from app.framework import supposed_operations
from app.verbs.questions import manifests

_KEPT = ("uid", "created")
"""Fields of an object that a replacement does not change."""


def names(snapshot: snapshots.Snapshot) -> Iterator[str]:
    """The names of the declared kinds."""
    return (kind.name for kind in snapshot.schema.kinds)


def of_manifest(snapshot: snapshots.Snapshot, manifest: Mapping[str, Any]) -> str:
    """The name of the declared kind of a manifest, of which apiVersion names the group. Raises Impossible."""
    written, version = str(manifest.get("kind", "")), manifest.get("apiVersion")
    group = str(version).rpartition("/")[0] if version is not None else None
    for kind in snapshot.schema.kinds:
        if kind.manifest == written and group in (None, kind.group):
            return kind.name
    return _kind(snapshot, written if group is None else f"{written} of {version}").name


def decoded(snapshot: snapshots.Snapshot, name: str, manifest: Mapping[str, Any]) -> model.DeclaredObject:
    """The object of a manifest, decoded as the watch decodes it. Raises Impossible, also if it is invalid."""
    kind = _kind(snapshot, name)
    raw = manifests.complete(manifest, "manifest", namespaced=kind.namespaced)
    try:
        found = kind.decode(raw)
    except (ValueError, RecursionError) as error:
        raise supposed_operations.Impossible("manifest", f"{error}") from error
    return _valid(found, "manifest")


def recorded(
    snapshot: snapshots.Snapshot, name: str, held: Mapping[str, Any], field: str
) -> model.DeclaredObject:
    """The object with these fields, as the log records them. Raises Impossible."""
    found = _of_fields(_kind(snapshot, name), held, field)
    unknown = [one for one in held if one not in found.__struct_fields__]
    if unknown:
        raise supposed_operations.Impossible(field, f"{name} have no field {unknown[0]}")
    return _valid(found, field)


def get(snapshot: snapshots.Snapshot, name: str, identity: str) -> model.DeclaredObject:
    """The object of that identity. Raises Impossible."""
    found = all_of(snapshot, name).get(identity)
    if found is None:
        raise supposed_operations.Impossible("name", f"there is no {name} {identity} at {snapshot.position}")
    return found


def all_of(snapshot: snapshots.Snapshot, name: str) -> Mapping[str, model.DeclaredObject]:
    """The objects of the kind by identity. Raises Impossible for an unknown kind."""
    found: Mapping[str, model.DeclaredObject] = snapshot.all(_kind(snapshot, name))
    return found


def namespaced(snapshot: snapshots.Snapshot, name: str) -> bool:
    """Whether objects of the kind have a namespace. Raises Impossible for an unknown kind."""
    return _kind(snapshot, name).namespaced


def fields(found: model.DeclaredObject) -> dict[str, Any]:
    """The fields of the object as the log records them; those with their default value are left out."""
    held: dict[str, Any] = msgspec.to_builtins(found)
    return held


def replaced(
    snapshot: snapshots.Snapshot, name: str, after: model.DeclaredObject
) -> Sequence[events.AnyEvent]:
    """The events after which the snapshot holds the object; one that exists keeps its uid and age."""
    kind = _kind(snapshot, name)
    before = all_of(snapshot, name).get(after.key)
    if before is not None:
        held, known = fields(after), fields(before)
        held.update({field: known[field] for field in _KEPT if field in known})
        after = _of_fields(kind, held, "manifest")
    return observations.declared(kind, before, after)


def deleted(
    snapshot: snapshots.Snapshot, name: str, found: model.DeclaredObject
) -> Sequence[events.AnyEvent]:
    """The events after which the object no longer exists."""
    return (_kind(snapshot, name).gone(found.namespace, found.name, found.uid),)


def observed_in(
    snapshot: snapshots.Snapshot, event: events.AnyEvent
) -> tuple[str, model.DeclaredObject] | None:
    """The kind and the object that the event is an observation of; None for any other event."""
    if isinstance(event, events.ObjectObserved):
        return event.kind, snapshot.schema.read(event.kind, event.data)
    return None


def counting(snapshot: snapshots.Snapshot) -> Callable[[model.Pod, model.NodeName], tuple[str, ...]]:
    """A function that returns the counts that a pod raises on a node, for thousands of pods or nodes."""
    # The counters of kinds without objects raise nothing, and are not asked.
    (contributions, _), _ = snapshot.schema.gates(snapshot.objects)
    nodes, objects, schema = snapshot.nodes, snapshot.objects, snapshot.schema

    def counts(pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
        known = nodes.get(node)
        raised = contributions(pod, known, objects) if known else schema.contributed(pod, None, objects)
        return tuple([key for key, _ in raised])

    return counts


def counted_apart(snapshot: snapshots.Snapshot, nodes: node_sets.Names) -> Iterable[model.NodeName]:
    """One of the nodes for all of them on which every pod raises the same counts."""
    keys: set[str] = set()
    for counter in snapshot.schema.counters:
        if counter.node_labels is not None and counter.node_fields == ("labels",):
            keys.update(counter.node_labels(snapshot.objects))
        elif counter.node_fields:
            return nodes
    parts: list[Collection[model.NodeName]] = [nodes]
    for key in sorted(keys):
        parts = [part for whole in parts for part in _parted(snapshot, whole, key)]
    return [next(iter(part)) for part in parts if part]


def _parted(
    snapshot: snapshots.Snapshot, nodes: Collection[model.NodeName], key: str
) -> Iterable[Collection[model.NodeName]]:
    """The nodes by the value of a label."""
    column = snapshot.topology[key]
    if len(column.domains) < len(nodes):
        whole = frozenset(nodes)
        found = [whole & column[value] for value in column]
        return [*found, whole.difference(*found)]
    values: dict[str | None, list[model.NodeName]] = {}
    for name in nodes:
        node = snapshot.nodes.get(name)
        values.setdefault(None if node is None else node.labels.get(key), []).append(name)
    return values.values()


def _kind(snapshot: snapshots.Snapshot, name: str) -> declared_objects.Kind[Any]:
    """The kind, by its name, by that of its manifests, or by what the subjects of its objects begin with."""
    named = (kind for kind in snapshot.schema.kinds if kind.manifest == name)
    kind = snapshot.schema.called(name) or next(named, None)
    if kind is None:
        declared = ", ".join(sorted(names(snapshot)))
        raise supposed_operations.Impossible("kind", f"there is no kind {name}; declared kinds: {declared}")
    return kind


def _of_fields(kind: declared_objects.Kind[Any], held: Mapping[str, Any], field: str) -> model.DeclaredObject:
    try:
        found: model.DeclaredObject = msgspec.convert(held, kind.type)
    except msgspec.ValidationError as error:
        raise supposed_operations.Impossible(field, f"{error}") from error
    return found


def _valid(found: model.DeclaredObject, field: str) -> model.DeclaredObject:
    """The object, unless its kind keeps it with errors because it is invalid."""
    problems = fields(found).get("errors")
    if problems:
        raise supposed_operations.Impossible(field, "; ".join(map(str, problems)))
    return found
