"""Conditions on recorded decisions, written as a Kubernetes label selector over their fields.

``verb=filter,outcome in (refused,error),kept<3,reason~capacity`` holds if every part holds. A field with
several values (reason, plugin) equals a text if one of its values does, and differs if none does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.store.decisions import records

LONGEST = 3 * 1024
"""Characters of a condition: a reason of three policies with the longest names and domains fits, which has
2,200, and encoded it fits in the line of a request (4,094 bytes)."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<op>==|!=|=|>|<|~|!|\(|\)|,)|(?P<word>[^\s"=!<>~(),]+))"""
)
_WORDS = ("in", "notin")

Values = Callable[[records.Decision], Sequence[str]]
_TEXTS: Mapping[str, Values] = {
    "id": lambda one: (one.id,),
    "verb": lambda one: (one.verb,),
    "outcome": lambda one: (one.outcome,),
    "pod": lambda one: (one.pod.key,),
    "namespace": lambda one: (one.pod.namespace,),
    "name": lambda one: (one.pod.name,),
    "uid": lambda one: (one.pod.uid,),
    "node": lambda one: (one.node, *one.victims) if one.node else tuple(one.victims),
    "plugin": lambda one: one.plugins,
    "reason": lambda one: tuple(one.reasons),
    "object": lambda one: one.objects,
    "error": lambda one: (one.error,) if one.error else (),
    "configuration": lambda one: (one.configuration,),
}
_NUMBERS: Mapping[str, Callable[[records.Decision], float]] = {
    "kept": lambda one: one.kept,
    "candidates": lambda one: one.count,
    "milliseconds": lambda one: one.milliseconds,
    "priority": lambda one: one.pod.priority,
    "offset": lambda one: one.position.offset,
}
_LABEL = "label."
FIELDS = (*_TEXTS, *_NUMBERS, f"{_LABEL}KEY")
"""The names of fields; a label of the pod is named by its key."""
ABOUT = (
    "Only decisions for which this holds: FIELD=VALUE, !=, >, <, ~ (contains), in (A,B) and notin (A,B),"
    f" comma-separated, as in a label selector. Fields: {', '.join(FIELDS)}."
)
"""What a condition is, for the documents of the API."""


class Invalid(ValueError):
    """A condition that cannot be read."""


_Requirement = Callable[[records.Decision], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """Requirements on a decision, all of which must hold; without any it holds always."""

    requirements: tuple[_Requirement, ...] = ()

    def holds(self, decision: records.Decision) -> bool:
        """Whether every requirement holds."""
        return all(holds(decision) for holds in self.requirements)


ALWAYS = Condition()


def parse(text: str) -> Condition:
    """The condition of a text. Raises Invalid, with the place."""
    if len(text) > LONGEST:
        raise Invalid(f"must have at most {LONGEST} characters")
    return _Reader(text).condition() if text.strip() else ALWAYS


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def condition(self) -> Condition:
        parts = [self._part()]
        while self._taken(","):
            parts.append(self._part())
        if self._at < len(self._tokens):
            raise Invalid(f"expected a comma before {self._next()!r}")
        return Condition(tuple(parts))

    def _part(self) -> _Requirement:
        if self._taken("!"):
            values = _values(self._word("a field"))
            return lambda one: not values(one)
        field = self._word("a field")
        if self._next() in ("", ","):
            values = _values(field)
            return lambda one: bool(values(one))
        operator = self._operator()
        if operator in _WORDS:
            return _compared(field, operator, self._list())
        return _compared(field, operator, (self._word("a value"),))

    def _operator(self) -> str:
        found = self._next()
        if found not in ("=", "==", "!=", ">", "<", "~", *_WORDS):
            raise Invalid(f"expected =, !=, >, <, ~, in or notin, not {found!r}")
        self._at += 1
        return found

    def _list(self) -> tuple[str, ...]:
        if not self._taken("("):
            raise Invalid(f"expected a list in parentheses, not {self._next()!r}")
        found = [self._word("a value")]
        while self._taken(","):
            found.append(self._word("a value"))
        if not self._taken(")"):
            raise Invalid("a list ends with a parenthesis")
        return tuple(found)

    def _word(self, what: str) -> str:
        found = self._next()
        if not found or found in ("=", "==", "!=", ">", "<", "~", "!", "(", ")", ","):
            raise Invalid(f"expected {what}{f', not {found!r}' if found else ' at the end'}")
        self._at += 1
        return re.sub(r"\\(.)", r"\1", found[1:-1]) if found.startswith('"') else found

    def _taken(self, token: str) -> bool:
        taken = self._next() == token
        self._at += taken
        return taken

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise Invalid(f"cannot be read from {stripped[at : at + 20]!r} on")
        found.append(match[match.lastgroup or "word"])
        at = match.end()
    return found


def _values(field: str) -> Values:
    """The values of a field as texts; none if the decision does not have it. Raises Invalid."""
    if field.startswith(_LABEL) and len(field) > len(_LABEL):
        key = field.removeprefix(_LABEL)
        return lambda one: (one.pod.labels[key],) if key in one.pod.labels else ()
    if field in _NUMBERS:
        number = _NUMBERS[field]
        return lambda one: (f"{number(one):g}",)
    found = _TEXTS.get(field)
    if found is None:
        raise Invalid(f"there is no field {field[:80]!r}; known: {', '.join(FIELDS)}")
    return found


def _compared(field: str, operator: str, wanted: tuple[str, ...]) -> _Requirement:
    values = _values(field)
    if operator in (">", "<") or field in _NUMBERS:
        return _numbered(field, operator, wanted)
    texts = frozenset(wanted)
    match operator:
        case "=" | "==" | "in":
            return lambda one: not texts.isdisjoint(values(one))
        case "~":
            return lambda one: any(wanted[0] in value for value in values(one))
        case _:
            return lambda one: texts.isdisjoint(values(one))


def _numbered(field: str, operator: str, wanted: tuple[str, ...]) -> _Requirement:
    number = _NUMBERS.get(field)
    if number is None:
        raise Invalid(f"{field} is not a number")
    try:
        numbers = tuple(map(float, wanted))
    except ValueError:
        raise Invalid(f"{field} needs a number, not {', '.join(wanted)[:80]!r}") from None
    match operator:
        case "=" | "==" | "in":
            return lambda one: number(one) in numbers
        case "!=" | "notin":
            return lambda one: number(one) not in numbers
        case ">":
            return lambda one: number(one) > numbers[0]
        case "<":
            return lambda one: number(one) < numbers[0]
        case _:
            raise Invalid(f"{field} is a number: use =, !=, <, >, in or notin")
