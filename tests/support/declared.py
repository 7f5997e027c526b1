"""The schema of this version, and events of the one kind that its plugins in the tree declare."""

from app import plugins
from app.domain import events, schema, snapshots
from app.plugins.workload_policy import kinds, policy_counts, policy_model
from app.store import keys

SCHEMA = plugins.catalog().schema
POLICIES = kinds.POLICIES
FIRST = schema.Schema(kinds.declared(), policy_counts.declared())
"""The schema of the first form of counts: WorkloadPolicy alone."""


UNREADABLE = (
    b'{"v":1,"type":"ObjectObserved","kind":"workloadpolicies","identity":"ns/p","uid":"u","data":{"uid":7}}'
)
"""The payload of an event whose object has another form than the kind declares."""


def observed(policy: policy_model.WorkloadPolicy) -> events.ObjectObserved:
    """The event of an observed policy."""
    return POLICIES.observed(policy)


def policies(snapshot: snapshots.Snapshot) -> dict[str, policy_model.WorkloadPolicy]:
    """Identity -> policy."""
    return dict(snapshot.all(POLICIES))


def names(cluster: str) -> keys.Keys:
    """The keys of a cluster whose counts are those of the schema."""
    return keys.Keys(cluster, SCHEMA.forms)
