"""What a cluster consists of beside pods and nodes: the kinds and counters that plugins declare.

A schema is an immutable value. It follows from the code of a version and from the distributions installed
beside it, never from settings: processes with different plugins enabled fold one log alike. It is passed to
every fold (``snapshots.empty``), and nothing looks it up globally.
"""

import collections
import itertools
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import immutables
import msgspec

from app.domain import events, memos, model

T = TypeVar("T", bound=model.DeclaredObject)
V = TypeVar("V")

CountKey = str
"""The name of one count: also the field of the counts hash in Redis."""

CORE = ("nodes", "pods")
"""The kinds that every schema has."""

FIRST_FORMS = "2"
"""``Schema.forms`` of the stores and checkpoints that do not name it."""

_SUBJECTS = frozenset(("pod", "node", "flag", "kind", "relist", "store"))
"""Prefixes of the subjects that no kind may use."""
_KIND_NAME = re.compile(r"[a-z][a-z0-9]{0,62}")
_FAMILY_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}|")


class InvalidSchema(ValueError):
    """Two declarations contradict each other; the message names them."""


class UnreadableObject(ValueError):
    """The data of an event does not have the shape that this version's kind declares."""


@dataclass(frozen=True, eq=False)
class Kind(Generic[T]):
    """A kind of objects that a plugin reads. It is also the token by which snapshots return them."""

    name: str
    """Unique, in lower case: the name in the log, in settings and in the metrics."""
    group: str
    """The API group; empty for the core group."""
    versions: tuple[str, ...]
    """Versions of the group that ``decode`` understands; the first that the API server serves is watched."""
    resource: str
    """The plural in the paths of the API."""
    manifest: str
    """The kind in manifests: ``PodGroup``."""
    type: type[T]
    """The kept part of an object: its fields are what the log holds."""
    decode: Callable[[bytes | msgspec.Raw], T]
    """The object of its JSON. Raises ValueError if it cannot be identified; an invalid one has its errors."""
    namespaced: bool = True
    optional: bool = False
    """Defined by another project, whose definition need not be installed: the kind then counts as empty."""
    alias: str = ""
    """A shorter name for people, such as the key in scenario files; empty: the name."""
    prefix: str = ""
    """Prefix of the subjects, ``policy`` in ``policy:NAMESPACE/NAME``; empty: the name."""
    moves: Callable[[str], tuple[str, ...]] = lambda _: ()
    """(namespace) -> further subjects that a change of an object there moves on. Placements expect them if a
    counter depends on the kind; if it reaches the cluster, they are the same for all namespaces."""

    def subject(self, identity: str) -> str:
        """The subject of the events about an object."""
        return f"{self.prefix or self.name}:{identity}"

    def observed(self, found: T) -> events.ObjectObserved:
        """The event of an observation."""
        return events.ObjectObserved(
            kind=self.name,
            identity=found.key,
            uid=found.uid,
            data=self.encode(found),
            subjects=self._subjects(found.namespace, found.key),
        )

    def gone(self, namespace: str, name: str, uid: model.Uid, *, assumed: bool = False) -> events.ObjectGone:
        """The event of a deletion."""
        identity = model.key(namespace, name)
        subjects = self._subjects(namespace, identity)
        return events.ObjectGone(
            kind=self.name, identity=identity, uid=uid, assumed=assumed, subjects=subjects
        )

    def encode(self, found: T) -> msgspec.Raw:
        """The kept part as JSON, in one canonical form."""
        return found.encode()

    def _subjects(self, namespace: str, identity: str) -> tuple[str, ...]:
        """All subjects; empty if there is only the usual one."""
        first, further = self.subject(identity), self.moves(namespace)
        return () if not further and first == f"{self.name}:{identity}" else (first, *further)


_Held = immutables.Map[str, Any]
"""Identity -> object; typed by the token that selects it."""
_NONE: _Held = immutables.Map()


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of all declared kinds. Immutable; a change shares everything that it does not touch."""

    kinds: immutables.Map[str, _Held] = field(default_factory=immutables.Map)
    """Kind -> identity -> object; a kind without objects is left out."""
    namespaces: immutables.Map[str, immutables.Map[str, _Held]] = field(default_factory=immutables.Map)
    """Kind -> namespace -> identity -> object."""
    memo: memos.Memo = field(default_factory=memos.Memo, compare=False, repr=False)
    """What follows from all of these objects."""
    kept: immutables.Map[str, memos.Memo] = field(default_factory=immutables.Map, compare=False, repr=False)
    """Kind -> what follows from its objects alone; a kind without objects may be left out."""

    def __len__(self) -> int:
        return sum(map(len, self.kinds.values()))

    def all(self, kind: Kind[T]) -> "immutables.Map[str, T]":
        """Identity -> object."""
        return self.named(kind.name)

    def get(self, kind: Kind[T], identity: str) -> T | None:
        """The object of an identity."""
        return self.named(kind.name).get(identity)

    def within(self, kind: Kind[T], namespace: str) -> "immutables.Map[str, T]":
        """Identity -> object, of one namespace."""
        spaces = self.namespaces.get(kind.name)
        return _NONE if spaces is None else spaces.get(namespace, _NONE)

    def named(self, kind: str) -> _Held:
        """Identity -> object, of the kind of a name, which the schema may not have."""
        return self.kinds.get(kind, _NONE)

    def derived(self, kind: Kind[Any], key: Hashable, compute: Callable[[], V]) -> V:
        """The value that ``compute`` derives from the objects of the kind alone, held until one changes."""
        held = self.kept.get(kind.name)
        return compute() if held is None else held.get(key, compute)

    def set(self, kind: str, found: model.DeclaredObject) -> "Objects":
        """The objects with this one, in place of an earlier one of its identity."""
        spaces = self.namespaces.get(kind, _NONE)
        space = spaces.get(found.namespace, _NONE).set(found.key, found)
        return self._with(kind, self.named(kind).set(found.key, found), spaces.set(found.namespace, space))

    def without(self, kind: str, found: model.DeclaredObject) -> "Objects":
        """The objects without this one, which is among them."""
        held, spaces = self.named(kind).delete(found.key), self.namespaces[kind]
        space = spaces[found.namespace].delete(found.key)
        spaces = spaces.set(found.namespace, space) if space else spaces.delete(found.namespace)
        return self._with(kind, held, spaces)

    def only(self, kind: str, found: model.DeclaredObject | None) -> "Objects":
        """The objects of all other kinds, and of this kind at most this one."""
        held = self._with(kind, _NONE, _NONE) if kind in self.kinds else self
        return held if found is None else held.set(kind, found)

    def _with(self, kind: str, held: _Held, spaces: _Held) -> "Objects":
        """The objects with these of a kind."""
        kept = self.kept.set(kind, memos.Memo())
        if held:
            return Objects(self.kinds.set(kind, held), self.namespaces.set(kind, spaces), kept=kept)
        return Objects(self.kinds.delete(kind), self.namespaces.delete(kind), kept=kept)


def objects(held: Mapping[str, Iterable[model.DeclaredObject]]) -> Objects:
    """The objects of each kind, built in bulk."""
    kinds: dict[str, _Held] = {}
    namespaces: dict[str, immutables.Map[str, _Held]] = {}
    for name, found in held.items():
        each = {one.key: one for one in found}
        spaces: dict[str, dict[str, model.DeclaredObject]] = {}
        for one in each.values():
            spaces.setdefault(one.namespace, {})[one.key] = one
        if each:
            kinds[name] = immutables.Map(each)
            namespaces[name] = immutables.Map({key: immutables.Map(space) for key, space in spaces.items()})
    kept = immutables.Map({name: memos.Memo() for name in kinds})
    return Objects(immutables.Map(kinds), immutables.Map(namespaces), kept=kept)


Contributions = Callable[[model.Pod, model.Node, Objects], Iterable[tuple[CountKey, int]]]
"""(pod, its node, objects) -> the counts that the pod raises there, each with its amount."""
Pending = Callable[[model.Pod, Objects], Iterable[tuple[CountKey, int]]]
"""(pod without a node, objects) -> the counts that the pod raises, each with its amount."""
_Raised = Callable[..., Iterable[tuple[CountKey, int]]]
_Gate = tuple[_Raised, tuple[immutables.Map[str, _Held], ...] | None]
"""A function, and maps of which one must have the namespace of a pod for it to count the pod; None: any."""


@dataclass(frozen=True, eq=False)
class Dependency(Generic[T]):
    """A kind whose objects a counter reads."""

    kind: Kind[T]
    reads: Callable[[T], object]
    """The part of an object on which contributions depend: while it is equal, nothing is counted again."""
    reach: Literal["namespace", "cluster"] = "namespace"
    """Whose contributions an object may alter: those of the pods of its namespace, or of all pods."""
    additive: bool = False
    """The contributions are the sum of what each object adds alone, so a change of one object counts that one
    only."""
    required: bool = False
    """No pod contributes without an object of the kind that reaches it; always so if it is additive."""


@dataclass(frozen=True, eq=False)
class Counter:
    """A family of counts that a plugin keeps over the pods on nodes, and over those that wait for one.

    The increments of an append are sums of contributions, so amounts are integers, and a count stays below
    2^53: memory is counted in KiB.
    """

    family: str
    """Unique. Keys begin with ``FAMILY|``; those of the empty name have a ``/`` before the first ``|``."""
    form: int
    """The version of the family's keys and amounts. Stored counts of another form are not used: ``topolog
    migrate up`` builds the present ones beside them (ADR 0005)."""
    contributions: Contributions
    pod_fields: tuple[str, ...]
    """Fields of a pod on which contributions depend; dots lead into a field's fields."""
    selects: Callable[[model.Pod, Objects], bool] | None = None
    """Whether some node may exist on which the pod raises a count. None: whether an object of the additive or
    required kind reaches the pod; true without such a kind."""
    node_fields: tuple[str, ...] = ("labels",)
    """Fields of a node on which contributions depend."""
    node_labels: Callable[[Objects], Iterable[str]] | None = None
    """(objects) -> the keys of those labels of a node on which contributions depend; None: any."""
    depends_on: tuple[Dependency[Any], ...] = ()
    pending: Pending | None = None
    """What pods without a node contribute; None: nothing."""


class Schema:
    """The kinds and counters of one version; equal if it consists of the same declarations."""

    def __init__(self, kinds: Iterable[Kind[Any]] = (), counters: Iterable[Counter] = ()) -> None:
        """Raises InvalidSchema."""
        self.kinds = tuple(kinds)
        self.counters = tuple(counters)
        _check(self.kinds, self.counters)
        self.names = frozenset((*CORE, *(kind.name for kind in self.kinds)))
        """All kinds that are watched. Nothing is decided until each of them has been listed completely."""
        self.forms = ",".join(
            f"{counter.family}.{counter.form}" if counter.family else str(counter.form)
            for counter in sorted(self.counters, key=operator.attrgetter("family"))
        )
        """The form of all counts together: counts are comparable if it is equal."""
        self.contributions = _chained([one.contributions for one in self.counters])
        self.pending = _chained([one.pending for one in self.counters if one.pending])
        """What a pod without a node contributes to all counters."""
        self.read_of_pod = _getter(name for one in self.counters for name in one.pod_fields)
        """The part of a pod that counters read: while it is equal, the pod contributes alike on its node."""
        self.read_of_node = _getter(name for one in self.counters for name in one.node_fields)
        """The part of a node that counters read."""
        self._placed = [(_needed(one), one.contributions) for one in self.counters]
        self._waiting = [(_needed(one), one.pending) for one in self.counters if one.pending]
        self._gates = object()  # The key of its gates among what is derived from objects.
        self._kinds = {kind.name: kind for kind in self.kinds}
        self._types = {kind.type: kind for kind in self.kinds}
        self._dependents: dict[str, tuple[tuple[Counter, Dependency[Any]], ...]] = {
            kind.name: tuple(
                (one, needed) for one in self.counters for needed in one.depends_on if needed.kind is kind
            )
            for kind in self.kinds
        }
        self._moves = tuple(needed.kind.moves for one in self.counters for needed in one.depends_on)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.kinds, self.counters) == (other.kinds, other.counters)

    def __hash__(self) -> int:
        return hash((self.kinds, self.counters))

    def kind(self, name: str) -> Kind[Any] | None:
        """The declared kind of the name; None for pods, nodes and a kind that this version does not know."""
        return self._kinds.get(name)

    def of(self, found: model.DeclaredObject) -> Kind[Any]:
        """The kind of an object. Raises KeyError for an object of no declared kind."""
        return self._types[type(found)]

    def dependents(self, kind: str) -> tuple[tuple[Counter, Dependency[Any]], ...]:
        """The counters that read objects of the kind."""
        return self._dependents.get(kind, ())

    def gates(self, held: Objects) -> tuple[_Gate, _Gate]:
        """What counts pods on nodes, and pods without a node, while these objects exist."""
        return held.memo.get(self._gates, lambda: (_opened(self._placed, held), _opened(self._waiting, held)))

    def footprint(self, pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
        """The subjects on which the counts of the pod on the node depend.

        The guard of every placement and release expects their versions; otherwise its increments could miss
        an object or a label that another writer has just recorded.
        """
        further = (subject for moves in self._moves for subject in moves(pod.namespace))
        return tuple(dict.fromkeys((f"pod:{pod.uid}", f"node:{node}", *further)))

    def selects(self, pod: model.Pod, held: Objects) -> bool:
        """Whether the pod may raise a count on a node of which nothing is known."""
        return any(
            one.selects(pod, held) if one.selects else _reached(_needed(one), pod, held)
            for one in self.counters
        )

    def subject(self, kind: str, identity: str) -> str:
        """The subject of an object of any kind."""
        if kind in CORE:
            return f"{kind[:-1]}:{identity}"
        known = self.kind(kind)
        return known.subject(identity) if known is not None else f"{kind}:{identity}"

    def read(self, kind: str, data: bytes | msgspec.Raw) -> model.DeclaredObject:
        """The object of its kept part; one of an unknown kind is kept as it is. Raises UnreadableObject."""
        known = self.kind(kind)
        found: model.DeclaredObject = _decoded(kind, data, known.type if known else model.DeclaredObject)
        return found if known is not None else model.UnknownObject.of(found, bytes(data))


def _decoded(kind: str, data: bytes | msgspec.Raw, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = f"the data of a {kind} object cannot be read: {error}; upgrade this process"
        raise UnreadableObject(text) from error


def _needed(counter: Counter) -> Dependency[Any] | None:
    """The kind without whose objects nothing is counted. A sum over objects is nothing without them."""
    return next((one for one in counter.depends_on if one.required or one.additive), None)


def _reached(need: Dependency[Any] | None, pod: model.Pod, held: Objects) -> bool:
    """Whether an object of the kind reaches the pod; true if the counter needs none."""
    if need is None or need.reach == "cluster":
        return need is None or bool(held.all(need.kind))
    return bool(held.within(need.kind, pod.namespace))


def _opened(functions: Iterable[tuple[Dependency[Any] | None, _Raised]], held: Objects) -> _Gate:
    active = [(need, one) for need, one in functions if need is None or need.kind.name in held.kinds]
    everywhere = any(need is None or need.reach == "cluster" for need, _ in active)
    spaces = tuple(held.namespaces[need.kind.name] for need, _ in active if need)
    return _chained([one for _, one in active]), None if everywhere else spaces


def _chained(each: Sequence[_Raised]) -> _Raised:
    """One function for all contributions: the fold of pods calls it."""
    if len(each) == 1:
        return each[0]
    return lambda *of: itertools.chain.from_iterable(one(*of) for one in each)


def _getter(names: Iterable[str]) -> Callable[[object], object]:
    ordered = tuple(sorted(set(names)))
    return operator.attrgetter(*ordered) if ordered else (lambda _: None)


def _check(kinds: tuple[Kind[Any], ...], counters: tuple[Counter, ...]) -> None:
    for kind in kinds:
        if not _KIND_NAME.fullmatch(kind.name) or kind.name in CORE:
            raise InvalidSchema(f"a kind cannot be called {kind.name!r}: use other letters (a-z) and digits")
        if not kind.versions:
            raise InvalidSchema(f"kind {kind.name} has no version that could be watched")
        if (kind.prefix or kind.name) in _SUBJECTS:
            raise InvalidSchema(f"kind {kind.name}: subjects of prefix {kind.prefix} have another meaning")
    for counter in counters:
        if not _FAMILY_NAME.fullmatch(counter.family) or counter.form < 1:
            rule = "a family consists of lower-case letters, digits and -, and forms count from 1"
            raise InvalidSchema(f"counter {counter.family!r} of form {counter.form}: {rule}")
        for needed in counter.depends_on:
            depends = f"counter {counter.family!r} depends on {needed.kind.name}"
            if needed.kind not in kinds:
                raise InvalidSchema(f"{depends}, which no plugin declares")
            here, there = map(needed.kind.moves, "ab")
            if not here or (needed.reach == "cluster" and here != there):  # Placements could miss a change.
                raise InvalidSchema(f"{depends}, whose moves names no subject for the {needed.reach}")
    _differ("kind", (kind.name for kind in kinds))
    _differ("type of objects", (kind.type.__qualname__ for kind in kinds))
    _differ("prefix of subjects", (kind.prefix or kind.name for kind in kinds))
    _differ("family of counts", (counter.family for counter in counters))


def _differ(what: str, names: Iterable[str]) -> None:
    for name, times in collections.Counter(names).items():
        if times > 1:
            raise InvalidSchema(f"two plugins declare the same {what}: {name or '(unnamed)'}")
