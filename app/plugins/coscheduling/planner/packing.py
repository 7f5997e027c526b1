"""Chooses the domain for a gang, and a node for each member.

The order of candidates and the distribution follow Koordinator (pkg/scheduler/plugins/coscheduling/core,
network_topology_solver.go): the deepest layer with capacity, then the domain with most members already, then
the one with least capacity. Members of several sizes are packed again, largest first, where its counting does
not do.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.domain import model
from app.plugins.coscheduling.planner import arrangements, capacities, domains
from app.plugins.coscheduling.planner.domains import Demands, Path

_FEWER = 20
"""Choices of so many domains that are tried for members of several sizes."""


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """Members to place."""

    pods: tuple[model.Pod, ...]
    """In the order in which they fill nodes."""
    classes: tuple[capacities.PodClass, ...]
    demands: Demands
    existing: Mapping[model.NodeName, int] = field(default_factory=dict)
    """Node -> members that are there already, or that attract these."""
    own: Counter[model.NodeName] = field(default_factory=Counter)
    """Node -> members that are there already: multiples count them, and their domain is that of the gang, if
    one is demanded."""
    inside: Path = ()
    """The domain must contain this one, or be inside it."""
    minimums: Sequence[tuple[Sequence[model.Uid], int]] = ()
    """For each gang its members in order, and how many of them are required: the others may be left out."""


class Packing(NamedTuple):
    """Members on nodes."""

    seats: dict[model.Uid, model.NodeName]
    domain: Path


class Slots(NamedTuple):
    """Members that fit on nodes."""

    nodes: Mapping[model.NodeName, int]
    """Node -> members that fit there together, of any class: an upper bound."""
    classes: arrangements.ClassSlots


@dataclass(slots=True)
class Sums:
    """Slots by node and by domain."""

    classes: arrangements.ClassSlots
    by_class: dict[model.Uid, dict[Path, int]]
    """The same by domain, where there are several classes."""
    nodes: dict[model.NodeName, int]
    domains: dict[Path, int]
    children: dict[Path, list[Path]]
    members: dict[Path, list[model.NodeName]]
    """Domain -> the nodes directly in it."""
    existing: dict[Path, int]
    own: dict[Path, int]
    """Domain -> members already there, which count towards its multiple."""

    def lacking(self, problem: PackingProblem, *parts: Path) -> bool:
        """Whether the parts of the cluster have too few slots for the members of some class."""
        return len(problem.classes) > 1 and any(
            sum(self.by_class[one.sample.uid].get(part, 0) for part in parts) < len(one.pods)
            for one in problem.classes
        )

    def along(self, path: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Members already there, and slots, from the domain up to the top."""
        steps = [path[:depth] for depth in range(len(path), 0, -1)]
        return (
            tuple(-self.existing.get(step, 0) for step in steps),
            tuple(self.domains.get(step, 0) for step in steps),
        )


def required_of(minimums: Sequence[tuple[Sequence[model.Uid], int]]) -> frozenset[model.Uid]:
    """The first members of each gang, as many as are required."""
    return frozenset(uid for uids, least in minimums for uid in uids[:least])


def slots(problem: PackingProblem, capacity: capacities.Capacities) -> Slots:
    """The slots of all nodes that have a place in the tree."""
    paths = problem.demands.tree.paths
    each = {one.sample.uid: capacity.slots(one, paths) for one in problem.classes}
    if len(each) == 1:
        return Slots(next(iter(each.values())), each)
    found: dict[model.NodeName, int] = {}
    for counted in each.values():
        for name, count in counted.items():
            found[name] = min(found.get(name, 0) + count, len(problem.pods))
    return Slots(found, each)


def sums(problem: PackingProblem, counted: Slots) -> Sums:
    """The slots of domains, from those of nodes: floored to multiples, where the gang demands any."""
    tree, multiples = problem.demands.tree, problem.demands.multiples
    made = Sums(counted.classes, {}, {}, {}, {}, {}, {}, {})
    if len(problem.classes) > 1:
        made.by_class = {uid: domains.summed(tree, each) for uid, each in counted.classes.items()}
    depth = len(tree.layers)
    by_node = multiples.get(depth + 1, 1)
    for name, count in counted.nodes.items():
        path = tree.paths[name]
        count = _floored(count, by_node, problem.own.get(name, 0)) if by_node > 1 else count
        if count > 0:
            made.nodes[name] = count
            made.members.setdefault(path, []).append(name)
            made.domains[path] = made.domains.get(path, 0) + count
    made.existing = domains.summed(tree, problem.existing)
    made.own = domains.summed(tree, problem.own) if multiples else {}
    known: set[Path] = set(made.domains)
    for length in range(depth, -1, -1):
        for path in sorted(path for path in known if len(path) == length):
            multiple = multiples.get(length, 1)
            if multiple > 1 and length:
                made.domains[path] = _floored(made.domains[path], multiple, made.own.get(path, 0))
            if path:
                above = path[:-1]
                known.add(above)
                made.domains[above] = made.domains.get(above, 0) + made.domains[path]
                made.children.setdefault(above, []).append(path)
    return made


def _floored(count: int, multiple: int, there: int) -> int:
    """At most so many members beside those that are there, so that all are a multiple; not below 0."""
    return max(0, (count + there) // multiple * multiple - there)


def _whole(problem: PackingProblem, made: Sums, domain: Path, count: int) -> int:
    """At most so many members, so that they are multiples in the domain and in those above it."""
    for length, multiple in problem.demands.multiples.items():
        if length <= len(domain):
            count = _floored(count, multiple, made.own.get(domain[:length], 0))
    return count


def candidates(problem: PackingProblem, made: Sums, wanted: int) -> Iterator[list[Path]]:
    """The domains with enough slots, layer by layer from the deepest to the one that is demanded."""
    must, own = problem.demands.must, _own_domains(problem)
    for length in range(len(problem.demands.tree.layers), must - 1, -1):
        found = [
            path
            for path, count in made.domains.items()
            if len(path) == length
            and count >= wanted
            and (not must or not own or path[:must] in own)
            and (domains.within(path, problem.inside) or domains.within(problem.inside, path))
        ]
        if found:
            yield sorted(found, key=lambda path: (*made.along(path), path))


def _own_domains(problem: PackingProblem) -> set[Path]:
    must, paths = problem.demands.must, problem.demands.tree.paths
    return {paths[name][:must] for name in problem.own if name in paths}


def demanded(problem: PackingProblem, made: Sums) -> list[Path]:
    """The domains that may hold the gang at all, those with most slots first."""
    must, own = problem.demands.must, _own_domains(problem)
    found = [
        path
        for path in made.domains
        if len(path) == must
        and (not must or not own or path in own)
        and (domains.within(path, problem.inside) or domains.within(problem.inside, path))
    ]
    return sorted(found, key=lambda path: (-made.domains[path], path))


def distribute(
    problem: PackingProblem, made: Sums, domain: Path, wanted: int
) -> list[tuple[model.NodeName, int]]:
    """Nodes of the domain with the members that each gets, in the order in which they are filled.

    Multiples that lack members are completed, or left as they are where that places more.
    """
    given = _distributed(problem, made, domain, wanted)
    if problem.demands.multiples and problem.own and sum(count for _, count in given) < wanted:
        other = _distributed(problem, made, domain, wanted, completing=False)
        given = max(given, other, key=lambda one: sum(count for _, count in one))
    return given


def _distributed(
    problem: PackingProblem, made: Sums, domain: Path, wanted: int, *, completing: bool = True
) -> list[tuple[model.NodeName, int]]:
    multiples, depth = problem.demands.multiples, len(problem.demands.tree.layers)
    found: list[tuple[model.NodeName, int]] = []

    def floored(count: int, length: int, there: int) -> int:
        multiple = multiples.get(length, 1)
        return _floored(count, multiple, there) if completing or not there % multiple else 0

    def fill(path: Path, rest: int) -> int:
        """Place up to ``rest`` members below the domain; returns how many."""
        parts = sorted(
            (-made.existing.get(child, 0), -made.domains[child], child)
            for child in made.children.get(path, ())
            if made.domains[child] > 0
        )
        placed = 0
        for _, _, child in parts:
            given = min(made.domains[child], rest - placed)
            given = floored(given, len(child), made.own.get(child, 0)) if multiples else given
            if given > 0:
                placed += fill(child, given)
        nodes = sorted(
            made.members.get(path, ()),
            key=lambda name: (-problem.existing.get(name, 0), -made.nodes[name], name),
        )
        for name in nodes:
            given = min(made.nodes[name], rest - placed)
            given = floored(given, depth + 1, problem.own.get(name, 0)) if multiples else given
            if given > 0:
                found.append((name, given))
                placed += given
        return placed

    fill(domain, wanted)
    return found


def pack(
    problem: PackingProblem, capacity: capacities.Capacities, made: Sums, tries: arrangements.Tries
) -> Packing | None:
    """All members on nodes of one domain, as small as possible; None if they do not fit.

    ``made``: the sums of the slots in the capacity.
    """
    for layer in candidates(problem, made, len(problem.pods)):
        # What small domains use up is not missing in larger ones, which are more likely to hold the gang.
        with tries.part(len(layer[0]) - problem.demands.must + 1) as share:
            tried = ((domain, _seats(problem, capacity, made, domain, share)) for domain in layer)
            found = next((Packing(seats, domain) for domain, seats in tried if seats is not None), None)
        if found is not None:
            seats = _fewer_domains(problem, capacity, made, found, tries)
            return found if seats is None else found._replace(seats=seats)
    return None


def _seats(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    made: Sums,
    domain: Path,
    tries: arrangements.Tries,
) -> dict[model.Uid, model.NodeName] | None:
    """All members on nodes of the domain; None if that is not found."""
    wanted = len(problem.pods)
    if made.lacking(problem, domain) or _whole(problem, made, domain, wanted) < wanted:
        return None
    given = distribute(problem, made, domain, wanted)
    if sum(count for _, count in given) < wanted:
        return None  # By multiples it holds fewer.
    seats = _in_order(problem, capacity, given, tries)
    return seats or _arranged(problem, capacity, made, nodes_of(problem, made, domain), tries)


def pack_most(
    problem: PackingProblem, capacity: capacities.Capacities, made: Sums, tries: arrangements.Tries
) -> Packing | None:
    """As many members as fit in one demanded domain, the required ones first; None if no member fits."""
    best: Packing | None = None
    # How much of the minimums it seats, and how many in all: another gang may need those that it leaves out.
    most, required = (0, 0), required_of(problem.minimums)
    chosen = sorted(problem.pods, key=lambda pod: pod.uid not in required)
    for domain in demanded(problem, made):
        wanted = min(made.domains[domain], len(problem.pods))
        if most >= (min(wanted, len(required)), wanted):
            break
        seats = None
        if len(problem.classes) == 1 or problem.demands.multiples:
            given = distribute(problem, made, domain, _whole(problem, made, domain, wanted))
            kept = {pod.uid for pod in chosen[: sum(number for _, number in given)]}
            part = replace(problem, pods=tuple(pod for pod in problem.pods if pod.uid in kept))
            seats = _in_order(part, capacity, given, tries)
        if seats is None:
            nodes = [name for name, _ in distribute(problem, made, domain, made.domains[domain])]
            seats = arrangements.largest_first(
                problem.classes, chosen, nodes, made.classes, capacity, tries, required
            )
            if not domains.in_multiples(problem.demands, problem.own, seats.values()):
                seats = {}
        rank = sum(min(least, len(seats.keys() & uids)) for uids, least in problem.minimums), len(seats)
        if rank > most:
            best, most = Packing(seats, domain), rank
    return best


def _filled(
    pods: Sequence[model.Pod], given: Sequence[tuple[model.NodeName, int]]
) -> Iterator[tuple[model.Uid, model.NodeName]]:
    places = itertools.chain.from_iterable(itertools.repeat(name, count) for name, count in given)
    return ((pod.uid, name) for pod, name in zip(pods, places, strict=False))


def _in_order(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    given: Sequence[tuple[model.NodeName, int]],
    tries: arrangements.Tries,
) -> dict[model.Uid, model.NodeName] | None:
    """The members in order on the nodes in order; None if one does not fit where it is put."""
    seats = dict(_filled(problem.pods, given))
    if len(problem.classes) > 1:
        trial = capacity.copy()
        refused = {pod.uid: one.refused for one in problem.classes for pod in one.pods}
        for pod in problem.pods:
            name = seats[pod.uid]
            if name in refused[pod.uid] or not tries.fits(trial, pod, name):
                return None
            trial.put(pod, name)
    return seats


def _fewer_domains(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    made: Sums,
    found: Packing,
    tries: arrangements.Tries,
) -> dict[model.Uid, model.NodeName] | None:
    """All members in fewer parts of the domain than they are in; None if not found.

    Slots are an upper bound for members of several sizes: the parts with most of them may not be the fewest.
    """
    depth, paths = len(found.domain) + 1, problem.demands.tree.paths
    used = {paths[name][:depth] for name in found.seats.values()}
    wanted, single = len(problem.pods), len(problem.classes) == 1
    if single or problem.demands.multiples or len(used) < 3 or wanted > arrangements.MEMBERS:
        return None
    parts = sorted(
        (path for path in made.children.get(found.domain, ()) if made.domains[path] > 0),
        key=lambda path: (-made.domains[path], path),
    )
    nodes: dict[Path, list[model.NodeName]] = {}
    for name in nodes_of(problem, made, found.domain):
        nodes.setdefault(paths[name][:depth], []).append(name)
    choices = (
        chosen
        for count in range(2, len(used))
        for chosen in itertools.islice(itertools.combinations(parts, count), _FEWER)
        if sum(made.domains[path] for path in chosen) >= wanted and not made.lacking(problem, *chosen)
    )
    for chosen in choices:
        if tries.left <= 0:
            return None
        picked = {*chosen}
        inside = [name for part, names in nodes.items() if part in picked for name in names]
        with tries.part(_FEWER) as share:
            seats = _arranged(problem, capacity, made, inside, share)
        if seats is not None:
            return seats
    return None


def _arranged(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    made: Sums,
    nodes: Sequence[model.NodeName],
    tries: arrangements.Tries,
) -> dict[model.Uid, model.NodeName] | None:
    """All members on the nodes, the largest first or by trial and error; None if not found."""
    if not problem.demands.multiples:
        pods, classes = problem.pods, problem.classes
        seats = arrangements.largest_first(classes, pods, nodes, made.classes, capacity, tries)
        if len(seats) == len(pods):
            return seats
    search = arrangements.Search(capacities.by_size(problem.classes))
    for seats in search.arrangements(nodes, made.classes, capacity, tries):
        if domains.in_multiples(problem.demands, problem.own, seats.values()):
            return seats
    return None


def nodes_of(problem: PackingProblem, made: Sums, domain: Path) -> list[model.NodeName]:
    """All nodes of the domain that have capacity, in the order in which they are filled."""
    first = [name for name, _ in distribute(problem, made, domain, made.domains[domain])]
    if not problem.demands.multiples:
        return first
    # Slots are an upper bound of each node: members of several sizes may use others than those first ones.
    paths = problem.demands.tree.paths
    return first + sorted(name for name in made.nodes.keys() - first if domains.within(paths[name], domain))
