"""Shares of its max that the pods of a quota use and wait for, over time: of any resource on one axis."""

from collections.abc import Mapping

from app.domain import snapshots
from app.plugins.elastic_quota import quota_counts
from app.plugins.elastic_quota.trees import usage


def numbers(snapshot: snapshots.Snapshot, name: str) -> Mapping[str, int]:
    """Line -> percent of the max, rounded down: used, requested by pods without a node, and the min.

    Pods of the quotas below it count, too. Read from counts, because a series asks it at every event.
    """
    grown = usage.forest(snapshot)
    quota = grown.quotas.get(name)
    if quota is None:
        return {}
    within = [one for one, chain in grown.chains.items() if name in chain] or [name]
    found = {}
    for resource, most in sorted(quota.max.items()):
        if not most:
            continue
        used = quota_counts.count(snapshot, grown, name, resource)
        waiting = sum(
            quota_counts.count(snapshot, grown, one, resource, quota_counts.PENDING) for one in within
        )
        for line, amount in (
            ("used", quota_counts.amount(resource, used)),
            ("waiting", quota_counts.amount(resource, waiting)),
            ("min", quota.min.get(resource, 0)),
        ):
            found[f"{resource} {line}, % of max"] = 100 * amount // most
    return found
