"""Trees of quotas, built from whatever objects exist: clashing names, unknown parents and cycles are errors
of the quotas concerned, and the rest is used.

The name of a quota identifies it in the whole cluster, because a pod's label names no tree.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from app.domain import memos
from app.plugins.elastic_quota import quota_model
from app.plugins.elastic_quota.quota_model import ROOT, Amounts, Quota
from app.plugins.elastic_quota.trees import weighted_shares
from app.plugins.elastic_quota.trees.chains import DEPTH, chain_of, cycle_sizes

RESOURCES = 256
"""Resources of a tree at most: what is derived of it has a place for each of them in each quota."""


class Group(NamedTuple):
    """The children of one parent that a resource is divided between."""

    places: tuple[int, ...]
    """Indices of the children whose max names the resource; at least one."""
    members: weighted_shares.Members


class Column(NamedTuple):
    """One resource of a tree, each list in the order of Tree.quotas."""

    minimums: list[int]
    limits: list[int | None]
    """None where max does not name the resource."""
    groups: Mapping[int, Group]
    """Index of a parent, -1 for the root -> its children."""
    spots: list[int | None]
    """The place of each quota among the places of its group; None where max does not name the resource."""

    def amended(self, tree: "Tree", resource: str, quotas: Mapping[int, Quota]) -> "Column":
        """The column with these quotas, by index, which differ in amounts alone."""
        minimums, limits, groups = self.minimums.copy(), self.limits.copy(), dict(self.groups)
        for at, quota in quotas.items():
            spot, parent = self.spots[at], tree.parents[at]
            minimums[at], limits[at] = quota.min.get(resource, 0), quota.max.get(resource)
            if spot is not None:
                places, members = groups[parent]
                stated = members._replace(
                    minimums=_with(members.minimums, spot, minimums[at]),
                    weights=_with(members.weights, spot, quota.weights.get(resource, 0)),
                )
                groups[parent] = Group(places, stated)
        return Column(minimums, limits, groups, self.spots)


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _stated(quota: Quota, resource: str) -> tuple[int | None, ...]:
    """What a column has of a quota, and may differ where only amounts do."""
    return quota.min.get(resource), quota.max.get(resource), quota.weights.get(resource)


class Tree:
    """The valid quotas of one tree id, parents before children, with the columns that sharing reads."""

    def __init__(self, name: str, quotas: Iterable[Quota]) -> None:
        self.name = name
        self.quotas = tuple(quotas)
        self.names = tuple(quota.name for quota in self.quotas)
        self.index = {name: at for at, name in enumerate(self.names)}
        self.parents = tuple(self.index.get(quota.above, -1) for quota in self.quotas)
        """Index of each quota's parent; -1 for the root."""
        below: list[list[int]] = [[] for _ in self.quotas]
        top: list[int] = []
        for at, parent in enumerate(self.parents):
            (below[parent] if parent >= 0 else top).append(at)
        self.children = tuple(tuple(members) for members in below)
        self.top = tuple(top)
        """Indices of the root's children."""
        self.resources = tuple(sorted({resource for quota in self.quotas for resource in quota.max}))
        self.columns = {resource: self._column(resource) for resource in self.resources}
        self._root = next((at for at, quota in enumerate(self.quotas) if quota.is_root and name), None)

    @property
    def root(self) -> Quota | None:
        """The quota that carries the total of the tree."""
        return None if self._root is None else self.quotas[self._root]

    def amended(self, changed: Iterable[Quota]) -> "Tree":
        """The tree with these in place of the quotas of their names, from which they differ in amounts."""
        by_index = {self.index[quota.name]: quota for quota in changed}
        quotas = list(self.quotas)
        for at, quota in by_index.items():
            quotas[at] = quota
        tree = copy.copy(self)
        tree.quotas = tuple(quotas)
        tree.columns = dict(self.columns)
        for resource in self.resources:
            touched = {
                at: quota
                for at, quota in by_index.items()
                if _stated(quota, resource) != _stated(self.quotas[at], resource)
            }
            if touched:
                tree.columns[resource] = self.columns[resource].amended(self, resource, touched)
        return tree

    @property
    def total(self) -> Amounts:
        """The total that the tree's root carries; its min, if it states none."""
        return {} if self.root is None else self.root.total or self.root.min

    def _column(self, resource: str) -> Column:
        quotas = self.quotas
        groups: dict[int, Group] = {}
        spots: list[int | None] = [None] * len(quotas)
        for parent in range(-1, len(quotas)):
            below = self.children[parent] if parent >= 0 else self.top
            places = tuple(at for at in below if resource in quotas[at].max)
            if places:
                members = weighted_shares.Members(
                    names=tuple(self.names[at] for at in places),
                    minimums=tuple(quotas[at].min.get(resource, 0) for at in places),
                    weights=tuple(quotas[at].weights.get(resource, 0) for at in places),
                    lends=tuple(quotas[at].lends for at in places),
                )
                groups[parent] = Group(places, members)
                for spot, at in enumerate(places):
                    spots[at] = spot
        minimums = [quota.min.get(resource, 0) for quota in quotas]
        return Column(minimums, [quota.max.get(resource) for quota in quotas], groups, spots)


@dataclass(frozen=True, eq=False)
class Forest:
    """All quotas of Koordinator's family."""

    quotas: Mapping[str, Quota]
    """Name -> the quota in use."""
    unused: Mapping[str, str]
    """Identity -> why the object is not used: an older one or the root has its name."""
    errors: Mapping[str, tuple[str, ...]]
    """Name -> why the quota is invalid; only invalid ones."""
    chains: Mapping[str, tuple[str, ...]]
    """Name -> the quota and the quotas above it, the nearest first, without the root; they end at
    what is wrong. A quota with DEPTH or more above it is alone."""
    trees: Mapping[str, Tree]
    """Tree id -> its valid quotas."""
    by_namespace: Mapping[str, str]
    """Namespace -> the quota that lists it."""
    claimed: tuple[Amounts, ...]
    """The totals of the trees that have one and leave so much less to the default tree."""
    memo: memos.Memo = field(compare=False, repr=False)
    """What is derived from the forest."""
    shared: memos.Memo = field(compare=False, repr=False)
    """What is derived from it whatever its amounts, and the runtimes of the latest state: forests that differ
    in amounts share it."""

    def amended(self, changed: Iterable[Quota | None]) -> "Forest | None":
        """The forest with these in place of the quotas of their names that are in use.

        None if one of them is gone, or differs in more than amounts. What depends on no amount that has
        changed is shared, and not computed again.
        """
        found: dict[str, Quota] = {}
        for quota in changed:
            former = None if quota is None else self.quotas.get(quota.name)
            if quota is None or former is None or not _alike(former, quota):
                return None
            found[quota.name] = quota
        trees = dict(self.trees)
        touched: dict[str, list[Quota]] = {}
        for name, quota in found.items():
            tree = trees.get(quota.tree)
            if tree is not None and name in tree.index:
                touched.setdefault(tree.name, []).append(quota)
        for name, quotas in touched.items():
            trees[name] = trees[name].amended(quotas)
        rooted = any(trees[name].root is not self.trees[name].root for name in touched)
        return replace(
            self,
            quotas={**self.quotas, **found},
            trees=trees,
            claimed=_claimed(trees) if rooted else self.claimed,
            memo=memos.Memo(),
        )

    @property
    def warnings(self) -> Mapping[str, tuple[str, ...]]:
        """Name -> what is probably not meant, of the quotas with such warnings."""
        return self.memo.get("warnings", self._all_warnings)

    def _all_warnings(self) -> Mapping[str, tuple[str, ...]]:
        found = {name: tuple(self._warnings(quota)) for name, quota in self.quotas.items()}
        return {name: warnings for name, warnings in found.items() if warnings}

    def outside(self) -> list[str]:
        """Invalid quotas whose counts no other one's include.

        Their counts, with those of the built-in quotas, together have all pods that belong to no tree.
        A chain of one quota counts alone; of a cycle with longer chains, any quota includes the others.
        """
        named = self.errors.keys() - quota_model.BUILT_IN
        return sorted(name for name in named if self._is_last(name, self.chains[name]))

    def _is_last(self, name: str, chain: tuple[str, ...]) -> bool:
        in_cycle = self.quotas[chain[-1]].above == name
        return len(chain) == 1 or (in_cycle and name == min(chain))

    def children(self, name: str) -> list[Quota]:
        """The quotas that name this one as their parent, valid or not, by name."""
        return [self.quotas[one] for one in self.shared.get("children", self._all_children).get(name, ())]

    def _all_children(self) -> Mapping[str, Iterable[str]]:
        below: dict[str, list[str]] = {}
        for name in sorted(self.quotas.keys() - quota_model.BUILT_IN):
            below.setdefault(self.quotas[name].above, []).append(name)
        return below

    def _warnings(self, quota: Quota) -> Iterator[str]:
        if quota.name in quota_model.BUILT_IN and quota.parent:
            yield f"its parent {quota.parent} is ignored: it is below the root"
        parent = self.quotas.get(quota.above)
        if parent is not None and set(parent.max) != set(quota.max):
            differing = ", ".join(sorted(set(parent.max) ^ set(quota.max)))
            yield f"spec.max and that of parent {parent.name} differ in their resources: {differing}"
        if not (quota.is_root or quota.forced) and quota.name in self._sums:
            wanted = self._sums[quota.name]
            over = sorted(key for key, amount in wanted.items() if amount > quota.min.get(key, 0))
            if over:
                yield f"the mins of its children exceed spec.min in {', '.join(over)}"
        for namespace in quota.namespaces:
            used = self.by_namespace[namespace]
            if used != quota.name:
                yield f"namespace {namespace} is listed by {used} too, which is used"
        if quota.is_root and quota.tree and not quota.total:
            yield "its annotation total-resource is missing: spec.min is the total of the tree"
        if quota.is_root and not quota.tree:
            yield "is-root has no effect without the label tree-id"
        tree = self.trees.get(quota.tree)
        if quota.tree and tree is not None:
            if tree.root is None:
                yield f"tree {quota.tree} has no quota with the label is-root: its total is zero"
            elif quota.is_root and tree.root.name != quota.name:
                yield f"tree {quota.tree} has the total of {tree.root.name}"

    @property
    def _sums(self) -> Mapping[str, Amounts]:
        """Parent -> sum of its children's mins."""
        return self.memo.get("sums", self._all_sums)

    def _all_sums(self) -> Mapping[str, Amounts]:
        sums: dict[str, Amounts] = {}
        for quota in self.quotas.values():
            below = sums.setdefault(quota.above, {})
            for key, amount in quota.min.items():
                below[key] = below.get(key, 0) + amount
        return sums


def grown(objects: Iterable[Quota]) -> Forest:
    """The trees of the objects, in any order."""
    used, unused = _in_use(objects)
    chains = {name: chain_of(name, used) for name in used}
    sizes = cycle_sizes(used)
    own = {name: tuple(_errors(one, used, chains[name], sizes.get(name))) for name, one in used.items()}
    wrong = {name for name in used if own[name] or any(_inherited(chains[name], own))}
    for name in _beyond(quota for name, quota in used.items() if name not in wrong):
        own[name] = (f"with its max, its tree would have more than {RESOURCES} resources",)
    errors = {name: found for name in used if (found := own[name] or tuple(_inherited(chains[name], own)))}
    trees: dict[str, list[Quota]] = {}
    for name in sorted(used, key=lambda name: (len(chains[name]), name)):
        if name not in errors and name not in quota_model.BUILT_IN:
            trees.setdefault(used[name].tree, []).append(used[name])
    by_namespace: dict[str, str] = {}
    for name in sorted(used):
        for namespace in used[name].namespaces:
            by_namespace.setdefault(namespace, name)
    made = {name: Tree(name, members) for name, members in trees.items()}
    return Forest(
        quotas=used,
        unused=unused,
        errors=errors,
        chains=chains,
        trees=made,
        by_namespace=by_namespace,
        claimed=_claimed(made),
        memo=memos.Memo(),
        shared=memos.Memo(16 + 4 * len(trees)),  # Four values of each tree, and some of the whole forest.
    )


def _alike(one: Quota, other: Quota) -> bool:
    """Whether two objects are the same quota, of which amounts alone differ, and limit the same resources."""
    if one.max.keys() != other.max.keys():
        return False
    amounts = {field: getattr(one, field) for field in ("min", "max", "weight", "total")}
    return msgspec.structs.replace(other, **amounts) == one


def _claimed(trees: Mapping[str, Tree]) -> tuple[Amounts, ...]:
    return tuple(
        tree.total
        for tree in trees.values()
        if tree.name and tree.root is not None and not tree.root.ignores_default_tree
    )


def _in_use(objects: Iterable[Quota]) -> tuple[dict[str, Quota], dict[str, str]]:
    """The oldest object of each name but that of the root, and why the others are not used."""
    used: dict[str, Quota] = {}
    unused: dict[str, str] = {}
    for quota in sorted(objects, key=lambda one: (one.created, one.uid)):
        if quota.name == ROOT:  # Koordinator ignores it, too: it has a root before it reads any object.
            unused[quota.key] = "its name is that of the root"
            continue
        first = used.setdefault(quota.name, quota)
        if first is not quota:
            unused[quota.key] = f"its name is used by the older quota {first.key}"
    return used, unused


def _errors(
    quota: Quota, used: Mapping[str, Quota], chain: tuple[str, ...], cycle: int | None
) -> Iterator[str]:
    """What is wrong with the quota itself or with the way to its root; ``cycle``: its ``cycle_sizes``."""
    yield from quota.errors
    if quota.above == ROOT:
        return
    parent = used.get(quota.parent)
    if parent is None or parent.name in quota_model.BUILT_IN:
        yield f"parent {quota.parent} does not exist"
        return
    if cycle:
        way = " -> ".join((*chain, quota.name)) if cycle <= DEPTH else f"{cycle} quotas, next {parent.name}"
        yield f"its parents form a cycle: {way}"
        return
    if len(chain) == 1:  # Too many are above it.
        deep = f"it is more than {DEPTH} levels below the root"
        yield deep if cycle is None else "the quotas above it form a cycle"
    if not parent.is_parent:
        yield f'parent {parent.name} does not have the label is-parent: "true"'
    if parent.tree != quota.tree:
        yield f"its tree-id is {quota.tree!r}, that of parent {parent.name} is {parent.tree!r}"


def _beyond(valid: Iterable[Quota]) -> list[str]:
    """The quotas that would add a resource to a tree that has no place for it: the older come first."""
    beyond: list[str] = []
    resources: dict[str, frozenset[str]] = {}
    for quota in sorted(valid, key=lambda one: (one.created, one.uid)):
        if quota.name in quota_model.BUILT_IN:
            continue  # They are in no tree.
        together = resources.get(quota.tree, frozenset()) | quota.max.keys()
        if len(together) > RESOURCES:
            beyond.append(quota.name)
        else:
            resources[quota.tree] = together
    return beyond


def _inherited(chain: tuple[str, ...], own: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name in chain[1:]:
        if own[name]:
            yield f"{name} above it is invalid"
            return
