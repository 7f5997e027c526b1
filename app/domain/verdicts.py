"""The outcome of a decision and its reasons: the Trace, from which every diagnosis is rendered.

Log lines, debug flags, explain, metrics and Events are renderings of a Trace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import model, node_sets


class LazyDetails(Mapping[str, node_sets.Names]):
    """Detail -> nodes, computed by ``compute`` at first use; equal to a dict of the same content.

    A decision over thousands of nodes must not pay for details that only ``explain`` shows. A later
    computation must not depend on anything that changes, so it holds immutable parts of the snapshot.
    """

    __slots__ = ("_compute", "_computed")

    def __init__(self, compute: Callable[[], Mapping[str, node_sets.Names]]) -> None:
        self._compute = compute
        self._computed: Mapping[str, node_sets.Names] | None = None

    @property
    def _content(self) -> Mapping[str, node_sets.Names]:
        computed = self._computed
        if computed is None:
            computed = self._computed = self._compute()
        return computed

    def __getitem__(self, detail: str) -> node_sets.Names:
        return self._content[detail]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(dict(self._content))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The candidates that one plugin refuses to one pod, with one reason.

    The reason is the same for every node and changes only with the state that it describes, because
    kube-scheduler retries a pod at once whenever the text of its condition changes.
    """

    reason: str
    nodes: node_sets.Names
    details: Mapping[str, node_sets.Names] = field(default_factory=dict)
    """Detail -> nodes, for explain: what differs from node to node."""
    plugin: str = ""
    """Filled in by the framework."""

    def given_by(self, plugin: str) -> "Refusal":
        """The refusal of this plugin."""
        return Refusal(self.reason, self.nodes, self.details, plugin)

    def without(self, kept: node_sets.Names) -> "Refusal":
        """The refusal of the other nodes."""
        details = {detail: nodes - kept for detail, nodes in self.details.items() if not nodes <= kept}
        return Refusal(self.reason, self.nodes - kept, details, self.plugin)


@dataclass(frozen=True, slots=True)
class Rating:
    """The scores that one plugin gives; a node outside every group scores 0."""

    groups: Mapping[int, node_sets.Names]
    """Raw score -> nodes."""
    details: Mapping[str, node_sets.Names] = field(default_factory=dict)
    """Detail -> nodes, for explain: how the scores were computed, such as ``host: 1/3, 66 percent``."""
    plugin: str = ""
    """Filled in by the framework."""
    weight: int = 1
    """Filled in by the framework."""

    def given_by(self, plugin: str, weight: int) -> "Rating":
        """The rating of this plugin, which has the weight."""
        return Rating(self.groups, self.details, plugin, weight)


def weighed(ratings: Sequence[Rating]) -> Mapping[int, node_sets.Names]:
    """Weighted sum -> nodes, for sums other than 0, clamped to kube-scheduler's int64."""
    ratings = [rating for rating in ratings if rating.groups]
    if len(ratings) == 1:
        weight = ratings[0].weight
        single: dict[int, node_sets.Names] = {}
        for score, nodes in ratings[0].groups.items():
            if score and nodes:
                total = _int64(score * weight)
                single[total] = single[total] | nodes if total in single else nodes
        return single
    sums: dict[model.NodeName, int] = {}
    for rating in ratings:
        for score, nodes in rating.groups.items():
            for node in nodes:
                sums[node] = sums.get(node, 0) + score * rating.weight
    groups: dict[int, set[model.NodeName]] = {}
    for node, total in sums.items():
        if total:
            groups.setdefault(_int64(total), set()).add(node)
    return {total: frozenset(nodes) for total, nodes in groups.items()}


def _int64(total: int) -> int:
    return min(max(total, -(2**63)), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Transformation:
    """What one transformer changed before the other plugins were asked."""

    plugin: str
    phase: str
    """filter, node or score (framework.transformer_chain)."""
    changed: tuple[str, ...]
    """Such as ``pod.requests.cpu``, ``candidates -12``, ``snapshot`` and ``view of n3``."""

    def __str__(self) -> str:
        return f"{self.plugin} ({', '.join(self.changed)})"


@dataclass(frozen=True, slots=True)
class Trace:
    """The outcome of one decision about one pod and its candidates."""

    position: model.Position
    pod: model.Pod
    candidates: node_sets.Names
    interested: tuple[str, ...]
    """Names of the plugins that the pod may concern, whatever the state."""
    refusals: tuple[Refusal, ...] = ()
    """One per plugin and reason: first those of transformers, then those of filters, in plugin order."""
    ratings: tuple[Rating, ...] = ()
    totals: Mapping[int, node_sets.Names] = field(default_factory=dict)
    """Weighted sum -> kept nodes, for every node whose sum is not 0."""
    assumed: tuple[str, ...] = ()
    """Nominated pods (``namespace/name``) that were counted as placed, in that order."""
    transformed: tuple[Transformation, ...] = ()
    """What transformers changed, in the order in which they were called. ``pod`` and ``candidates`` of the
    trace are those that kube-scheduler sent."""

    @property
    def refused(self) -> node_sets.Names:
        """The candidates that some plugin refuses."""
        if not self.refusals:
            return node_sets.NONE
        return node_sets.union(*(refusal.nodes for refusal in self.refusals))

    @property
    def kept(self) -> node_sets.Names:
        """The candidates that no plugin refuses."""
        return node_sets.minus(self.candidates, self.refused) if self.refusals else self.candidates

    def reasons(self) -> dict[model.NodeName, str]:
        """Refused node -> reason of the first plugin, in plugin order, that refused it."""
        reasons: dict[model.NodeName, str] = {}
        for refusal in reversed(self.refusals):
            reasons.update(dict.fromkeys(refusal.nodes, refusal.reason))
        return reasons

    def score_of(self, node: model.NodeName) -> int:
        """The node's weighted sum."""
        return next((total for total, nodes in self.totals.items() if node in nodes), 0)
