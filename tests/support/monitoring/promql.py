"""Evaluates the part of PromQL that alerting rules and dashboards use, over recorded samples.

For machines without promtool. It differs from Prometheus in two ways that no rule depends on: ``rate`` and
``increase`` do not extrapolate to the ends of their window, and a sample stays current until the next scrape.
Where promtool is installed, the tests let it judge the same samples.
"""

import collections
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Matchers = Mapping[str, re.Pattern[str]]
"""Label -> pattern of its whole value; an absent label is empty."""
Value = Vector | float


class Scrape(NamedTuple):
    """The samples of all processes at one moment; every sample has the label ``pod``."""

    at: float
    samples: Sequence[tuple[str, Mapping[str, str], float]]


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?![\w])|(?P<name>[A-Za-z_]\w*)|(?P<text>\"[^\"]*\")"
    r"|(?P<window>\[\d+[smhd]\])|(?P<op>==|=~|!~|!=|>=|<=|[-+*/<>(){},=]))"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LEVELS: Sequence[Mapping[str, Callable[[float, float], float]]] = (
    {"==": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": lambda left, right: left / right if right else math.nan},
)
_MATCHERS: Mapping[str, Callable[[str], str]] = {
    "=": re.escape,
    "!=": lambda text: rf"(?!{re.escape(text)}$).*",
    "=~": str,
    "!~": lambda text: rf"(?!(?:{text})$).*",
}
"""Sign between a label and a text -> pattern of the whole values that it selects."""
_AGGREGATIONS: Mapping[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": len,
}


def evaluate(expression: str, scrapes: Sequence[Scrape], now: float) -> Vector:
    """The result of an expression at ``now``; the newest scrape before is the present one."""
    parser = _Parser(expression, [one for one in scrapes if one.at <= now], now)
    value = parser.union()
    assert parser.at == len(parser.tokens), f"not understood: {parser.tokens[parser.at :]}"
    assert isinstance(value, dict)
    return value


class _Parser:
    def __init__(self, expression: str, scrapes: Sequence[Scrape], now: float) -> None:
        self.tokens: list[str] = []
        position = 0
        while expression[position:].strip():
            match = _TOKEN.match(expression, position)
            assert match, f"not understood: {expression[position:]!r}"
            self.tokens.append(match[0].strip())
            position = match.end()
        self.at = 0
        self.scrapes = scrapes
        self.now = float(now)

    def union(self) -> Value:
        value = self.intersection()
        while self.accept("or"):
            right = self.intersection()
            assert isinstance(value, dict)
            assert isinstance(right, dict)
            value = {**right, **value}
        return value

    def intersection(self) -> Value:
        value = self.binary(0)
        while self.accept("and"):
            ignored = self.labels() if self.accept("ignoring") else []
            right = self.binary(0)
            assert isinstance(value, dict)
            assert isinstance(right, dict)
            found = {_without(key, ignored) for key in right}
            value = {key: each for key, each in value.items() if _without(key, ignored) in found}
        return value

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.operand()
        value = self.binary(level + 1)
        while (sign := self.next) in _LEVELS[level]:
            self.at += 1
            value = _combined(_LEVELS[level][sign], value, self.binary(level + 1), filters=level == 0)
        return value

    def operand(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.union()
            self.expect(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token in _AGGREGATIONS:
            return self.aggregation(token)
        if self.next == "(":
            return self.call(token)
        return self.instant(token, *self.selector())

    def aggregation(self, name: str) -> Vector:
        by = self.labels() if self.accept("by") else []
        self.expect("(")
        value = self.union()
        self.expect(")")
        assert isinstance(value, dict)
        groups: dict[Labels, list[float]] = collections.defaultdict(list)
        for labels, number in value.items():
            groups[frozenset(pair for pair in labels if pair[0] in by)].append(number)
        return {labels: float(_AGGREGATIONS[name](numbers)) for labels, numbers in groups.items()}

    def labels(self) -> list[str]:
        """Names of labels in parentheses."""
        found: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            found.append(self.take())
            self.accept(",")
        return found

    def call(self, name: str) -> Value:
        self.expect("(")
        if name == "time":
            self.expect(")")
            return self.now
        if name in ("rate", "increase"):
            metric = self.take()
            wanted, window = self.selector()
            self.expect(")")
            grown = self.grown(metric, wanted, window)
            return {key: each / window for key, each in grown.items()} if name == "rate" else grown
        if name == "histogram_quantile":
            share = float(self.take())
            self.expect(",")
            buckets = self.union()
            self.expect(")")
            assert isinstance(buckets, dict)
            return _quantiles(share, buckets)
        assert name == "absent", f"not understood: {name}"
        value = self.union()
        self.expect(")")
        return {} if value else {frozenset(): 1.0}

    def selector(self) -> tuple[Matchers, float]:
        """Patterns of the labels that a series must have, and the window in seconds, 0 without one."""
        wanted = {}
        if self.accept("{"):
            while not self.accept("}"):
                label = self.take()
                sign = self.take()
                text = self.take().strip('"')
                wanted[label] = re.compile(_MATCHERS[sign](text))
                self.accept(",")
        window = 0.0
        if self.next.startswith("["):
            window = _seconds(self.take()[1:-1])
        return wanted, window

    def instant(self, name: str, wanted: Matchers, window: float) -> Vector:
        assert not window, f"{name} is not the argument of rate or increase"
        return _found(self.scrapes[-1], name, wanted) if self.scrapes else {}

    def grown(self, name: str, wanted: Matchers, window: float) -> Vector:
        """By how much counters have grown within the window, restarts included."""
        inside = [one for one in self.scrapes if one.at >= self.now - window]
        grown: Vector = {}
        for before, after in itertools.pairwise(inside):
            old, new = _found(before, name, wanted), _found(after, name, wanted)
            for key in old.keys() & new.keys():
                step = new[key] - old[key] if new[key] >= old[key] else new[key]
                grown[key] = grown.get(key, 0.0) + step
        return grown

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, token: str) -> bool:
        found = self.next == token
        self.at += found
        return found

    def expect(self, token: str) -> None:
        assert self.accept(token), f"{token!r} expected at {self.tokens[self.at :]}"


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _UNITS[duration[-1]]


def _without(labels: Labels, ignored: Sequence[str]) -> Labels:
    return frozenset(pair for pair in labels if pair[0] not in ignored)


def _found(scrape: Scrape, name: str, wanted: Matchers) -> Vector:
    return {
        frozenset(labels.items()): value
        for sample, labels, value in scrape.samples
        if sample == name
        and all(pattern.fullmatch(labels.get(label, "")) for label, pattern in wanted.items())
    }


def _combined(work: Callable[[float, float], float], left: Value, right: Value, *, filters: bool) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return float(work(left, right))
    pairs: Iterable[tuple[Labels, float, float]]
    if isinstance(left, float):
        assert isinstance(right, dict)
        pairs = [(key, left, each) for key, each in right.items()]
    elif isinstance(right, float):
        pairs = [(key, each, right) for key, each in left.items()]
    else:
        pairs = [(key, left[key], right[key]) for key in left.keys() & right.keys()]
    if filters:
        return {key: one for key, one, other in pairs if work(one, other)}
    return {key: work(one, other) for key, one, other in pairs}


def _quantiles(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = collections.defaultdict(list)
    for labels, count in buckets.items():
        rest = frozenset(pair for pair in labels if pair[0] != "le")
        groups[rest].append((float(dict(labels)["le"]), count))
    return {labels: _quantile(share, sorted(found)) for labels, found in groups.items()}


def _quantile(share: float, buckets: list[tuple[Any, float]]) -> float:
    total = buckets[-1][1]
    if not total:
        return math.nan
    rank, below, least = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return least
            return float(least + (bound - least) * (rank - below) / (count - below))
        below, least = count, bound
    raise AssertionError("a histogram without the bucket +Inf")
