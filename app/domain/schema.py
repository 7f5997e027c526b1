"""The schema of a cluster beside pods and nodes: the kinds and counters that plugins declare.

A schema is an immutable value. It follows from the code of a version and from the distributions installed
beside it, never from settings: processes with different plugins enabled fold one log alike. It is passed to
every fold (``snapshots.empty``), and nothing looks it up globally.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import immutables
import msgspec

from app import converters
from app.domain import declared_objects, model

T = TypeVar("T", bound=model.DeclaredObject)

CountKey = str
"""The name of one count: also the field of the counts hash in Redis."""

CORE = ("nodes", "pods")
"""The kinds that every schema has."""

FIRST_FORMS = "2"
"""``Schema.forms`` of the stores and checkpoints that do not name it."""

_SUBJECTS = frozenset(("pod", "node", "flag", "kind", "relist", "shadow", "store"))
"""Prefixes of the subjects that no kind may use."""
_KIND_NAME = re.compile(r"[a-z][a-z0-9]{0,62}")
_FAMILY_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}|")
FORM = r"(?:[a-z][a-z0-9-]{0,62}\.)?[1-9][0-9]*"
"""Pattern of one counter in ``Schema.forms``."""


class InvalidSchema(ValueError):
    """A declaration is invalid, or contradicts another one; the message names it."""

    def __init__(self, text: str, *declared: object) -> None:
        """``declared``: the kinds or counters."""
        super().__init__(text)
        self.declared = declared


class CounterFailed(RuntimeError):
    """A counter raised for a pod; the message names both, and the node."""


class UnreadableObject(ValueError):
    """The data of an event does not have the shape that this version's kind declares."""


Contributions = Callable[[model.Pod, model.Node, declared_objects.Objects], Iterable[tuple[CountKey, int]]]
"""(pod, its node, objects) -> the counts that the pod raises there, each with its amount. A pod that is not
bound yet has the annotations that its Binding sets."""
UNKNOWN = model.Node(name="", uid="")
"""In the place of a node that does not exist in the state: it was not observed yet, or is gone."""
_BLANK = model.Pod(uid="", namespace="", name="")
_UNKNOWN = converters.Converter(model.DeclaredObject)
Pending = Callable[[model.Pod, declared_objects.Objects], Iterable[tuple[CountKey, int]]]
"""(pod without a node, objects) -> the counts that the pod raises, each with its amount."""
_Raised = Callable[..., Iterable[tuple[CountKey, int]]]
_Gate = tuple[_Raised, tuple[immutables.Map[str, declared_objects.Held], ...] | None]
"""A function, and maps of which one must have the namespace of a pod for it to count the pod; None: any."""


@dataclass(frozen=True, eq=False)
class Dependency(Generic[T]):
    """A kind whose objects a counter reads."""

    kind: declared_objects.Kind[T]
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
    2^53: the larger its amounts, the larger the unit in which they are counted.
    """

    family: str
    """Unique. Keys begin with ``FAMILY|``; those of the empty name have a ``/`` before the first ``|``."""
    form: int
    """The version of the family's keys and amounts. Stored counts of another form are not used: ``topolog
    migrate up`` builds the present ones beside them (decision 5)."""
    contributions: Contributions
    pod_fields: tuple[str, ...]
    """Fields of a pod on which contributions depend; dots lead into a field's fields."""
    selects: Callable[[model.Pod, declared_objects.Objects], bool] | None = None
    """Whether some node may exist on which the pod raises a count. None: whether an object of the additive or
    required kind reaches the pod; true without such a kind."""
    node_fields: tuple[str, ...] = ("labels",)
    """Fields of a node on which contributions depend. Only without any, a pod counts also on a node that does
    not exist: a limit of the cluster holds whichever of pods and nodes are observed first."""
    node_labels: Callable[[declared_objects.Objects], Iterable[str]] | None = None
    """(objects) -> the keys of those labels of a node on which contributions depend; None: any."""
    depends_on: tuple[Dependency[Any], ...] = ()
    pending: Pending | None = None
    """What pods without a node contribute; None: nothing."""
    namespace: Callable[[CountKey], str] = lambda key: key.partition("/")[0] if "/" in key else ""
    """(key without ``FAMILY|``) -> the namespace of the objects that it is about; empty for none."""


class Schema:
    """The kinds and counters of one version; equal if it consists of the same declarations."""

    def __init__(
        self, kinds: Iterable[declared_objects.Kind[Any]] = (), counters: Iterable[Counter] = ()
    ) -> None:
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
        self._families = {counter.family: counter for counter in self.counters}
        self.contributions = _chained([one.contributions for one in self.counters])
        self.pending = _chained([one.pending for one in self.counters if one.pending])
        """What a pod without a node contributes to all counters."""
        self.read_of_pod = _getter(name for one in self.counters for name in one.pod_fields)
        """The part of a pod that counters read: while it is equal, the pod contributes alike on its node."""
        self.reads_annotations = any("annotations" in one.pod_fields for one in self.counters)
        """Whether counters may read what a plugin allocates: the annotations that a Binding sets."""
        self.read_of_node = _getter(name for one in self.counters for name in one.node_fields)
        """The part of a node that counters read."""
        self._placed = [(_needed(one), one.contributions) for one in self.counters]
        self._anywhere = _chained([one.contributions for one in self.counters if not one.node_fields])
        self._waiting = [(_needed(one), one.pending) for one in self.counters if one.pending]
        self._gates = object()  # The key of its gates among what is derived from objects.
        self._kinds = {kind.name: kind for kind in self.kinds}
        self._prefixes = {kind.prefix: kind for kind in self.kinds if kind.prefix}
        further = (subject for kind in self.kinds for subject in kind.moves(""))
        self.prefixes = frozenset(
            (
                *_SUBJECTS,
                *(kind.prefix or kind.name for kind in self.kinds),
                *(subject.partition(":")[0] for subject in further),
            )
        )
        """What the subjects of events begin with, up to the colon."""
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

    def kind(self, name: str) -> declared_objects.Kind[Any] | None:
        """The declared kind of the name; None for pods, nodes and a kind that this version does not have."""
        return self._kinds.get(name)

    def called(self, name: str) -> declared_objects.Kind[Any] | None:
        """The declared kind of the name, or of the prefix of its subjects; None if there is none."""
        return self._kinds.get(name) or self._prefixes.get(name)

    def of(self, found: model.DeclaredObject) -> declared_objects.Kind[Any]:
        """The kind of an object. Raises KeyError for an object of no declared kind."""
        return self._types[type(found)]

    def namespace(self, key: CountKey) -> str:
        """The namespace of the objects that the count is about; empty for none."""
        family = key.partition("|")[0]
        counter = self._families.get("" if "/" in family else family)
        return counter.namespace(key.removeprefix(f"{counter.family}|")) if counter is not None else ""

    def contributed(
        self, pod: model.Pod, node: model.Node | None, held: declared_objects.Objects
    ) -> Iterable[tuple[CountKey, int]]:
        """What the pod contributes to all counters on its node; None: a node that does not exist."""
        if node is None:
            return self._anywhere(pod, UNKNOWN, held)
        return self.contributions(pod, node, held)

    def failure(
        self,
        pod: model.Pod,
        name: model.NodeName,
        node: model.Node | None,
        held: declared_objects.Objects,
        problem: Exception,
    ) -> CounterFailed:
        """The error for what a counter raised for the pod on its node, or without one (no name).

        They are asked again, so that a fold that succeeds pays nothing for the name of the counter.
        """
        raised = "a counter"
        for one in self.counters:
            need = _needed(one)
            asked: _Raised | None = one.contributions if name else one.pending
            gated = need is not None and need.kind.name not in held.kinds
            if asked is None or gated or (name and node is None and one.node_fields):
                continue
            try:
                tuple(asked(pod, *([node or UNKNOWN] if name else ()), held))
            except Exception as found:
                raised, problem = f"counter {one.family!r} ({asked.__module__})", found
                break
        where = f"on node {name}" if name else "without a node"
        return CounterFailed(
            f"{raised} raises for pod {pod.key} {where}: {type(problem).__name__}: {problem};"
            " correct its plugin, or the pod"
        )

    def dependents(self, kind: str) -> tuple[tuple[Counter, Dependency[Any]], ...]:
        """The counters that read objects of the kind."""
        return self._dependents.get(kind, ())

    def gates(self, held: declared_objects.Objects) -> tuple[_Gate, _Gate]:
        """What counts pods on nodes, and pods without a node, while these objects exist."""
        return held.memo.get(self._gates, lambda: (_opened(self._placed, held), _opened(self._waiting, held)))

    def footprint(self, pod: model.Pod, node: model.NodeName) -> tuple[str, ...]:
        """The subjects on which the counts of the pod on the node depend.

        The guard of every placement and release expects their versions; otherwise its increments could miss
        an object or a label that another writer has just recorded.
        """
        further = (subject for moves in self._moves for subject in moves(pod.namespace))
        return tuple(dict.fromkeys((f"pod:{pod.uid}", f"node:{node}", *further)))

    def selects(self, pod: model.Pod, held: declared_objects.Objects) -> bool:
        """Whether the pod may raise a count on a node of which nothing is known."""
        return any(
            one.selects(pod, held) if one.selects else _reached(_needed(one), pod, held)
            for one in self.counters
        )

    def spelled(self, subject: str) -> str:
        """The subject as events spell it: of a declared kind it may be named by the kind, too."""
        name, _, identity = subject.partition(":")
        known = self.kind(name)
        return subject if known is None else known.subject(identity)

    def subject(self, kind: str, identity: str) -> str:
        """The subject of an object of any kind."""
        if kind in CORE:
            return f"{kind[:-1]}:{identity}"
        known = self.kind(kind)
        return known.subject(identity) if known is not None else f"{kind}:{identity}"

    def read(self, kind: str, data: bytes | msgspec.Raw) -> model.DeclaredObject:
        """The object of its kept part; one of an unknown kind is kept as it is. Raises UnreadableObject."""
        known = self.kind(kind)
        try:
            found: model.DeclaredObject = (_UNKNOWN if known is None else known.converter).decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            text = f"the data of a {kind} object cannot be read: {error}; upgrade this process"
            raise UnreadableObject(text) from error
        return found if known is not None else model.UnknownObject.of(found, bytes(data))


def _needed(counter: Counter) -> Dependency[Any] | None:
    """The kind without whose objects nothing is counted. A sum over objects is nothing without them."""
    return next((one for one in counter.depends_on if one.required or one.additive), None)


def _reached(need: Dependency[Any] | None, pod: model.Pod, held: declared_objects.Objects) -> bool:
    """Whether an object of the kind reaches the pod; true if the counter needs none."""
    if need is None or need.reach == "cluster":
        return need is None or bool(held.all(need.kind))
    return bool(held.within(need.kind, pod.namespace))


def _opened(
    functions: Iterable[tuple[Dependency[Any] | None, _Raised]], held: declared_objects.Objects
) -> _Gate:
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


def _check(kinds: tuple[declared_objects.Kind[Any], ...], counters: tuple[Counter, ...]) -> None:
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
        _refuse_other_fields(counter)
        for needed in counter.depends_on:
            depends = f"counter {counter.family!r} depends on {needed.kind.name}"
            if needed.kind not in kinds:
                raise InvalidSchema(f"{depends}, which no plugin declares", counter)
            if needed.reach == "namespace" and not needed.kind.namespaced:
                rule = f"without a namespace, the objects of {needed.kind.name} reach the cluster: declare"
                raise InvalidSchema(f'{depends} with reach "namespace"; {rule} reach="cluster"')
            here, there = map(needed.kind.moves, "ab")
            if not here or (needed.reach == "cluster" and here != there):  # Placements could miss a change.
                raise InvalidSchema(f"{depends}, whose moves names no subject for the {needed.reach}")
    _differ("kind", ((kind.name, kind) for kind in kinds))
    _differ("type of objects", ((kind.type.__qualname__, kind) for kind in kinds))
    _differ("prefix of subjects", ((kind.prefix or kind.name, kind) for kind in kinds))
    _differ("family of counts", ((counter.family, counter) for counter in counters))


def _refuse_other_fields(counter: Counter) -> None:
    """Refuse fields that a pod or node does not have: the first change of one would end the fold."""
    for what, blank, fields in (("pod", _BLANK, counter.pod_fields), ("node", UNKNOWN, counter.node_fields)):
        for field in fields:
            try:
                operator.attrgetter(field)(blank)
            except AttributeError as missing:
                depends = f"counter {counter.family!r} depends on the field {field!r} of a {what}"
                raise InvalidSchema(f"{depends}, which does not exist: {missing}") from missing


def _differ(what: str, declared: Iterable[tuple[str, object]]) -> None:
    known: dict[str, object] = {}
    for name, one in declared:
        if name in known:
            text = f"two plugins declare the same {what}: {name or '(unnamed)'}"
            raise InvalidSchema(text, known[name], one)
        known[name] = one
