"""The smallest raises of min and max with which quotas admit a pod that they refuse.

Each amount of a proposal is the least: with one unit less, or without it, the pod is still refused. What a
quota may use depends on its siblings and on the quotas above, so amounts are found by trying, on the code
that refused the pod.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from app.domain import declared_objects, model, snapshots, verdicts
from app.domain.fit import quantities
from app.framework import cluster_changes, cycles
from app.plugins.elastic_quota import admission, families, kinds, quota_counts, quota_model
from app.plugins.elastic_quota.questions import amounts
from app.plugins.elastic_quota.questions.amounts import Place
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import forests, usage

VALID_COST = 30
"""What the correction of an invalid quota costs; a raise costs one for each amount."""

Admits = Callable[[dict[Place, int]], bool]


def hypotheses(
    rules: admission.QuotaRules, cycle: cycles.Cycle, _: verdicts.Refusal
) -> Iterator[cluster_changes.Hypothesis]:
    """The raise after which all quotas of the pod admit it, or the correction of an invalid one."""
    snapshot, pod = cycle.snapshot, cycle.pod
    found = [one for one in families.admissions(snapshot, pod, rules) if one.reason]
    invalid = [one for one in found if one.objection]
    if invalid:
        yield from _corrections(snapshot, invalid)
        return
    raised: dict[Place, int] = {}
    for one in found:
        of_tree = one.quota in usage.forest(snapshot).quotas
        more = _in_tree(snapshot, pod, rules, one) if of_tree else _of_namespace(snapshot, pod, one)
        if more is None:
            return  # What the quotas divide is not enough: no raise helps.
        raised |= more
    if raised:
        message = _message(snapshot, raised)
        yield cluster_changes.Hypothesis(message, len(raised), amounts.changes(snapshot, raised))


def _of_namespace(
    snapshot: snapshots.Snapshot, pod: model.Pod, found: admission.Admission
) -> dict[Place, int]:
    """More max of the namespace's quota for what it lacks itself, more min for what all lack together."""
    known = namespace_quota.namespaces(snapshot.objects)
    own = known.quotas[pod.namespace]
    raised: dict[Place, int] = {}
    for test in found.tests:
        if test.fits:
            continue
        needed = quota_counts.amount(test.resource, test.used + test.request)
        if test.quota == admission.TOGETHER:
            place = Place(namespace_quota.KIND.name, own.key, "min", test.resource)
            raised[place] = own.min.get(test.resource, 0) + needed - known.total[test.resource]
        else:
            raised[Place(namespace_quota.KIND.name, own.key, "max", test.resource)] = needed
    return raised


def _in_tree(
    snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules, found: admission.Admission
) -> dict[Place, int] | None:
    """The least raises in the quota of the pod, and those above it if needed; None if no raise suffices."""
    grown = usage.forest(snapshot)
    quota = grown.quotas[found.quota]
    shared = rules.runtime and found.quota not in quota_model.BUILT_IN
    tree = usage.of_tree(snapshot, quota.tree, admission.sharing(rules)) if shared else None
    raised: dict[Place, int] = {}
    failed = [test for test in found.tests if not test.fits]
    for resource in sorted({test.resource for test in failed}):

        def admits(more: dict[Place, int], resource: str = resource) -> bool:
            quotas = {one.name: one for one in _quotas(snapshot, more)}
            supposed = usage.supposed(grown, tree, quotas)
            again = admission.admission(snapshot, pod, rules, supposed)
            tests = () if again is None else again.tests
            return all(test.fits for test in tests if test.resource == resource)

        least = _least([test for test in failed if test.resource == resource], grown)
        enough: dict[Place, int] | None = least
        if not admits(least):
            tries = () if tree is None else _tries(grown, tree, found.quota, resource, least)
            enough = next((one for one in tries if admits(one)), None)
        if enough is None:
            return None
        if enough is not least:
            enough = _lowered(snapshot, enough, least, admits)
        raised |= enough
    return raised


def _least(failed: Sequence[admission.Test], grown: forests.Forest) -> dict[Place, int]:
    """What is required whatever other quotas do: no limit is above max, and no max below min."""
    raised: dict[Place, int] = {}
    for test in failed:
        quota, resource = grown.quotas[test.quota], test.resource
        needed = quota_counts.amount(resource, test.used + test.request)
        if test.firm:
            raised[_place(quota, "min", resource)] = needed
        place = _place(quota, "max", resource)
        if resource in quota.max and needed > raised.get(place, quota.max[resource]):
            raised[place] = needed
    return raised


def _quotas(snapshot: snapshots.Snapshot, raised: dict[Place, int]) -> Iterator[quota_model.Quota]:
    for quota in amounts.raised_quotas(snapshot, raised).values():
        assert isinstance(quota, quota_model.Quota)
        yield quota


def _tries(
    grown: forests.Forest, tree: usage.TreeUsage, name: str, resource: str, least: dict[Place, int]
) -> Iterator[dict[Place, int]]:
    """Raises that are more than enough if any are: of the quota, then also of its parent, and so on."""
    chain = [one for one in grown.chains[name] if resource in grown.quotas[one].max]
    for size in range(1, len(chain) + 1):
        yield _enough(grown, chain[:size], resource, tree.total.get(resource, 0), least)


def _enough(
    grown: forests.Forest, chain: Sequence[str], resource: str, total: int, least: dict[Place, int]
) -> dict[Place, int]:
    """The raises with which each quota of the chain, the nearest first, is guaranteed all that there is."""
    raised = dict(least)

    def amount(quota: quota_model.Quota, field: Literal["min", "max"]) -> int:
        held = quota.min if field == "min" else quota.max
        return raised.get(_place(quota, field, resource), held.get(resource, 0))

    for name in chain:
        quota = grown.quotas[name]
        below = sum(amount(child, "min") for child in grown.children(name))
        most = _whole(resource, max(amount(quota, "max"), below, total))
        if most > amount(quota, "max"):
            raised[_place(quota, "max", resource)] = most
        if most > amount(quota, "min"):
            raised[_place(quota, "min", resource)] = most
    return raised


def _lowered(
    snapshot: snapshots.Snapshot, enough: dict[Place, int], least: dict[Place, int], admits: Admits
) -> dict[Place, int]:
    """The raises, each lowered as far as the others allow: mins first, as no max is below its min."""
    raised = dict(enough)
    farthest = list(reversed(enough))
    for place in sorted(farthest, key=lambda one: one.field == "max"):
        low = least.get(place, _recorded(snapshot, place))
        if place.field == "max":
            minimum = place._replace(field="min")
            low = max(low, raised.get(minimum, _recorded(snapshot, minimum)))
        raised[place] = _lowest(place, low, raised, admits)
    return {place: amount for place, amount in raised.items() if amount != _recorded(snapshot, place)}


def _lowest(place: Place, low: int, raised: dict[Place, int], admits: Admits) -> int:
    """The lowest amount with which the pod is admitted: ``low``, or a whole number of units above it."""
    high = raised[place]
    if low >= high or admits({**raised, place: low}):
        return low
    unit = quota_counts.amount(place.resource, 1)
    below, above = low // unit, high // unit
    while above - below > 1:
        middle = (below + above) // 2
        if admits({**raised, place: middle * unit}):
            above = middle
        else:
            below = middle
    return above * unit


def _recorded(snapshot: snapshots.Snapshot, place: Place) -> int:
    return amounts.recorded(snapshot, place) or 0


def _whole(resource: str, amount: int) -> int:
    """The amount, rounded up to counted units."""
    unit = quota_counts.amount(resource, 1)
    return -(-amount // unit) * unit


def _place(quota: quota_model.Quota, field: Literal["min", "max"], resource: str) -> Place:
    return Place(kinds.QUOTAS.name, quota.key, field, resource)


def _message(snapshot: snapshots.Snapshot, raised: dict[Place, int]) -> str:
    """``elastic quota team-a would need max cpu 12 instead of 10``, for each quota."""
    parts: dict[str, list[str]] = {}
    for place, amount in sorted(raised.items()):
        before = amounts.recorded(snapshot, place)
        written = "none" if before is None else quantities.written(place.resource, before)
        text = f"{place.field} {place.resource} {quantities.written(place.resource, amount)}"
        own = place.identity.partition("/")[2] if place.kind == kinds.QUOTAS.name else place.identity
        parts.setdefault(own, []).append(f"{text} instead of {written}")
    return "; and ".join(
        f"elastic quota {name} would need {', '.join(texts)}" for name, texts in parts.items()
    )


def _corrections(
    snapshot: snapshots.Snapshot, invalid: Sequence[admission.Admission]
) -> Iterator[cluster_changes.Hypothesis]:
    """Corrected quotas, if it is their own amounts that are wrong: with what of their max can be read."""
    changes: list[cluster_changes.Change] = []
    for one in invalid:
        changes += _corrected(kinds.QUOTAS, usage.forest(snapshot).quotas.get(one.quota))
        changes += _corrected(namespace_quota.KIND, snapshot.get(namespace_quota.KIND, one.quota))
    if len(changes) == len(invalid):
        message = "; and ".join(f"{one.objection}: it would have to be valid" for one in invalid)
        yield cluster_changes.Hypothesis(message, VALID_COST * len(changes), tuple(changes))


def _corrected(
    kind: declared_objects.Kind[Any], quota: amounts.AnyQuota | None
) -> Iterator[cluster_changes.Change]:
    if quota is not None and quota.errors:
        yield partial(kind.observed, msgspec.structs.replace(quota, errors=(), min={}))
