"""The WorkloadPolicy as it is kept: the fields on which decisions depend, and its errors if it is invalid."""

from app.domain import model


class Allocation(model.Frozen, frozen=True):
    """One entry of spec.allocationPolicy: a value of the topology key and its quota."""

    name: str
    replicas: int


class WorkloadPolicy(model.DeclaredObject, frozen=True):
    """A kosmos.io/v1alpha1 WorkloadPolicy: quotas of one workload over the values of a node label."""

    topology_key: str = ""
    selector: model.Selector = model.Selector()
    allocations: tuple[Allocation, ...] = ()
    type: str = "Preferred"
    """Preferred or Required."""
    method: str = "Balance"
    """Balance or Fill."""
    strict_domains: bool = False
    """Annotation topolog.io/strict-domains: a Preferred policy refuses unlisted nodes, as Kosmos does."""
    errors: tuple[str, ...] = ()
    """Why the policy is invalid; empty if it is valid."""
    created: str = ""

    @property
    def required(self) -> bool:
        """The quotas are hard limits."""
        return self.type == "Required"

    def desired(self, domain: str) -> int | None:
        """The quota of a domain, or None if the policy does not list it."""
        for allocation in self.allocations:
            if allocation.name == domain:
                return allocation.replicas
        return None
