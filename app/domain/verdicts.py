"""What was decided, and why: a Trace is the only diagnosis there is.

Log lines, debug flags, explain, metrics and Events are renderings of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain import lasting, model

Names = frozenset[model.NodeName]
NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The candidates that one plugin refuses to one pod, under one sentence.

    The sentence is the same for every node and does not change while the state it speaks of does
    not: kube-scheduler wakes a pod whenever its text changes (extender-contract-checked C2-C5).
    """

    reason: str
    nodes: Names
    details: Mapping[str, Names] = field(default_factory=dict)
    """What differs from node to node, for explain: detail -> nodes."""
    plugin: str = ""
    """Filled in by the framework."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The scores that one plugin gives; a node that is in no group has 0."""

    groups: Mapping[int, Names]
    """Raw score -> nodes."""
    details: Mapping[str, Names] = field(default_factory=dict)
    """Where the scores come from, for explain: ``host: 1/3, 66 percent`` -> nodes."""
    plugin: str = ""
    """Filled in by the framework."""
    weight: int = 1
    """Filled in by the framework."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The whole outcome of one decision about one pod over some candidates."""

    position: model.Position
    pod: model.Pod
    candidates: Names
    interested: tuple[str, ...]
    """The plugins that had anything to do with the pod."""
    refusals: tuple[Refusal, ...] = ()
    """One for each plugin that refused a candidate, in plugin order."""
    ratings: tuple[Rating, ...] = ()
    totals: Mapping[int, Names] = field(default_factory=dict)
    """Weighted sum -> kept nodes, for every node whose sum is not 0."""
    assumed: tuple[str, ...] = ()
    """Nominated pods (``namespace/name``) that were counted as placed."""

    @property
    def refused(self) -> Names:
        """The candidates that some plugin refuses."""
        if not self.refusals:
            return NONE
        return lasting.union(*(refusal.nodes for refusal in self.refusals))

    @property
    def kept(self) -> Names:
        """The candidates that no plugin refuses."""
        return lasting.minus(self.candidates, self.refused) if self.refusals else self.candidates

    def reasons(self) -> dict[model.NodeName, str]:
        """Refused node -> its sentence: that of the first plugin in order that refused it."""
        reasons: dict[model.NodeName, str] = {}
        for refusal in reversed(self.refusals):
            reasons.update(dict.fromkeys(refusal.nodes, refusal.reason))
        return reasons

    def score_of(self, node: model.NodeName) -> int:
        """The node's weighted sum."""
        return next((total for total, nodes in self.totals.items() if node in nodes), 0)
