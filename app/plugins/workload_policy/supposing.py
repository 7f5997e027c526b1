"""The override ``scalePolicy`` of hypothetical questions: other quotas of a policy."""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from app.domain import events, model, observing, snapshots
from app.framework import supposing

_CHANGE = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_MOST = 2**31 - 1


class ScalePolicy(supposing.Operation, frozen=True, tag="scalePolicy"):
    """Quotas of a workload policy are set (5) or changed (+2, -1)."""

    policy: Annotated[supposing.Name, Meta(description="NAMESPACE/NAME.")]
    allocations: Annotated[
        dict[str, int | str],
        Meta(min_length=1, description="Domain -> replicas: 5, or a change such as +2 in quotes."),
    ]

    def events(self, snapshot: snapshots.Snapshot) -> Sequence[events.AnyEvent]:
        policy = snapshot.policies.get(self.policy)
        if policy is None:
            raise supposing.Impossible(
                "policy", f"there is no workload policy {self.policy} at {snapshot.position}"
            )
        quotas = {allocation.name: allocation.replicas for allocation in policy.allocations}
        for domain, change in self.allocations.items():
            quotas[domain] = _scaled(domain, quotas.get(domain, 0), change)
        allocations = tuple(model.Allocation(domain, replicas) for domain, replicas in quotas.items())
        return observing.policy(policy, msgspec.structs.replace(policy, allocations=allocations))


def operations() -> tuple[type[supposing.Operation], ...]:
    """The operations on workload policies."""
    return (ScalePolicy,)


def _scaled(domain: str, replicas: int, change: int | str) -> int:
    field = f"allocations.{domain}"
    if isinstance(change, str):
        if not _CHANGE.fullmatch(change):
            raise supposing.Impossible(field, f"{change[:40]!r} is neither a number nor a change such as +2")
        scaled = replicas + int(change) if change[0] in "+-" else int(change)
    else:
        scaled = change
    if not 0 <= scaled <= _MOST:
        raise supposing.Impossible(field, f"{scaled} replicas are not between 0 and {_MOST}")
    return scaled
