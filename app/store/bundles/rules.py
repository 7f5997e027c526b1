"""Rules for the fields of what a bundle holds: each is a name, a sentence or neither."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from app.store.bundles import pseudonyms
from app.store.decisions import bitmaps

T = TypeVar("T")
Rule = Callable[[pseudonyms.Words, Any], Any]

_PLATFORM: Final = frozenset(
    (
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "node.kubernetes.io/exclude-from-external-load-balancers",
    )
)
"""Labels whose values are modes, or names of the platform."""
_SUBJECTS: Final = frozenset(("flag", "kind", "relist", "store"))
"""Prefixes of the subjects that name nothing of the cluster."""
_SUBJECT_KINDS: Final[Mapping[str, pseudonyms.Kind]] = {"pod": "uid", "node": "node"}


def kept(_: pseudonyms.Words, value: T) -> T:
    """What names nothing."""
    return value


def text(words: pseudonyms.Words, value: str) -> str:
    """A sentence."""
    return words.text(value)


def term(words: pseudonyms.Words, value: str) -> str:
    """A string that has a meaning."""
    return words.term(value)


def key(words: pseudonyms.Words, value: str) -> str:
    """The key of a label."""
    return words.key(value)


def named(kind: pseudonyms.Kind) -> Rule:
    """Names: a string, or strings."""

    def rule(words: pseudonyms.Words, value: str | Iterable[str]) -> object:
        if isinstance(value, str):
            return words.name(value, kind)
        return tuple(words.name(one, kind) for one in value)

    return rule


def each(rule: Rule) -> Rule:
    """The elements of a tuple."""
    return lambda words, value: tuple(rule(words, one) for one in value)


def mapping(keys: Rule, values: Rule) -> Rule:
    """A dict."""
    return lambda words, value: {keys(words, name): values(words, one) for name, one in value.items()}


def without(empty: object) -> Rule:
    """What is left out."""
    return lambda _, __: empty


def labels(words: pseudonyms.Words, value: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations: keys stay."""
    return {words.key(name): _labelled(words, name, one) for name, one in value.items()}


def _labelled(words: pseudonyms.Words, name: str, value: str) -> str:
    terms = words.public.disclosed
    if name in _PLATFORM or name in terms.values:
        return words.term(value)
    if name in terms.documents:
        try:
            found = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return words.name(value, "value")
        return msgspec.json.encode(_document(words, found, terms.documents[name])).decode()
    return words.name(value, "value")


def _document(words: pseudonyms.Words, value: object, fields: frozenset[str], within: str = "") -> object:
    """JSON; ``fields``: those whose strings are terms."""
    if isinstance(value, dict):
        return {words.term(name): _document(words, one, fields, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_document(words, one, fields) for one in value]
    if not isinstance(value, str):
        return value
    return words.term(value) if within in fields else words.name(value, "object")


def layers(words: pseudonyms.Words, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Layers of nodes: names, and the label keys by which they are found."""
    return tuple(
        msgspec.structs.replace(
            one, name=words.term(one.name), labels=tuple(words.key(name) for name in one.labels)
        )
        for one in value
    )


def decided(words: pseudonyms.Words, value: object) -> object:
    """What a plugin decided beside the node, as JSON in the plugin's own format."""
    if isinstance(value, dict):
        return {words.term(name): decided(words, one) for name, one in value.items()}
    if isinstance(value, list):
        return [decided(words, one) for one in value]
    return words.text(value) if isinstance(value, str) else value


def arguments(words: pseudonyms.Words, value: Mapping[str, Any]) -> dict[str, Any]:
    """Plugin -> its arguments. Those of Topolog's own plugins stay, and so does what they name, as the
    digest of the configuration has to repeat: label keys, and schedulers, by which pods are selected.
    """
    return {
        plugin: _keyed(words, given) if plugin in words.public.plugins else _terms(words, given)
        for plugin, given in value.items()
    }


def _keyed(words: pseudonyms.Words, value: object) -> object:
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _keyed(words, one)
    return words.key(value) if isinstance(value, str) else value


def _terms(words: pseudonyms.Words, value: object) -> object:
    if isinstance(value, dict):
        return {words.term(name): _terms(words, one) for name, one in value.items()}
    if isinstance(value, list):
        return [_terms(words, one) for one in value]
    return words.term(value) if isinstance(value, str) else value


def subject(words: pseudonyms.Words, value: str) -> str:
    """The subject of an event."""
    prefix, colon, rest = value.partition(":")
    if prefix in _SUBJECTS or rest == "all":
        return value
    return f"{prefix}{colon}{words.name(rest, _SUBJECT_KINDS.get(prefix, 'object'))}"


def concerned(words: pseudonyms.Words, value: str) -> str:
    """An object that a decision concerns, KIND:NAME: the kind is declared by a plugin."""
    kind, colon, name = value.partition(":")
    return f"{kind}{colon}{words.name(name, 'object')}"


def candidates(words: pseudonyms.Words, value: bytes) -> bytes:
    """A bitmap over sorted names, whose order stays; names that are spelled out are replaced."""
    return bitmaps.renamed(value, lambda name: words.name(name, "node"))


def victims(words: pseudonyms.Words, value: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Node -> uids."""
    return {
        words.name(node, "node"): tuple(words.name(uid, "uid") for uid in uids)
        for node, uids in value.items()
    }
