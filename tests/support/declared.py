"""The schema of this version, and events of the one kind that its plugins in the tree declare."""

from app import plugins
from app.domain import events, snapshots
from app.plugins.workload_policy import kinds, policy_model

SCHEMA = plugins.catalog().schema
POLICIES = kinds.POLICIES


def observed(policy: policy_model.WorkloadPolicy) -> events.ObjectObserved:
    """The event of an observed policy."""
    return POLICIES.observed(policy)


def policies(snapshot: snapshots.Snapshot) -> dict[str, policy_model.WorkloadPolicy]:
    """Identity -> policy."""
    return dict(snapshot.all(POLICIES))
