"""The views: their endpoints, columns, remarks and lines."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from app.domain import model, snapshots
from app.framework import cycles, views
from app.plugins.elastic_quota import admission, evictions, families, quota_model, samples
from app.plugins.elastic_quota.sigs import namespace_endpoints, namespace_quota
from app.plugins.elastic_quota.summaries import pods, quotas, shares
from app.plugins.elastic_quota.trees import membership, overuse, usage

_NAMED = 3
"""Quotas that a line of the summary names at most."""

TABLES = (
    views.Table(
        "quotas",
        "quotas",
        "elastic quotas; with NAME the derivation of one",
        {
            "QUOTA": "key",
            "NAMESPACE": "namespace",
            "PARENT": "parentName",
            "VALID": "valid",
            "MIN": "min",
            "MAX": "max",
            "USED": "used",
            "REQUEST": "request",
            "RUNTIME": "runtime",
            "OVER": "over",
            "ERRORS": "errors",
        },
        named=True,
        identity="key",
    ),
    namespace_endpoints.TABLE,
)


def shown(rules: evictions.EvictionRules) -> views.Shown:
    """All views."""
    return views.Shown(
        endpoints=_endpoints(rules),
        remarks=partial(_remarks, rules),
        summary=partial(_lines, rules),
        followed=(
            views.Followed(
                "elasticquota", "elastic quotas", TABLES[0], shares.numbers, "key", changed_by="counts"
            ),
            views.Followed(
                "sigsquota",
                "namespace quotas",
                namespace_endpoints.TABLE,
                namespace_endpoints.numbers,
                "namespace+name",
                changed_by="counts",
            ),
        ),
        concerns=(
            views.Concern("elasticquota", _of_tree),
            views.Concern("sigsquota", _of_namespace),
        ),
    )


def _of_tree(snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
    """The Koordinator quota of the pod; a built-in one only if there is an object of it."""
    grown = usage.forest(snapshot)
    name = membership.of(pod, grown).name
    if name in grown.quotas:
        yield name


def _of_namespace(snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
    """The quota of the pod's namespace, if it has one."""
    own = namespace_quota.namespaces(snapshot.objects).quotas.get(pod.namespace)
    if own is not None:
        yield own.key


def _lines(rules: evictions.EvictionRules, snapshot: snapshots.Snapshot) -> Iterator[views.StatusLine]:
    """How many quotas there are, and which are invalid or use more than their runtime."""
    grown = usage.forest(snapshot)
    names = sorted({*grown.quotas, *grown.unused} - quota_model.BUILT_IN)
    spaces = snapshot.all(namespace_quota.KIND)
    if not names and not spaces:
        return
    invalid = [name for name in names if name in grown.unused or grown.errors.get(name)]
    unused = namespace_quota.namespaces(snapshot.objects).unused
    invalid += sorted(key for key, quota in spaces.items() if quota.errors or key in unused)
    over = [name for name in sorted(grown.quotas) if overuse.over(snapshot, name, rules)]
    wrong = [
        f"{len(found)} {what}: {', '.join(found[:_NAMED])}" + (", ..." if found[_NAMED:] else "")
        for what, found in (("invalid", invalid), ("above their runtime", over))
        if found
    ]
    yield views.StatusLine("quotas", str(len(names) + len(spaces)), "; ".join(wrong))


def _remarks(rules: evictions.EvictionRules, cycle: cycles.Cycle) -> Iterator[str]:
    """The quota of the pod, what is unusual about it, and what it has left for the pod."""
    snapshot, pod = cycle.snapshot, cycle.pod
    grown = usage.forest(snapshot)
    if grown.quotas:
        belongs = membership.of(pod, grown)
        yield f"elastic quota {belongs.name}" + (f": {belongs.warning}" if belongs.warning else "")
        quota = grown.quotas.get(belongs.name)
        if quota is not None:
            for warning in (*quota.warnings, *grown.warnings.get(belongs.name, ())):
                yield f"elastic quota {belongs.name}: {warning}"
    for found in families.admissions(snapshot, pod, rules):
        for test in found.tests:
            yield f"elastic quota {admission.described(test)}"
        if found.reason:
            yield from evictions.remarks(snapshot, pod, rules)


def _endpoints(rules: evictions.EvictionRules) -> tuple[views.Endpoint, ...]:
    """The views under /apis/v1/plugins/ElasticQuota/."""

    def bound(handle: Callable[..., object]) -> Callable[..., Any]:
        return partial(handle, rules)

    return (
        views.Endpoint("quotas", "All quotas, the root among them", bound(quotas.listed), [samples.SUMMARY]),
        views.Endpoint(
            "quotas/<name>", "One quota and how its runtime was derived", bound(quotas.one), samples.QUOTA
        ),
        views.Endpoint(
            "quotas/<namespace>/<name>",
            "The same of the quota in a namespace, also of one that is not used",
            bound(quotas.one),
            samples.QUOTA,
        ),
        views.Endpoint(
            "quotas/<name>/pods",
            "The pods that belong to one quota itself",
            bound(pods.of_quota),
            [samples.POD],
        ),
        views.Endpoint(
            "pods/<namespace>/<name>",
            "The quota of a pod, and what it admits",
            bound(pods.one),
            samples.ADMISSION,
        ),
        *namespace_endpoints.ENDPOINTS,
    )
