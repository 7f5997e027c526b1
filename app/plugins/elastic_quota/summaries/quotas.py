"""Quotas in Koordinator's fields, and the derivation of each runtime."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from app.domain import snapshots
from app.domain.fit import budgets, quantities
from app.framework import views
from app.plugins.elastic_quota import admission, evictions, kinds, quota_counts, quota_model
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.summaries import pods
from app.plugins.elastic_quota.trees import forests, overuse, usage

Json = dict[str, Any]


def listed(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, _: Mapping[str, str]
) -> views.Listed:
    """All quotas, and the built-in ones beside them. The key is a name, or NAMESPACE/NAME of one not used."""
    grown = usage.forest(snapshot)
    names = {*grown.quotas, *grown.unused}
    if grown.quotas:
        names |= quota_model.BUILT_IN
    return views.Listed(names, lambda name: _summary(rules, snapshot, grown, name))


def one(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, parameters: Mapping[str, str]
) -> Json | None:
    """One quota and how its runtime was derived; None if it does not exist."""
    grown = usage.forest(snapshot)
    name = _key(grown, parameters["name"], parameters.get("namespace"))
    if name is None:
        return None
    later = evictions.without_terminating(snapshot)
    excess, members = overuse.over(later, name, rules), overuse.members(later, name)
    going = overuse.excess_pods(excess, members, budgets.recorded(later))
    return {
        **_summary(rules, snapshot, grown, name),
        "children": [child.name for child in grown.children(name)],
        "overuse": [pods.member(snapshot, one.pod, one.amounts) for one in going],
        "preemption": evictions.shown(snapshot, name, rules),
        "derivation": dict(_derivation(rules, snapshot, grown, name)),
    }


def _key(grown: forests.Forest, name: str, namespace: str | None) -> str | None:
    """The key in the list of the quota in use, or of the one in a namespace; None if there is none."""
    used = grown.quotas.get(name)
    if namespace is None:
        return name if used is not None or (name in quota_model.BUILT_IN and grown.quotas) else None
    if used is not None and used.namespace == namespace:
        return name
    identity = f"{namespace}/{name}"
    return identity if identity in grown.unused else None


def _summary(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, grown: forests.Forest, name: str
) -> Json:
    if name == quota_model.ROOT:
        return _root(rules, snapshot, grown)
    quota = grown.quotas.get(name)
    if name in grown.unused:
        held = snapshot.all(kinds.QUOTAS)[name]
        return _specified(snapshot, name, held, (grown.unused[name],), held.warnings)
    if quota is None:
        quota = Quota(uid="", namespace="", name=name)
    errors = grown.errors.get(name, ())
    shown = _specified(snapshot, name, quota, errors, (*quota.warnings, *grown.warnings.get(name, ())))
    amounts = _Amounts(snapshot, grown, quota)
    shown.update(
        {
            "used": amounts.written(""),
            "nonPreemptibleUsed": amounts.written(quota_counts.FIRM),
            "nonPreemptibleRequest": amounts.all_requested(quota_counts.FIRM),
            "selfUsed": amounts.own(""),
            "selfNonPreemptibleUsed": amounts.own(quota_counts.FIRM),
            "selfRequest": amounts.requested(""),
            "selfNonPreemptibleRequest": amounts.requested(quota_counts.FIRM),
        }
    )
    if name in quota_model.BUILT_IN:
        shown.update(_undivided(quota, amounts))
        shown["over"] = quota_counts.written(overuse.over(snapshot, name, rules))
    elif not errors:
        shown.update(_derived(rules, snapshot, grown, quota))
    return shown


def _specified(
    snapshot: snapshots.Snapshot,
    key: str,
    quota: Quota,
    errors: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Json:
    return {
        "key": key,
        "name": quota.name,
        "namespace": quota.namespace,
        "valid": not errors,
        "errors": list(errors),
        "warnings": list(warnings),
        "parentName": "" if quota.name in quota_model.BUILT_IN else quota.above,
        "tree": quota.tree,
        "isParent": quota.is_parent,
        "allowLentResource": quota.lends,
        "runtimeVersion": snapshot.version(kinds.QUOTAS.subject(quota.key)),
        "max": quantities.all_written(quota.max),
        "min": quantities.all_written(quota.min),
        "sharedWeight": quantities.all_written(quota.weights),
    }


def _derived(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, grown: forests.Forest, quota: Quota
) -> Json:
    found = usage.of_tree(snapshot, quota.tree, admission.sharing(rules))
    at, lines = found.tree.index[quota.name], found.runtimes.lines
    limit = admission.limit(snapshot, grown, quota.name, rules)
    used = {
        resource: quota_counts.amount(resource, quota_counts.count(snapshot, grown, quota.name, resource))
        for resource in limit
    }
    scaled = {}
    for resource in quota.max:
        division, place = found.runtimes.division(quota.name, resource) or (None, 0)
        if division is not None:
            scaled[resource] = division.shares.scaled[place]
    return {
        "autoScaleMin": quantities.all_written(scaled),
        "request": quantities.all_written({one: lines[one].requests[at] for one in quota.max}),
        "childRequest": quantities.all_written({one: lines[one].child_requests[at] for one in quota.max}),
        "allocated": quantities.all_written({one: lines[one].allocated[at] for one in quota.max}),
        "guaranteed": quantities.all_written({one: lines[one].guaranteed[at] for one in quota.max}),
        "runtime": quantities.all_written(found.runtimes.runtime(quota.name)),
        "limit": quantities.all_written(limit),
        "headroom": quantities.all_written({one: max(0, limit[one] - used[one]) for one in limit}),
        "over": quota_counts.written(overuse.over(snapshot, quota.name, rules)),
    }


def _undivided(quota: Quota, amounts: "_Amounts") -> Json:
    """The default or the system quota: it takes no part in a division, and its runtime is its max."""
    return {
        "autoScaleMin": quantities.all_written(quota.min),
        "request": amounts.all_requested(""),
        "childRequest": amounts.all_requested(""),
        "allocated": {},
        "guaranteed": {},
        "runtime": quantities.all_written(quota.max),
    }


def _root(rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, grown: forests.Forest) -> Json:
    """The root of the default tree: what it divides."""
    root = Quota(uid="", namespace="", name=quota_model.ROOT, is_parent=True)
    shown = _specified(snapshot, root.name, root, (), ())
    if "" not in grown.trees:
        return shown
    found = usage.of_tree(snapshot, "", admission.sharing(rules))
    top = found.tree.top
    used = {
        one: quota_counts.amount(
            one, sum(quota_counts.count(snapshot, grown, found.tree.names[at], one) for at in top)
        )
        for one in found.tree.resources
    }
    requests = {one: sum(line.limited[at] for at in top) for one, line in found.runtimes.lines.items()}
    total = {one: found.total.get(one, 0) for one in found.tree.resources}
    return {
        **shown,
        "used": quantities.all_written(used),
        "request": quantities.all_written(requests),
        "runtime": quantities.all_written(total),
        "headroom": quantities.all_written({one: max(0, total[one] - used[one]) for one in total}),
    }


def _derivation(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, grown: forests.Forest, name: str
) -> Iterator[tuple[str, Json]]:
    """Resource -> how the runtime came about, round by round."""
    quota = grown.quotas.get(name)
    if quota is None or name in grown.errors or name in quota_model.BUILT_IN:
        return
    found = usage.of_tree(snapshot, quota.tree, admission.sharing(rules))
    runtime = found.runtimes.runtime(name)
    for resource in quota.max:
        division, at = found.runtimes.division(name, resource) or (None, 0)
        if division is None:
            continue
        write, shares, members = (
            partial(quantities.written, resource),
            division.shares,
            division.group.members,
        )
        yield (
            resource,
            {
                "divided": write(division.total),
                "among": list(members.names),
                "request": write(division.requests[at]),
                "scaledMin": write(shares.scaled[at]),
                "base": write(shares.bases[at]),
                "weight": members.weights[at],
                "rounds": [
                    {"left": write(one.left), "share": write(one.shares.get(at, 0)), "open": at in one.shares}
                    for one in shares.rounds
                ],
                "runtime": write(runtime[resource]),
            },
        )


class _Amounts:
    """The counts of one quota, as quantities."""

    def __init__(self, snapshot: snapshots.Snapshot, grown: forests.Forest, quota: Quota) -> None:
        self._snapshot, self._grown, self._quota = snapshot, grown, quota
        listed = quota.max or usage.allocatable(snapshot.nodes, grown)
        self._resources = sorted(one for one in listed if one != "pods")
        self._below = [name for name, chain in grown.chains.items() if chain[1:2] == (quota.name,)]

    def written(self, part: str) -> dict[str, str]:
        """What the quota and those below it use."""
        return quota_counts.written(
            {one: self._count(self._quota.name, one, part) for one in self._resources}
        )

    def own(self, part: str) -> dict[str, str]:
        """What the pods of the quota itself use."""
        return quota_counts.written({one: self._own(one, part) for one in self._resources})

    def requested(self, part: str) -> dict[str, str]:
        """What the pods of the quota itself request, on a node or pending."""
        pending = f"{quota_counts.PENDING}{part}"
        name = self._quota.name
        return quota_counts.written(
            {one: self._own(one, part) + self._count(name, one, pending) for one in self._resources}
        )

    def all_requested(self, part: str) -> dict[str, str]:
        """What the pods of the quota and of those below it request, on a node or pending."""
        pending, name = f"{quota_counts.PENDING}{part}", self._quota.name
        within = [one for one, chain in self._grown.chains.items() if name in chain] or [name]
        return quota_counts.written(
            {
                one: self._count(name, one, part) + sum(self._count(each, one, pending) for each in within)
                for one in self._resources
            }
        )

    def _own(self, resource: str, part: str) -> int:
        below = sum(self._count(name, resource, part) for name in self._below)
        return self._count(self._quota.name, resource, part) - below

    def _count(self, name: str, resource: str, part: str) -> int:
        return quota_counts.count(self._snapshot, self._grown, name, resource, part)
