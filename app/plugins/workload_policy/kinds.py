"""The kind that the plugin declares: Kosmos' WorkloadPolicy."""

from app.domain import declared_objects
from app.framework import manifests
from app.plugins.workload_policy import decoding, policy_model


def moves(namespace: str) -> tuple[str, ...]:
    """Every change of a policy moves on ``policies:NAMESPACE``, whose version all placements there expect."""
    return (f"policies:{namespace}",)


POLICIES = declared_objects.Kind(
    name="workloadpolicies",
    group="kosmos.io",
    versions=("v1alpha1",),
    resource="workloadpolicies",
    manifest="WorkloadPolicy",
    type=policy_model.WorkloadPolicy,
    decode=decoding.policy,
    check=decoding.check,
    spec={
        "topologyKey": {},
        "labelSelector": manifests.SELECTOR,
        "allocationPolicy": {"name": {}, "replicas": {}},
        "allocationType": {},
        "allocationMethod": {},
    },
    alias="policies",
    prefix="policy",
    moves=moves,
)


def declared() -> tuple[declared_objects.Kind[policy_model.WorkloadPolicy], ...]:
    """All kinds of the plugin."""
    return (POLICIES,)
