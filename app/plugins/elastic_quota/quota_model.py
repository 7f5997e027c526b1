"""The ElasticQuota as it is kept: the fields on which decisions depend, and its errors if it is invalid."""

import msgspec

from app.domain import model

ROOT = "koordinator-root-quota"
"""The parent of quotas that name none."""
DEFAULT = "koordinator-default-quota"
"""The quota of the pods that belong to no other."""
SYSTEM = "koordinator-system-quota"
BUILT_IN = frozenset((ROOT, DEFAULT, SYSTEM))
"""Quotas that exist without an object. They take no part in sharing."""

Amounts = dict[str, int]
"""Resource -> amount: milli-units for cpu, bytes for memory, plain numbers for everything else."""


class Quota(model.DeclaredObject, frozen=True):
    """An ElasticQuota of scheduling.sigs.k8s.io: what a group of pods is guaranteed, and its limits."""

    min: Amounts = msgspec.field(default_factory=dict)
    max: Amounts = msgspec.field(default_factory=dict)
    parent: str = ""
    """Name of the parent; empty for the root of the tree."""
    is_parent: bool = False
    lends: bool = True
    """Others may use what this quota does not request of its min."""
    tree: str = ""
    """Id of the tree; empty for the default one."""
    is_root: bool = False
    """The quota carries the total of its tree."""
    ignores_default_tree: bool = False
    """The total of its tree is not subtracted from that of the default tree."""
    forced: bool = False
    """The sum of its children's mins may exceed its own min."""
    weight: Amounts = msgspec.field(default_factory=dict)
    """Shares of what is left; empty: max."""
    namespaces: tuple[str, ...] = ()
    """Namespaces whose pods belong to the quota unless they name another one."""
    total: Amounts = msgspec.field(default_factory=dict)
    """The total of the tree, of a tree's root."""
    errors: tuple[str, ...] = ()
    """Why the specification is invalid; empty if it is valid."""
    warnings: tuple[str, ...] = ()
    """What of the object is ignored because it cannot be read."""
    created: str = ""

    @property
    def above(self) -> str:
        """Name of the parent, also if it is the root; that of a built-in quota always is."""
        return self.parent if self.parent and self.name not in BUILT_IN else ROOT

    @property
    def weights(self) -> Amounts:
        """The weight in force: max, if none is set or all are zero."""
        return self.weight if any(self.weight.values()) else self.max
