"""Finds the pods of a topology domain that a term of required pod affinity selects.

The authors of pods may write many terms, with thousands of values. What is examined of a pod is limited, what
is found for a term counts for all pods that have the same one, and the indexes of a state hold a number of
pods that no term raises.
"""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from app.domain import model, selectors, snapshots
from app.domain.fold import node_sums

TERMS = 16
"""Terms of a pod that are examined at most."""
NAMES = 256
"""Namespaces, labels and values in the terms of a pod that are examined at most."""
EXAMINED = 20_000
"""Pods that are compared with one term at most."""
HELD = 8
"""How often the indexes of one state hold each pod, on average and at most."""
_FEW = 16
"""So many pods are compared with a term without a further index."""
_KEYS = 4
"""Labels of a term by which pods are looked up at most."""


class Selected(NamedTuple):
    """Pods of a topology domain that a term selects."""

    pods: Sequence[model.Pod]
    whole: bool
    """False if ``EXAMINED`` pods were compared and others were not."""


class _Index(NamedTuple):
    """The pods of a topology domain by namespace and value of one label."""

    groups: Mapping[str, Mapping[str, Sequence[model.Pod]]]
    weight: int


class _Indexes:
    """The indexes of one state. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[Hashable, _Index] = {}

    def get(self, key: Hashable, compute: Callable[[], _Index]) -> _Index:
        found = self._held.get(key)
        if found is None:
            found = compute()
            held = self._held
            if self.weight() + found.weight > self._limit:
                self._held = held = {}
            held[key] = found
        return found

    def weight(self) -> int:
        return sum(one.weight for one in list(self._held.values()))


@dataclass(frozen=True, slots=True)
class _Domain:
    """The nodes with one value of a node label."""

    snapshot: snapshots.Snapshot
    topology_key: str
    value: str

    def pods(self) -> _Index:
        """All pods that occupy a node of the domain, by namespace alone."""

        def compute() -> _Index:
            on = map(self.snapshot.on, self.snapshot.topology[self.topology_key][self.value])
            return _indexed((pod, "") for pod in itertools.chain.from_iterable(on) if node_sums.holding(pod))

        return _indexes(self.snapshot).get((self.topology_key, self.value, None), compute)

    def labelled(self, label: str) -> _Index:
        """The pods of the domain that have the label."""

        def compute() -> _Index:
            held = itertools.chain.from_iterable(groups[""] for groups in self.pods().groups.values())
            return _indexed((pod, pod.labels[label]) for pod in held if label in pod.labels)

        return _indexes(self.snapshot).get((self.topology_key, self.value, label), compute)


def excessive(pod: model.Pod) -> bool:
    """Whether the required pod affinity of the pod is beyond the limits."""
    terms = pod.constraints.pod_affinity if pod.constraints is not None else ()
    return len(terms) > TERMS or sum(map(_names, terms)) > NAMES


def meets(term: model.PodTerm, pod: model.Pod, other: model.Pod) -> bool:
    """Whether the other pod is selected by a term of the pod."""
    if term.selector is None or not selectors.matches(term.selector, other.labels):
        return False
    return term.any_namespace or other.namespace in (term.namespaces or (pod.namespace,))


def selected(
    snapshot: snapshots.Snapshot, node: model.NodeName, pod: model.Pod, term: model.PodTerm, number: int
) -> Selected:
    """At least ``number`` pods that a term of the pod selects in the topology domain of its node, or all of
    them; on the node alone, if it has no such label. Only pods that occupy a node count.
    """
    value = snapshot.nodes[node].labels.get(term.topology_key)
    if value is None or len(snapshot.topology[term.topology_key][value]) == 1:
        on = (one for one in snapshot.on(node) if node_sums.holding(one) and meets(term, pod, one))
        return Selected(tuple(itertools.islice(on, number)), True)
    number = 1 << number.bit_length()  # Few different numbers, so that most calls for a term share a result.
    own = "" if term.any_namespace or term.namespaces else pod.namespace
    domain = _Domain(snapshot, term.topology_key, value)
    key = __name__, msgspec.json.encode(term), own, value, number
    return snapshot.computed(key, lambda: _first(_candidates(domain, pod, term), pod, term, number))


def _first(
    groups: Sequence[Sequence[model.Pod]], pod: model.Pod, term: model.PodTerm, number: int
) -> Selected:
    pods = itertools.chain.from_iterable(groups)
    examined = itertools.islice(pods, EXAMINED)
    found = tuple(itertools.islice((one for one in examined if meets(term, pod, one)), number))
    return Selected(found, len(found) == number or next(pods, None) is None)


def _candidates(domain: _Domain, pod: model.Pod, term: model.PodTerm) -> list[Sequence[model.Pod]]:
    """Groups of pods of the domain among which are all that the term selects: those with the rarest of the
    labels that it requires.
    """
    spaces = None if term.any_namespace else frozenset(term.namespaces or (pod.namespace,))
    found = _groups(domain.pods(), spaces, None)
    for label, values in itertools.islice(_required(term.selector or model.Selector()), _KEYS):
        if _size(found) <= _FEW:
            break
        found = min(found, _groups(domain.labelled(label), spaces, values), key=_size)
    return found


def _required(selector: model.Selector) -> Iterator[tuple[str, Set[str] | None]]:
    """The labels that every selected pod has, each with the values that it may have; None for any value."""
    for label, value in selector.labels.items():
        yield label, frozenset((value,))
    for one in selector.expressions:
        if one.operator in ("In", "Exists"):
            yield one.key, frozenset(one.values) if one.operator == "In" else None


def _groups(index: _Index, spaces: Set[str] | None, values: Set[str] | None) -> list[Sequence[model.Pod]]:
    return [
        index.groups[space][value]
        for space in _common(index.groups, spaces)
        for value in _common(index.groups[space], values)
    ]


def _common(held: Mapping[str, object], asked: Set[str] | None) -> Iterable[str]:
    """The keys that are held and asked for; None asks for all. The time depends on the fewer ones."""
    if asked is None:
        return held
    fewer, more = (asked, held) if len(asked) < len(held) else (held, asked)
    return (one for one in fewer if one in more)


def _size(groups: Iterable[Collection[model.Pod]]) -> int:
    return sum(map(len, groups))


def _indexed(pods: Iterable[tuple[model.Pod, str]]) -> _Index:
    """The index of pods, each with the value of the label."""
    groups: dict[str, dict[str, list[model.Pod]]] = {}
    weight = 1
    for pod, value in pods:
        groups.setdefault(pod.namespace, {}).setdefault(value, []).append(pod)
        weight += 1
    return _Index(groups, weight)


def _indexes(snapshot: snapshots.Snapshot) -> _Indexes:
    limit = HELD * (len(snapshot.pods) + len(snapshot.placements))
    return snapshot.computed(__name__, lambda: _Indexes(limit))


def _names(term: model.PodTerm) -> int:
    selector = term.selector or model.Selector()
    values = sum(1 + len(one.values) for one in selector.expressions)
    return len(term.namespaces) + len(selector.labels) + values
