"""Admits a pod by a quota: its limit, min for non-preemptible pods, and the limits of the quotas above.

Reasons name quotas and resources, never amounts: what a quota uses changes with every bind, and
kube-scheduler retries a pod at once whenever the text of its condition changes.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from app.domain import model, schema, snapshots
from app.domain.fit import quantities
from app.plugins.elastic_quota import kinds, quota_counts, quota_model
from app.plugins.elastic_quota.quota_model import Amounts
from app.plugins.elastic_quota.trees import forests, membership, runtimes, usage

Missing = Literal["reject", "ignore"]
TOGETHER = ""
"""In the place of a quota's name, in a test of what all quotas use together."""


class QuotaRules(Protocol):
    """The arguments of the plugin (plugin.ElasticQuota)."""

    @property
    def runtime(self) -> bool:
        """Whether the limit of a quota is its runtime, or its max."""
        ...

    @property
    def check_parents(self) -> bool:
        """Whether the quotas above limit a pod, too."""
        ...

    @property
    def strict_resources(self) -> bool:
        """Whether a resource over its limit refuses pods that do not request it."""
        ...

    @property
    def default_quota(self) -> bool:
        """Whether the default quota limits the pods that belong to no other."""
        ...

    @property
    def invalid_quota(self) -> Missing:
        """Whether the pods of an invalid quota are refused, or not limited."""
        ...

    @property
    def scale_min(self) -> bool:
        """Whether mins are scaled down while the total is smaller than their sum."""
        ...

    @property
    def guarantee_usage(self) -> bool:
        """Whether what a quota uses counts as its min, and no quota lends."""
        ...


class Test(NamedTuple):
    """One comparison: what is used, with the request, must not exceed the limit. In counted units."""

    quota: str
    resource: str
    key: schema.CountKey
    used: int
    request: int
    limit: int
    firm: bool = False
    """The limit is min, for non-preemptible pods."""

    @property
    def fits(self) -> bool:
        """Whether the request can be added."""
        return self.used + self.request <= self.limit


class Admission(NamedTuple):
    """The tests of one pod."""

    quota: str
    objection: str = ""
    """Why the quota cannot be applied; empty if it can."""
    tests: tuple[Test, ...] = ()

    @property
    def reason(self) -> str:
        """Why the pod is refused; empty if it is admitted."""
        return self.objection or _reason(self.quota, [test for test in self.tests if not test.fits])


def sharing(rules: QuotaRules) -> runtimes.RuntimeRules:
    """How runtimes are computed."""
    return runtimes.RuntimeRules(scale=rules.scale_min, guarantee=rules.guarantee_usage)


def limited(snapshot: snapshots.Snapshot, pod: model.Pod, rules: QuotaRules) -> bool:
    """Whether some quota may refuse the pod in this state."""
    if not snapshot.all(kinds.QUOTAS):
        return False
    grown = usage.forest(snapshot)
    return _applies(grown, membership.of(pod, grown).name, rules)


def admission(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    rules: QuotaRules,
    supposed: usage.Supposed | None = None,
) -> Admission | None:
    """The tests of the pod, which must not be on a node in the snapshot; None if no quota limits it.

    ``supposed``: quotas of the tree of the pod's quota with other amounts.
    """
    if not snapshot.all(kinds.QUOTAS):
        return None
    grown = usage.forest(snapshot) if supposed is None else supposed.forest
    name = membership.of(pod, grown).name
    if not _applies(grown, name, rules):
        return None
    if errors := grown.errors.get(name):
        return Admission(name, f"{subject(name)} invalid: {'; '.join(errors[:3])}")
    requested = quota_counts.requests(pod, grown, name)
    if uncountable := quota_counts.uncountable(requested):
        return too_large(name, uncountable)
    asked = {resource: quota_counts.counted(resource, amount) for resource, amount in requested.items()}
    tree = None if supposed is None else supposed.tree
    tests = tuple(_tests(snapshot, pod, grown, name, asked, rules, tree))
    if snapshot.pod(pod.uid) is None and not pod.finished and not all(test.fits for test in tests):
        # What a quota may use grows with what its pods request, and the state does not have this one.
        tests = tuple(_tests(snapshot, pod, grown, name, asked, rules, tree, unseen=True))
    return Admission(name, tests=tests)


def subject(name: str) -> str:
    """How every reason of the quota begins."""
    return f"elastic quota {name}:"


def too_large(name: str, resources: Sequence[str]) -> Admission:
    """Refuses a pod whose requests are counted in part only: its placement could exceed the quota."""
    largest = {one: quota_counts.amount(one, quota_counts.LARGEST) for one in resources}
    which = ", ".join(f"{quantities.written(one, amount)} of {one}" for one, amount in largest.items())
    return Admission(name, f"{subject(name)} requests of more than {which} cannot be counted")


def _applies(grown: forests.Forest, name: str, rules: QuotaRules) -> bool:
    """Whether the quota limits its pods."""
    if name in grown.errors and rules.invalid_quota == "ignore":
        return False
    if name in quota_model.BUILT_IN:
        return name in grown.quotas and (name != quota_model.DEFAULT or rules.default_quota)
    return True


def limit(
    snapshot: snapshots.Snapshot,
    grown: forests.Forest,
    name: str,
    rules: QuotaRules,
    asking: tuple[str, Amounts] | None = None,
    tree: usage.TreeUsage | None = None,
) -> Amounts:
    """What a valid quota may use at most: its runtime, or max.

    ``asking``: a quota of the tree, and what a pod requests there, in counted units, that the state does not
    have. ``tree``: that of the quota, if it is not the one of the snapshot.
    """
    quota = grown.quotas[name]
    if not rules.runtime or name in quota_model.BUILT_IN:
        return quota.max
    found = usage.of_tree(snapshot, quota.tree, sharing(rules)) if tree is None else tree
    derived = found.runtimes if asking is None else usage.with_request(found, *asking)
    return derived.runtime(name)


def _tests(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    grown: forests.Forest,
    name: str,
    asked: Amounts,
    rules: QuotaRules,
    supposed: usage.TreeUsage | None = None,
    *,
    unseen: bool = False,
) -> Iterator[Test]:
    asking = (name, asked) if unseen else None
    for above in grown.chains[name] if rules.check_parents else (name,):
        most = limit(snapshot, grown, above, rules, asking, supposed)
        tree = quota_counts.tree_of(grown, above)
        for resource in sorted(most if rules.strict_resources and above == name else asked):
            if resource in most:
                key = quota_counts.key(tree, above, resource)
                used, request = snapshot.counts.get(key, 0), asked.get(resource, 0)
                yield Test(
                    above, resource, key, used, request, quota_counts.ceiling(resource, most[resource])
                )
        if above == name and not membership.preemptible(pod):
            least = grown.quotas[name].min
            for resource, request in sorted(asked.items()):
                key = quota_counts.key(tree, name, resource, quota_counts.FIRM)
                low = quota_counts.ceiling(resource, least.get(resource, 0))
                yield Test(name, resource, key, snapshot.counts.get(key, 0), request, low, firm=True)


def _reason(name: str, failed: list[Test]) -> str:
    """One sentence about the first kind of test that fails."""
    if not failed:
        return ""
    first = failed[0]
    alike = [test.resource for test in failed if (test.quota, test.firm) == (first.quota, first.firm)]
    which = ", ".join(alike)
    if first.firm:
        return f"{subject(name)} no capacity for non-preemptible pods in {which}"
    if first.quota == TOGETHER:
        return f"{subject(name)} no capacity in {which} within the mins of all quotas"
    if first.quota != name:
        return f"{subject(name)} no capacity in {which} of parent {first.quota}"
    return f"{subject(name)} no capacity in {which}"


def described(test: Test) -> str:
    """``team: cpu used 8 + requested 3 > limit 10``."""
    used, request, most = (
        quantities.written(test.resource, quota_counts.amount(test.resource, value))
        for value in (test.used, test.request, test.limit)
    )
    sign, kind = "<=" if test.fits else ">", "min for non-preemptible pods" if test.firm else "limit"
    whose = test.quota or "all quotas"
    return f"{whose}: {test.resource} used {used} + requested {request} {sign} {kind} {most}"
