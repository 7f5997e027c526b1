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

_TRIALS = 2_000
"""How often members are put on nodes to find an arrangement of members of several sizes."""
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


@dataclass(slots=True)
class Sums:
    """Slots by node and by domain."""

    nodes: dict[model.NodeName, int]
    domains: dict[Path, int]
    children: dict[Path, list[Path]]
    members: dict[Path, list[model.NodeName]]
    """Domain -> the nodes directly in it."""
    existing: dict[Path, int]
    own: dict[Path, int]
    """Members that multiples count beside these, where the gang demands any."""

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


def slots(problem: PackingProblem, capacity: capacities.Capacities) -> dict[model.NodeName, int]:
    """Node -> members that fit there together, of any class."""
    paths, single = problem.demands.tree.paths, len(problem.classes) == 1
    if single:
        return capacity.slots(problem.classes[0], paths)
    found: dict[model.NodeName, int] = {}
    small = sorted(problem.classes, key=lambda one: sum(one.sample.requests.values()))
    each = {id(one): capacity.slots(one, paths) for one in small}
    for name in paths:
        count = sum(each[id(one)].get(name, 0) for one in small)
        if count:
            found[name] = min(count, len(problem.pods))
    return found


def sums(problem: PackingProblem, counted: Mapping[model.NodeName, int]) -> Sums:
    """The slots of domains, from those of nodes: floored to multiples, where the gang demands any."""
    tree, multiples = problem.demands.tree, problem.demands.multiples
    made = Sums({}, {}, {}, {}, {}, {})
    depth = len(tree.layers)
    by_node = multiples.get(depth + 1, 1)
    for name, count in counted.items():
        path = tree.paths[name]
        count = _floored(count, by_node, problem.own.get(name, 0)) if by_node > 1 else count
        if count > 0:
            made.nodes[name] = count
            made.members.setdefault(path, []).append(name)
            made.domains[path] = made.domains.get(path, 0) + count
    for there, by_domain in ((problem.existing, made.existing), (problem.own if multiples else {}, made.own)):
        for name, count in there.items():
            path = tree.paths.get(name, ())
            for at in range(len(path) + 1):
                by_domain[path[:at]] = by_domain.get(path[:at], 0) + count
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


def pack(problem: PackingProblem, capacity: capacities.Capacities, made: Sums) -> Packing | None:
    """All members on nodes of one domain, as small as possible; None if they do not fit.

    ``made``: the sums of the slots in the capacity.
    """
    wanted = len(problem.pods)
    for layer in candidates(problem, made, wanted):
        for domain in layer:
            if _whole(problem, made, domain, wanted) < wanted:
                continue
            given = distribute(problem, made, domain, wanted)
            if sum(count for _, count in given) < wanted:
                continue
            seats = _in_order(problem, capacity, given)
            if seats is None:
                nodes = nodes_of(problem, made, domain)
                if not problem.demands.multiples:
                    seats = _largest_first(problem, capacity, problem.pods, nodes, frozenset())
                if seats is None or len(seats) < wanted:
                    seats = _searched(problem, capacity, nodes, _TRIALS)
            if seats is not None and len(problem.classes) > 1 and not problem.demands.multiples:
                seats = _fewer_domains(problem, capacity, made, domain, seats) or seats
            if seats is not None:
                return Packing(seats, domain)
    return None


def pack_most(problem: PackingProblem, capacity: capacities.Capacities, made: Sums) -> Packing | None:
    """As many members as fit in one demanded domain, the required ones first; None if no member fits."""
    best: Packing | None = None
    # How much of the minimums it seats, and how many in all: another gang may need those that it leaves out.
    most, required = (0, 0), required_of(problem.minimums)
    chosen = sorted(problem.pods, key=lambda pod: pod.uid not in required)
    for domain in demanded(problem, made):
        wanted = min(made.domains[domain], len(problem.pods))
        if most >= (min(wanted, len(required)), wanted):
            break
        given = distribute(problem, made, domain, _whole(problem, made, domain, wanted))
        count = sum(number for _, number in given)
        seats = None
        if len(problem.classes) == 1 or problem.demands.multiples:
            kept = {pod.uid for pod in chosen[:count]}
            part = replace(problem, pods=tuple(pod for pod in problem.pods if pod.uid in kept))
            seats = _in_order(part, capacity, given)
        if seats is None:
            nodes = [name for name, _ in distribute(problem, made, domain, made.domains[domain])]
            seats = _largest_first(problem, capacity, chosen, nodes, required)
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
    problem: PackingProblem, capacity: capacities.Capacities, given: Sequence[tuple[model.NodeName, int]]
) -> dict[model.Uid, model.NodeName] | None:
    """The members in order on the nodes in order; None if one does not fit where it is put."""
    seats = dict(_filled(problem.pods, given))
    if len(problem.classes) > 1:
        trial = capacity.copy()
        refused = {pod.uid: one.refused for one in problem.classes for pod in one.pods}
        for pod in problem.pods:
            name = seats[pod.uid]
            if name in refused[pod.uid] or not trial.fits(pod, name):
                return None
            trial.put(pod, name)
    return seats


def _fewer_domains(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    made: Sums,
    domain: Path,
    seats: Mapping[model.Uid, model.NodeName],
) -> dict[model.Uid, model.NodeName] | None:
    """All members in fewer parts of the domain than they are in; None if not found.

    Slots are an upper bound for members of several sizes: the parts with most of them may not be the fewest.
    """
    depth, paths = len(domain) + 1, problem.demands.tree.paths
    used = {paths[name][:depth] for name in seats.values()}
    parts = sorted(
        (path for path in made.children.get(domain, ()) if made.domains[path] > 0),
        key=lambda path: (-made.domains[path], path),
    )
    wanted, nodes = len(problem.pods), nodes_of(problem, made, domain)
    choices = (
        chosen
        for count in range(2, len(used) if wanted <= arrangements.MEMBERS else 0)
        for chosen in itertools.islice(itertools.combinations(parts, count), _FEWER)
        if sum(made.domains[path] for path in chosen) >= wanted
    )
    for chosen in choices:
        inside = [name for name in nodes if paths[name][:depth] in chosen]
        found = _largest_first(problem, capacity, problem.pods, inside, frozenset())
        if len(found) == wanted:
            return found
        searched = _searched(problem, capacity, inside, _TRIALS // _FEWER)
        if searched is not None:
            return searched
    return None


def _searched(
    problem: PackingProblem, capacity: capacities.Capacities, nodes: Sequence[model.NodeName], trials: int
) -> dict[model.Uid, model.NodeName] | None:
    """All members on the nodes by trial and error, within a limit of trials; None if not found."""
    found = arrangements.Search(problem.classes).arrangements(nodes, capacity, arrangements.Tries(trials))
    own = problem.own
    return next(
        (seats for seats in found if domains.in_multiples(problem.demands, own, seats.values())), None
    )


def nodes_of(problem: PackingProblem, made: Sums, domain: Path) -> list[model.NodeName]:
    """All nodes of the domain that have capacity, in the order in which they are filled."""
    first = [name for name, _ in distribute(problem, made, domain, made.domains[domain])]
    if not problem.demands.multiples:
        return first
    # Slots are an upper bound of each node: members of several sizes may use others than those first ones.
    paths = problem.demands.tree.paths
    return first + sorted(name for name in made.nodes.keys() - first if domains.within(paths[name], domain))


def _largest_first(
    problem: PackingProblem,
    capacity: capacities.Capacities,
    pods: Sequence[model.Pod],
    nodes: Sequence[model.NodeName],
    before: frozenset[model.Uid],
) -> dict[model.Uid, model.NodeName]:
    """Each member on the first node with capacity for it, those of ``before`` first, then by size."""
    number = {pod.uid: at for at, one in enumerate(problem.classes) for pod in one.pods}
    sizes, trial = _sizes(problem.classes), capacity.copy()
    seats: dict[model.Uid, model.NodeName] = {}
    # Members only take capacity: the nodes that were too small for one are too small for all of its class.
    passed = [0] * len(problem.classes)
    for pod in sorted(pods, key=lambda pod: (pod.uid not in before, -sizes[number[pod.uid]])):
        own = number[pod.uid]
        refused = problem.classes[own].refused
        while passed[own] < len(nodes):
            name = nodes[passed[own]]
            if name not in refused and trial.fits(pod, name):
                trial.put(pod, name)
                seats[pod.uid] = name
                break
            passed[own] += 1
    return seats


def _sizes(classes: Sequence[capacities.PodClass]) -> list[float]:
    """How large the pods of each class are, by their requests against the largest of each resource."""
    largest: dict[str, int] = {}
    for one in classes:
        for resource, amount in one.sample.requests.items():
            largest[resource] = max(largest.get(resource, 1), amount)
    return [
        sum(amount / largest[resource] for resource, amount in one.sample.requests.items()) for one in classes
    ]


def by_size(classes: Sequence[capacities.PodClass]) -> list[capacities.PodClass]:
    """The classes of the largest pods first."""
    sizes = _sizes(classes)
    return [classes[at] for at in sorted(range(len(classes)), key=lambda at: -sizes[at])]
