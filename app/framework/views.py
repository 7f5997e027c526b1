"""Views of a plugin, as data: REST endpoints, tables of ``topolog get``, fields of pods and domains.

Views are pure functions of a snapshot. Moments, pages, errors, roles and the OpenAPI document are added by
app.api, the same for all plugins.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from app.domain import model, schema, snapshots
from app.framework import cycles

Key = int | str | tuple[str, ...]
"""Sort key of a list item; all keys of one list have the same type."""

Role = Literal["viewer", "operator"]
"""Who may call a route; an operator has all permissions of a viewer."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list that an endpoint returns; only the items of the requested page are rendered."""

    keys: Iterable[Any]
    """A Key for each item, without repetition, in any order."""
    item: Callable[[Any], object]
    """Renders the item of a key as a JSON-serialisable value."""


Handle = Callable[[snapshots.Snapshot, Mapping[str, str]], object | None]
"""(snapshot, path parameters) -> JSON-serialisable value, Listed, or None for 404."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A read-only view of a plugin, mounted under ``/apis/v1/plugins/NAME/``."""

    path: str
    """Flask rule below the plugin's path, such as ``policies/<namespace>/<name>``."""
    summary: str
    handle: Handle
    example: object = None
    role: Role = "viewer"
    beside: Callable[[cycles.Peers], Handle] | None = None
    """The same view with the answers of the other plugins, of a plugin that consults them
    (capabilities.Consults): it is served in place of ``handle``."""


@dataclass(frozen=True, slots=True)
class Table:
    """A list of an endpoint as a kind of ``topolog get``."""

    name: str
    """The kind on the command line, such as ``policies``."""
    path: str
    """The path of the endpoint."""
    about: str
    """A phrase for the help text."""
    columns: Mapping[str, str]
    """Heading -> path of the value (app.cli.output.tables.pick)."""
    named: bool = False
    """One item can be requested by name: an endpoint of this path, followed by the name, exists."""
    namespace: str = ""
    """Path of the namespace, or of NAMESPACE/NAME, in an item; empty if items are in none."""
    identity: str = ""
    """Field with the name of an item on the command line, where its namespace and name are not unique."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A kind of object whose numbers are shown over time, for the page of workloads."""

    kind: str
    """In ``GET /apis/v1/series?of=KIND:NAMESPACE/NAME``, or KIND:NAME of objects in no namespace."""
    title: str
    """Several of them, for people: ``gangs``."""
    table: Table
    """The list of all objects; the endpoint of its path, followed by a name, shows one."""
    numbers: Callable[[snapshots.Snapshot, str], Mapping[str, int]]
    """(snapshot, name) -> line -> value; empty if the object does not exist."""
    named_by: str = "name"
    """Field of an item with the name, NAMESPACE/NAME or NAME of objects in no namespace; ``namespace+name``
    if these are two fields."""
    changed_by: Literal["pods", "counts"] | Callable[[model.Pod], Iterable[str]] = "pods"
    """What changes the numbers beside nodes and declared objects: any pod, counts alone, or only the pods of
    the object, as (pod -> names). A series has them computed again only then."""


def singular(kind: str) -> str:
    """The name of one item of a kind of ``topolog get``: ``policy`` of ``policies``."""
    return f"{kind.removesuffix('ies')}y" if kind.endswith("ies") else kind.removesuffix("s")


Look = Literal["none", "empty", "low", "mid", "high", "higher", "full", "over", "bad", "chosen", "kept"]
"""How a class of nodes is drawn: ``empty`` to ``over`` are a scale."""


@dataclass(frozen=True, slots=True)
class Painted:
    """A colour of the map of the cluster: how the nodes are related to one object of the plugin."""

    kind: str
    """``color=KIND:NAMESPACE/NAME`` chooses it; differs from the kinds of other plugins."""
    classes: tuple[tuple[str, Look], ...]
    """At most 16, each with its text; the first one is that of all nodes that are in no other."""
    names: Callable[[snapshots.Snapshot], Iterable[str]]
    """The objects that have a node in another class, as NAMESPACE/NAME, those to be offered first first."""
    nodes: Callable[[snapshots.Snapshot, str], Mapping[model.NodeName, int]]
    """(snapshot, name) -> node -> the index of its class; nodes of the first class may be left out."""


@dataclass(frozen=True, slots=True)
class Concern:
    """A kind of object that decisions about pods concern: decisions are counted and selected by it."""

    kind: str
    """In ``object=KIND:NAME`` of decisions; differs from the kinds of other plugins."""
    names: Callable[[snapshots.Snapshot, model.Pod], Iterable[str]]
    """(snapshot, pod) -> the objects, whether or not they exist: NAMESPACE/NAME, or NAME of those in none.

    Called for each recorded decision, also about pods in which the plugin is not interested.
    """


@dataclass(frozen=True, slots=True)
class PodField:
    """A list in the view of a pod, ``/apis/v1/pods/NAMESPACE/NAME``."""

    name: str
    about: str
    """A sentence for the OpenAPI document."""
    shape: type
    """The msgspec.Struct of an item, which documents its fields."""
    items: Callable[[snapshots.Snapshot, model.Pod], Iterable[object]]


class DomainCount(NamedTuple):
    """A count in the view of a domain, ``/apis/v1/topology``."""

    of: str
    """The object that counts: ``NAMESPACE/NAME``."""
    placed: int
    desired: int | None
    """The quota; None if the object has none for the domain."""
    count_key: schema.CountKey = ""
    """The count of a declared counter that ``placed`` is, so that its part in flight is known; else empty."""


class Measured(NamedTuple):
    """An object of the plugin and one of its domains."""

    namespace: str
    name: str
    domain: str


class Measure(NamedTuple):
    """Pods in a domain of an object."""

    pods: int
    """Counted there."""
    desired: int


class Limited(NamedTuple):
    """An object of the plugin and a resource that it limits."""

    namespace: str
    name: str
    resource: str


class Terms(NamedTuple):
    """What of a plugin's API is the same in every cluster: bundles with pseudonyms keep it."""

    words: frozenset[str] = frozenset()
    """Names of objects that every cluster with the API has."""
    values: frozenset[str] = frozenset()
    """Keys of the labels and annotations whose values are modes or numbers."""
    documents: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Key of an annotation that holds JSON -> the fields whose strings are modes, constants or label keys;
    all other strings in it are names."""


class StatusLine(NamedTuple):
    """A line about the plugin's state, for ``topolog status``."""

    name: str
    """What it is about, such as ``policies``."""
    seen: str
    """The state, such as ``3, 40 of 60 pods placed``."""
    wrong: str = ""
    """What needs attention; empty if nothing does."""


DomainCounts = Callable[[snapshots.Snapshot, str], Mapping[str, Callable[[str], Iterable[DomainCount]]]]
"""(snapshot, object) -> node label key -> (value -> counts of that domain).

Of the object ``NAMESPACE/NAME`` alone, with no other key than those that it counts by; if it is empty, of all
objects: every key is then shown as a tree of domains.
"""


def _no_counts(_: snapshots.Snapshot, __: str) -> Mapping[str, Callable[[str], Iterable[DomainCount]]]:
    return {}


def _no_lines(_: snapshots.Snapshot) -> Iterable[StatusLine]:
    return ()


def _no_remarks(_: cycles.Cycle) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Shown:
    """The views of one plugin."""

    endpoints: tuple[Endpoint, ...] = ()
    """In the order in which they are listed."""
    pod_fields: tuple[PodField, ...] = ()
    domain_counts: DomainCounts = field(default=_no_counts)
    remarks: Callable[[cycles.Cycle], Iterable[str]] = field(default=_no_remarks)
    """Sentences that help to understand a decision about the pod, for ``topolog explain``."""
    summary: Callable[[snapshots.Snapshot], Iterable[StatusLine]] = field(default=_no_lines)
    """The plugin's state in few lines, for ``topolog status``; none if there is nothing to report."""
    followed: tuple[Followed, ...] = ()
    painted: tuple[Painted, ...] = ()
    concerns: tuple[Concern, ...] = ()
