"""The nodes around a domain, the nearest first, in the parts on which other plugins refuse a member alike."""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, node_sets, snapshots
from app.framework import cycles
from app.plugins.coscheduling.planner import capacities, domains
from app.plugins.coscheduling.planner.domains import Path


class Parts(NamedTuple):
    """Nodes in parts. One node of a part stands for all of them."""

    samples: Mapping[Hashable, model.NodeName]
    """Part -> one of its nodes, of the whole cluster."""
    near: list[tuple[Hashable, list[model.NodeName]]]
    """The nodes in the demanded domain, the nearest first: those together that are in one part."""
    beyond: frozenset[Hashable]
    """The parts that have nodes outside of the demanded domain."""


class NearestNodes:
    """The nodes in the demanded domain around a domain, and the others."""

    def __init__(self, snapshot: snapshots.Snapshot, demands: domains.Demands, domain: Path) -> None:
        self._snapshot = snapshot
        self._parts: dict[tuple[str, ...] | None, Parts] = {}
        demanded = domain[: demands.must]
        there: dict[Path, list[model.NodeName]] = {}
        for name, path in demands.tree.paths.items():
            there.setdefault(path, []).append(name)
        # Among nodes at the same distance, those of one domain are together.
        paths = sorted(there, key=lambda path: (-domains.common(path, domain), path))
        self._near = [
            name for path in paths if domains.within(path, demanded) for name in sorted(there[path])
        ]
        self._beyond = [name for path in paths if not domains.within(path, demanded) for name in there[path]]

    def parts(self, labels: tuple[str, ...] | None) -> Parts:
        """The nodes in parts that are alike in the labels; None: each node is a part, called by its name."""
        if labels not in self._parts:
            names = (*self._near, *self._beyond)
            own = dict(zip(names, names, strict=True)) if labels is None else alike(self._snapshot, labels)
            self._parts[labels] = self._divided(own)
        return self._parts[labels]

    def _divided(self, part_of: Mapping[model.NodeName, Hashable]) -> Parts:
        samples: dict[Hashable, model.NodeName] = {}
        for name in (*self._near, *self._beyond):
            samples.setdefault(part_of[name], name)
        near = [(part, list(names)) for part, names in itertools.groupby(self._near, part_of.__getitem__)]
        return Parts(samples, near, frozenset(part_of[name] for name in self._beyond))


def alike(snapshot: snapshots.Snapshot, labels: tuple[str, ...]) -> Mapping[model.NodeName, Hashable]:
    """Node -> its part, equal for nodes that are alike in the labels: computed once for all nodes."""
    kind = cycles.SumClass(labels, ())
    return snapshot.topology.derived(
        (__name__, labels), lambda: {name: kind.part(node) for name, node in snapshot.nodes.items()}
    )


def one_of_each_domain(
    paths: Mapping[model.NodeName, Path],
    domain: Path,
    last: Collection[model.NodeName],
    usable: Callable[[model.NodeName], bool],
) -> Iterator[model.NodeName]:
    """The usable nodes, the nearest to a domain first: one of each domain, then the others.

    ``last``: nodes that come after the others of their domain.
    """
    first: set[Path] = set()
    others: list[model.NodeName] = []
    nearest = sorted(
        paths, key=lambda name: (-domains.common(paths[name], domain), paths[name], name in last, name)
    )
    for name in nearest:
        if paths[name] in first:
            others.append(name)
        elif usable(name):
            first.add(paths[name])
            yield name
    yield from filter(usable, others)


class Places:
    """Where members count while they are admitted one after the other."""

    def __init__(self, pods: Iterable[model.Pod], at: dict[model.Uid, model.NodeName]) -> None:
        """``at``: member -> the node of its seat, changed by every move."""
        self._at = at
        self._there: dict[model.NodeName, dict[model.Uid, model.Pod]] = {}
        for pod in pods:
            if pod.uid in at:
                self._there.setdefault(at[pod.uid], {})[pod.uid] = pod
        self._full: dict[Hashable, set[model.NodeName]] = {}
        """Size -> nodes on which no further member of that size fits."""

    def free(
        self, run: Sequence[model.Pod], nodes: Iterable[model.NodeName], capacity: capacities.Capacities
    ) -> dict[model.Uid, model.NodeName]:
        """Members of a run on the nodes that have capacity beside all other members, in order.

        ``capacity``: that of the state without members.
        """
        found: dict[model.Uid, model.NodeName] = {}
        full = self._full.setdefault(capacities.size(run[0]), set())
        one = capacities.PodClass(run[0], tuple(run), node_sets.NONE)
        waiting = itertools.filterfalse(full.__contains__, nodes)
        while names := list(itertools.islice(waiting, len(run) - len(found))):
            for name in names:
                for other in self._there.get(name, {}).values():
                    capacity.put(other, name)
            counts = capacity.slots(one, names)
            for name in names:
                count, before = counts.get(name, 0), len(found)
                found.update((pod.uid, name) for pod in run[before : before + count])
                if before + count >= len(run):
                    return found
                full.add(name)
        return found

    def move(self, run: Sequence[model.Pod], moved: Mapping[model.Uid, model.NodeName]) -> None:
        """Have the first members of the run count on other nodes."""
        for names in self._full.values():
            names.difference_update([self._at[uid] for uid in moved])
        for pod in run[: len(moved)]:
            del self._there[self._at[pod.uid]][pod.uid]
            self._there.setdefault(moved[pod.uid], {})[pod.uid] = pod
        self._at.update(moved)
