"""The kinds of objects that plugins declare, and the objects of these kinds that a cluster has."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import immutables
import msgspec

from app import converters
from app.domain import events, memos, model
from app.domain.fold import recounts

T = TypeVar("T", bound=model.DeclaredObject)
V = TypeVar("V")
Fields: TypeAlias = Mapping[str, "Fields"]
"""Names of fields, each with those below it, also in the items of a list; without any, all are allowed."""
MORE: Final = "*"
"""In place of names: those that other versions of a definition may have."""


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
    check: Callable[[T], Sequence[str]] = lambda _: ()
    """What the rules of ``decode`` refuse in an object that a question makes of its fields, and what the API
    server does."""
    spec: Fields | None = None
    """The fields that a manifest may have below ``spec``: a question with another one is refused, and with
    MORE one whose name resembles a name that is listed. None: any. ``decode`` ignores what it does not read.
    """
    status: Mapping[str, str] = field(default_factory=dict)
    """Fields below ``status`` that are kept -> what computes them in a cluster, and not in a question: its
    manifest has to have them."""
    form: int = 1
    """The version of what ``decode`` makes of an object. Objects of another form are listed again, and so are
    those of a ``type`` with other fields."""
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
    converter: converters.Converter[T] = field(init=False, repr=False)
    """Converts the kept part from JSON, and from its fields."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "converter", converters.Converter(self.type))

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


Held = immutables.Map[str, Any]
"""Identity -> object; typed by the token that selects it."""
_NONE: Held = immutables.Map()


class Kept(NamedTuple):
    """What follows from the objects of one kind alone."""

    values: memos.Memo
    """Of these objects."""
    latest: memos.Memo
    """Of the latest state of the objects that was asked about: all states share it."""
    steps: recounts.Steps
    """The latest changes of the objects, by identity."""
    lives: "immutables.Map[str, object]" = immutables.Map()
    """Identity -> the life of its object, equal only to itself; an object of the first state has none."""

    def after(self, identity: str, before: Held, after: Held) -> "Kept":
        """What follows once the object of the identity has changed: the objects before and after."""
        lives = self.lives
        if identity not in before:
            lives = lives.set(identity, object())
        elif identity not in after and identity in lives:
            lives = lives.delete(identity)
        return Kept(memos.Memo(), self.latest, recounts.then(self.steps, {identity: 1}), lives)

    def lasting(self, identity: str, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of an object (Objects.lasting)."""
        return self.latest.get((identity, self.lives.get(identity), key), compute)

    def followed(self, key: Hashable, compute: Callable[[V | None, Iterable[str]], V]) -> V:
        """The value of these objects, from the latest one (Objects.followed)."""
        latest = self.latest.get(key, recounts.Latest[V])
        steps, known = latest.held or ((), None)
        changed = recounts.between(steps, self.steps)
        made = compute(None, ()) if changed is None else compute(known, changed)
        latest.held = self.steps, made
        return made


def _unknown() -> Kept:
    """Nothing is derived, and no other state of the objects is known."""
    return Kept(memos.Memo(), memos.Memo(), (recounts.RecountStep({}),))


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of all declared kinds. Immutable; a change shares everything that it does not touch."""

    kinds: immutables.Map[str, Held] = field(default_factory=immutables.Map)
    """Kind -> identity -> object; a kind without objects is left out."""
    namespaces: immutables.Map[str, immutables.Map[str, Held]] = field(default_factory=immutables.Map)
    """Kind -> namespace -> identity -> object."""
    memo: memos.Memo = field(default_factory=memos.Memo, compare=False, repr=False)
    """What follows from all of these objects."""
    kept: immutables.Map[str, Kept] = field(default_factory=immutables.Map, compare=False, repr=False)
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

    def named(self, kind: str) -> Held:
        """Identity -> object, of the kind of a name, which the schema may not have."""
        return self.kinds.get(kind, _NONE)

    def derived(self, kind: Kind[Any], key: Hashable, compute: Callable[[], V]) -> V:
        """The value that ``compute`` derives from the objects of the kind alone, held until one changes."""
        held = self.kept.get(kind.name)
        return compute() if held is None else held.values.get(key, compute)

    def followed(self, kind: Kind[Any], key: Hashable, compute: Callable[[V | None, Iterable[str]], V]) -> V:
        """As ``derived``, from the value of another state of the objects if one is known.

        ``compute`` is given that value, and the identities of all objects that may differ; or None.
        """
        held = self.kept.get(kind.name)
        if held is None:
            return compute(None, ())
        return held.values.get(key, lambda: held.followed(key, compute))

    def lasting(self, kind: Kind[Any], identity: str, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of an object, held while it exists: changes of the object keep it.

        All states in which it has existed since it began share the value, also hypothetical ones. An object
        that is deleted and created again is another one.
        """
        held = self.kept.get(kind.name)
        return compute() if held is None else held.lasting(identity, key, compute)

    def set(self, kind: str, found: model.DeclaredObject) -> "Objects":
        """The objects with this one, in place of an earlier one of its identity."""
        spaces = self.namespaces.get(kind, _NONE)
        space = spaces.get(found.namespace, _NONE).set(found.key, found)
        spaces = spaces.set(found.namespace, space)
        return self._with(kind, self.named(kind).set(found.key, found), spaces, found.key)

    def without(self, kind: str, found: model.DeclaredObject) -> "Objects":
        """The objects without this one, which is among them."""
        held, spaces = self.named(kind).delete(found.key), self.namespaces[kind]
        space = spaces[found.namespace].delete(found.key)
        spaces = spaces.set(found.namespace, space) if space else spaces.delete(found.namespace)
        return self._with(kind, held, spaces, found.key)

    def only(self, kind: str, found: model.DeclaredObject | None) -> "Objects":
        """The objects of all other kinds, and of this kind at most this one."""
        held = self._with(kind, _NONE, _NONE) if kind in self.kinds else self
        return held if found is None else held.set(kind, found)

    def _with(self, kind: str, held: Held, spaces: Held, changed: str | None = None) -> "Objects":
        """The objects with these of a kind, of which one has changed; None: any of them."""
        known = self.kept.get(kind)
        if known is None or changed is None:
            follows = _unknown()
        else:
            follows = known.after(changed, self.named(kind), held)
        kept = self.kept.set(kind, follows)
        if held:
            return Objects(self.kinds.set(kind, held), self.namespaces.set(kind, spaces), kept=kept)
        return Objects(self.kinds.delete(kind), self.namespaces.delete(kind), kept=kept)


def objects(held: Mapping[str, Iterable[model.DeclaredObject]]) -> Objects:
    """The objects of each kind, built in bulk."""
    kinds: dict[str, Held] = {}
    namespaces: dict[str, immutables.Map[str, Held]] = {}
    for name, found in held.items():
        each = {one.key: one for one in found}
        spaces: dict[str, dict[str, model.DeclaredObject]] = {}
        for one in each.values():
            spaces.setdefault(one.namespace, {})[one.key] = one
        if each:
            kinds[name] = immutables.Map(each)
            namespaces[name] = immutables.Map({key: immutables.Map(space) for key, space in spaces.items()})
    kept = immutables.Map({name: _unknown() for name in kinds})
    return Objects(immutables.Map(kinds), immutables.Map(namespaces), kept=kept)
