"""The annotations that Koordinator's controller keeps on quotas: what the views show, as JSON resource lists.

They are written only with the argument ``koordinator_annotations``, because that needs the right to patch
quotas (deploy/components/quota-annotations). Nothing in Topolog reads them.
"""

from collections.abc import Iterator, Mapping

import msgspec

from app.domain import snapshots
from app.domain.fit import quantities
from app.plugins.elastic_quota import admission, decoding, quota_counts, quota_model
from app.plugins.elastic_quota.quota_model import Amounts, Quota
from app.plugins.elastic_quota.trees import forests, usage

NAMES = (
    "runtime",
    "request",
    "child-request",
    "guaranteed",
    "allocated",
    "non-preemptible-request",
    "non-preemptible-used",
)
KEYS = tuple(f"{decoding.PREFIX}{name}" for name in NAMES)
"""All that are written. Those of the specification, such as shared-weight, are not among them."""

_encoded = msgspec.json.Encoder(order="deterministic").encode


class Writer:
    """The annotations of any quota in one snapshot."""

    def __init__(self, snapshot: snapshots.Snapshot, rules: admission.QuotaRules) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._grown = usage.forest(snapshot)
        self._pending = _pending(snapshot, self._grown)

    def of(self, quota: Quota) -> dict[str, str | None]:
        """The annotations in the resources of max; all are removed from a quota that has no runtime."""
        grown, name = self._grown, quota.name
        if quota.key in grown.unused or grown.errors.get(name) or name in quota_model.BUILT_IN:
            return dict.fromkeys(KEYS)
        found = usage.of_tree(self._snapshot, quota.tree, admission.sharing(self._rules))
        at, lines = found.tree.index[name], found.runtimes.lines
        firm = {
            one: quota_counts.count(self._snapshot, grown, name, one, quota_counts.FIRM) for one in quota.max
        }
        pending = self._pending.get(name, {})
        columns: tuple[Mapping[str, int], ...] = (
            found.runtimes.runtime(name),
            {one: lines[one].requests[at] for one in quota.max},
            {one: lines[one].child_requests[at] for one in quota.max},
            {one: lines[one].guaranteed[at] for one in quota.max},
            {one: lines[one].allocated[at] for one in quota.max},
            {one: quota_counts.amount(one, firm[one] + pending.get(one, 0)) for one in quota.max},
            {one: quota_counts.amount(one, firm[one]) for one in quota.max},
        )
        return {
            key: _encoded(quantities.all_written(amounts)).decode()
            for key, amounts in zip(KEYS, columns, strict=True)
        }


def _pending(snapshot: snapshots.Snapshot, grown: forests.Forest) -> dict[str, Amounts]:
    """Quota -> what non-preemptible pods without a node request, of the quota and of those below it."""
    found: dict[str, Amounts] = {}
    for name, resource, count in _own_pending(snapshot, grown):
        for above in grown.chains.get(name, (name,)):
            sums = found.setdefault(above, {})
            sums[resource] = sums.get(resource, 0) + count
    return found


def _own_pending(snapshot: snapshots.Snapshot, grown: forests.Forest) -> Iterator[tuple[str, str, int]]:
    part = f"{quota_counts.PENDING}{quota_counts.FIRM}"
    for name, quota in grown.quotas.items():
        for resource in quota.max:
            count = quota_counts.count(snapshot, grown, name, resource, part)
            if count:
                yield name, resource, count
