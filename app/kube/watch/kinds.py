"""The kinds of objects that Topolog watches: paths, decoding, identity and events of each."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from app.domain import declared_objects, events, model, observations, snapshots
from app.domain import schema as schemas
from app.kube import errors
from app.kube.objects import decoding, schema

PAGE = 500
"""Objects in one page of a list, as client-go requests them."""

MARKS = "rv:"
"""Prefix of the names of marks (WatchedKind.mark)."""

Events = tuple[events.AnyEvent, ...]
_T = TypeVar("_T", model.Pod, model.Node)


class UndecodableObject(NamedTuple):
    """An object that could not be decoded and was set aside."""

    kind: str
    name: str
    """namespace/name as far as it could be read."""
    reason: str
    identity: str = ""
    """Identity of the object; empty if unreadable. The object exists, although it cannot be decoded."""


class Page(NamedTuple):
    """A part of a list."""

    observed: list[decoding.Observed]
    undecodable: list[UndecodableObject]
    version: str
    """resourceVersion of the whole list."""
    continuation: str
    """Token of the next page; empty at the last."""


@dataclass(frozen=True)
class WatchedKind:
    """One resource of the API, and what its objects mean to the log. Pure: nothing here does I/O."""

    name: str
    paths: tuple[str, ...]
    """Of the collection over all namespaces, one for each version: the first that is served is watched."""
    subject_prefix: str
    """Of the subjects of its events: ``pod`` in ``pod:UID``."""
    form: Callable[[], str]
    """What is kept of an object, as a digest."""
    decode: Callable[[decoding.Json], tuple[decoding.Object, str]]
    identify: Callable[[str, str, str], str]
    """(namespace, name, uid) -> identity."""
    observe: Callable[[decoding.Object | None, decoding.Object], Events]
    """(as known, as observed) -> the events that the observation implies."""
    gone: Callable[[str, str, str, bool], events.AnyEvent]
    """(namespace, name, uid, assumed) -> the event of the object's end."""
    listed: Callable[[snapshots.Snapshot], Mapping[str, decoding.Object]]
    """Identity -> object, as observed: a complete list replaces exactly these."""
    find: Callable[[snapshots.Snapshot, str], decoding.Object | None]
    """The object of an identity, observed or known otherwise."""
    shared: Callable[[schemas.Schema, decoding.Object | None, decoding.Object | None], bool]
    """(schema, before, after) -> whether the change moves counts of many pods; None: does not exist."""
    namespaced: bool = True

    @property
    def mark(self) -> str:
        """The name under which the store keeps where the watch resumes."""
        return f"{MARKS}{self.name}"

    def marked(self, version: str) -> str:
        """The value of the mark for a version (a resourceVersion), with the form of what is recorded.

        There is one mark for all forms: a watch that resumed at an older version than the last recorded one
        would record former states again, such as a pod without its node. Empty while a list is recorded.
        """
        return f"{self.form()}:{version}"

    def differs(self, marks: Mapping[str, str]) -> bool:
        """Whether objects were recorded in another form: less of them may be kept."""
        return not marks.get(self.mark, self.marked("")).startswith(self.marked(""))

    def resumed(self, marks: Mapping[str, str]) -> str:
        """The version from which the watch resumes; empty if there is none for this form."""
        return "" if self.differs(marks) else marks.get(self.mark, "").partition(":")[2]

    def identity(self, seen: decoding.Object) -> str:
        """The key of the object in a snapshot: uid of pods, name of nodes, namespace/name or
        name of declared kinds."""
        return self.identify("" if isinstance(seen, model.Node) else seen.namespace, seen.name, seen.uid)

    def subject(self, identity: str) -> str:
        """The subject of the object's events."""
        return f"{self.subject_prefix}:{identity}"

    def path_of(self, collection: str, found: decoding.Object) -> str:
        """The path of an object, below one of ``paths``."""
        if isinstance(found, model.Node) or not self.namespaced:
            return f"{collection}/{found.name}"
        root, _, resource = collection.rpartition("/")
        return f"{root}/namespaces/{found.namespace}/{resource}/{found.name}"

    def page(self, body: bytes) -> Page:
        """Decode a page and set undecodable objects aside. Raises Undecodable if the page is not a list."""
        if self is PODS:
            try:
                whole = _pods.decode(body)
                observed = decoding.pods_seen(whole.items or ())
                return Page(observed, [], whole.metadata.resource_version, whole.metadata.continue_ or "")
            except (ValueError, RecursionError):
                pass  # at least one pod is bad: decode them one by one to find it
        try:
            raw = _raws.decode(body)
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable(self.name, "(list)", str(problem)) from problem
        page = Page([], [], raw.metadata.resource_version, raw.metadata.continue_ or "")
        for item in raw.items or ():
            try:
                page.observed.append(decoding.Observed(*self.decode(item)))
            except errors.Undecodable as bad:
                page.undecodable.append(self.undecodable(item, bad))
        return page

    def undecodable(self, raw: decoding.Json, bad: errors.Undecodable) -> UndecodableObject:
        """The record of an object that cannot be decoded."""
        namespace, name, uid = decoding.identity(raw)
        return UndecodableObject(
            self.name, bad.name, bad.reason, self.identify(namespace, name, uid) if name else ""
        )


_pods = msgspec.json.Decoder(schema.PodList)
_raws = msgspec.json.Decoder(schema.RawList)


def _only(
    kind: type[_T], observe: Callable[[_T | None, _T], Events]
) -> Callable[[decoding.Object | None, decoding.Object], Events]:
    """The function for objects of any kind. Raises TypeError for an object of another kind."""

    def checked(before: decoding.Object | None, after: decoding.Object) -> Events:
        if not isinstance(after, kind) or not (before is None or isinstance(before, kind)):
            raise TypeError(f"not a {kind.__name__}: {type(before).__name__}, {type(after).__name__}")
        return observe(before, after)

    return checked


def _relabelled(
    schema: schemas.Schema, before: decoding.Object | None, after: decoding.Object | None
) -> bool:
    """Counts depend on what counters read of a node, and on which node has the name."""
    if before is None or after is None:
        return True
    return before.uid != after.uid or schema.read_of_node(before) != schema.read_of_node(after)


@functools.cache
def _core_form(kept: type[model.Pod] | type[model.Node], annotations: tuple[str, ...]) -> str:
    return _digest(kept, annotations)


def _digest(kept: type[Any], more: object) -> str:
    """A digest of the fields of a struct, those of nested ones included, and of what else is kept."""
    fields = _without_docstrings(msgspec.json.schema(kept))
    return hashlib.sha256(msgspec.json.encode((fields, more))).hexdigest()[:8]


def _without_docstrings(schema: object) -> object:
    """A JSON schema without the descriptions, for which no object has to be listed again."""
    if isinstance(schema, dict):
        return {
            key: _without_docstrings(value)
            for key, value in schema.items()
            if key != "description" or isinstance(value, dict)
        }
    if isinstance(schema, list):
        return [_without_docstrings(one) for one in schema]
    return schema


PODS = WatchedKind(
    name="pods",
    paths=("/api/v1/pods",),
    subject_prefix="pod",
    form=lambda: _core_form(model.Pod, decoding.kept()),
    decode=decoding.pod_seen,
    identify=lambda _namespace, _name, uid: uid,
    observe=_only(model.Pod, observations.pod),
    gone=lambda namespace, name, uid, assumed: events.PodGone(
        uid=uid, namespace=namespace, name=name, assumed=assumed
    ),
    listed=lambda snapshot: snapshot.pods,
    find=lambda snapshot, uid: snapshot.pod(uid),
    shared=lambda _schema, _before, _after: False,
)
NODES = WatchedKind(
    name="nodes",
    paths=("/api/v1/nodes",),
    subject_prefix="node",
    form=lambda: _core_form(model.Node, decoding.kept()),
    decode=decoding.node_seen,
    identify=lambda _namespace, name, _uid: name,
    observe=_only(model.Node, observations.node),
    gone=lambda _namespace, name, uid, assumed: events.NodeGone(name=name, uid=uid, assumed=assumed),
    listed=lambda snapshot: snapshot.nodes,
    find=lambda snapshot, name: snapshot.nodes.get(name),
    shared=_relabelled,
    namespaced=False,
)


@functools.cache
def declared(kind: declared_objects.Kind[Any]) -> WatchedKind:
    """A kind that a plugin declares."""
    prefix = f"/apis/{kind.group}" if kind.group else "/api"

    def observe(before: decoding.Object | None, after: decoding.Object) -> Events:
        if not isinstance(after, kind.type) or not (before is None or isinstance(before, kind.type)):
            raise TypeError(f"not a {kind.type.__name__}: {type(before).__name__}, {type(after).__name__}")
        return observations.declared(kind, before, after)

    return WatchedKind(
        name=kind.name,
        paths=tuple(f"{prefix}/{version}/{kind.resource}" for version in kind.versions),
        subject_prefix=kind.prefix or kind.name,
        form=functools.cache(lambda: _digest(kind.type, kind.form)),
        decode=functools.partial(decoding.declared_seen, kind),
        identify=lambda namespace, name, _uid: model.key(namespace, name),
        observe=observe,
        gone=lambda namespace, name, uid, assumed: kind.gone(namespace, name, uid, assumed=assumed),
        listed=lambda snapshot: snapshot.all(kind),
        find=lambda snapshot, identity: snapshot.get(kind, identity),
        shared=lambda schema, before, after: before != after and bool(schema.dependents(kind.name)),
        namespaced=kind.namespaced,
    )


def watched(schema: schemas.Schema) -> tuple[WatchedKind, ...]:
    """All kinds. Pods are the last: they then count as soon as they are observed."""
    return NODES, *map(declared, schema.kinds), PODS


def of(schema: schemas.Schema, found: decoding.Object) -> WatchedKind:
    """The kind of an object. Raises KeyError for an object of no kind of the schema."""
    if isinstance(found, model.Pod):
        return PODS
    return NODES if isinstance(found, model.Node) else declared(schema.of(found))
