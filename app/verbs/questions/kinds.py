"""Objects of the declared kinds beside nodes and pods, whichever they are.

The only module of the questions that depends on how kinds are declared (domain.schema).
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from app.domain import declared_objects, events, model, node_sets, observations, snapshots
from app.framework import supposed_operations
from app.kube.objects import merge_patches
from app.verbs.questions import errors, manifests

_KEPT = ("uid", "created")
"""Fields of an object that a replacement does not change."""
_COMPARED = 100
"""Fields of one object up to which their names are compared: no definition has more, and a question may."""


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
    """The object of a manifest, decoded as the watch decodes it. Raises Impossible, also if it is invalid.

    A field that is misspelt is refused, as by kubectl: the watch has none, and its decoder would ignore it.
    A manifest is refused, too, if it lacks a part of the status that the decoder keeps: it would count as 0.
    """
    kind = _kind(snapshot, name)
    raw = manifests.complete(manifest, "manifest", namespaced=kind.namespaced)
    for path, lacks, known in _misspelt(manifest.get("spec"), kind.spec or {}, "spec"):
        raise _unknown_field(kind, "manifest", f"{path}.", lacks, known)
    try:
        found: model.DeclaredObject = kind.decode(raw)
    except (ValueError, RecursionError) as error:
        raise supposed_operations.Invalid("manifest", f"{error}") from error
    status = manifest.get("status")
    for field, author in kind.status.items():
        if not isinstance(status, dict) or status.get(field) is None:
            text = f"a value is required: in a cluster, {author} computes it"
            raise supposed_operations.Invalid(f"manifest.status.{field}", text)
    return _valid(kind, found, "manifest")


def recorded(
    snapshot: snapshots.Snapshot, name: str, held: Mapping[str, Any], field: str
) -> model.DeclaredObject:
    """The object with these fields, as the log records them. Raises Invalid."""
    kind = _kind(snapshot, name)
    _refuse_unknown(kind, held, field)
    return _valid(kind, _of_fields(kind, held, field), field)


def patched(snapshot: snapshots.Snapshot, name: str, identity: str, patch: object) -> model.DeclaredObject:
    """The object of that identity after a merge patch (RFC 7386) of its fields. Raises Impossible."""
    _refuse_unknown(_kind(snapshot, name), patch, "patch")
    merged = merge_patches.merge(fields(get(snapshot, name, identity)), patch)
    try:
        return recorded(snapshot, name, merged if isinstance(merged, dict) else {}, "patch")
    except supposed_operations.Invalid as error:
        # Another state of the object may have a valid patch.
        raise supposed_operations.Impossible(error.field, error.text) from error


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


def became(
    before: snapshots.Snapshot, after: snapshots.Snapshot, name: str, identity: str
) -> Sequence[events.AnyEvent]:
    """The events after which an object is as in ``after``; none if it is, or if its kind is unknown."""
    try:
        held, wanted = all_of(before, name).get(identity), all_of(after, name).get(identity)
    except supposed_operations.Impossible:
        return ()
    if wanted is not None and wanted != held:
        return replaced(before, name, wanted)
    return deleted(before, name, held) if wanted is None and held is not None else ()


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
        raise supposed_operations.Invalid("kind", f"there is no kind {name}; declared kinds: {declared}")
    return kind


def _of_fields(kind: declared_objects.Kind[Any], held: Mapping[str, Any], field: str) -> model.DeclaredObject:
    try:
        found: model.DeclaredObject = kind.converter.convert(held)
    except msgspec.ValidationError as error:
        raise supposed_operations.Invalid(field, f"{error}") from error
    return found


def _valid(kind: declared_objects.Kind[Any], found: model.DeclaredObject, field: str) -> model.DeclaredObject:
    """The object, unless its kind keeps it with errors, or refuses it."""
    problems = fields(found).get("errors") or kind.check(found)
    if problems:
        raise supposed_operations.Invalid(field, "; ".join(map(str, problems)))
    return found


def _refuse_unknown(kind: declared_objects.Kind[Any], held: object, field: str) -> None:
    for path, name, known in _unknown(held, _shape(kind), ""):
        raise _unknown_field(kind, field, path, name, known)


def _unknown_field(
    kind: declared_objects.Kind[Any], field: str, path: str, name: str, known: Collection[str]
) -> supposed_operations.Invalid:
    named = f"{path}{name}"[:80]
    return supposed_operations.Invalid(
        field, f"{kind.name} have no field {named}{errors.nearest(name, known)}"
    )


@functools.cache
def _shape(kind: declared_objects.Kind[Any]) -> inspect.Type:
    return inspect.type_info(kind.type)


Unknown = tuple[str, str, Collection[str]]
"""What a field is below, its name, and the names that there are."""


def _misspelt(held: object, fields_of: declared_objects.Fields, path: str) -> Iterator[Unknown]:
    """The fields of a manifest that its kind does not have."""
    if isinstance(held, dict) and fields_of:
        known = [name for name in fields_of if name != declared_objects.MORE]
        compared = len(held) <= _COMPARED
        for name, value in held.items():
            if name in known:
                yield from _misspelt(value, fields_of[name], f"{path}.{name}")
            elif declared_objects.MORE not in fields_of or (compared and errors.resembles(name, known)):
                yield path, name, known
    elif isinstance(held, list):
        for at, one in enumerate(held):
            yield from _misspelt(one, fields_of, f"{path}[{at}]")


def _unknown(held: object, shape: inspect.Type, path: str) -> Iterator[Unknown]:
    """The fields that the kept part of an object does not have: msgspec leaves them out."""
    match shape, held:
        case inspect.Metadata(type=inner), _:
            yield from _unknown(held, inner, path)
        case inspect.UnionType(types=types), _:
            for one in types:
                yield from _unknown(held, one, path)
        case inspect.StructType(fields=declared), dict():
            types_of = {one.encode_name: one.type for one in declared}
            for name, value in held.items():
                if name not in types_of:
                    yield path, name, types_of
                else:
                    yield from _unknown(value, types_of[name], f"{path}{name}.")
        case inspect.DictType(value_type=inner), dict():
            for key, value in held.items():
                yield from _unknown(value, inner, f"{path}{key}.")
        case ((inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner)), list()):
            for at, value in enumerate(held):
                yield from _unknown(value, inner, f"{path}{at}.")
