"""preempt: the offered nodes that would admit the pod after the eviction of their victims.

kube-scheduler's dry run does not apply our rules. A node is dropped if the pod would be refused there even
without the victims (otherwise pods are evicted on one node after another: docs/design/extender-contract.md,
10), if a plugin objects to the eviction, if the node is unknown, or if a listed victim runs on another node
(extender contract, 11).
Victims are neither added nor changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import model, snapshots
from app.framework import cycles, pipeline, registry
from app.store import errors as store_errors
from app.verbs import contexts, filtering

Offer = Mapping[model.NodeName, Sequence[model.Uid]]
"""Node -> the uids of its proposed victims, most important first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The nodes to keep in the offer, and why the others are dropped."""

    snapshot: snapshots.Snapshot
    """The state that was decided on."""
    kept: tuple[model.NodeName, ...]
    dropped: Mapping[model.NodeName, str] = field(default_factory=dict)


def run(context: contexts.Context, pod: model.Pod, offer: Offer) -> Answer:
    """Which offered nodes remain. While the store is away, a pod under hard rules evicts no pods."""
    snapshot, away = context.state.snapshot, False
    if context.plugins.interested(pod) or context.plugins.preempts:
        try:
            snapshot = context.present(context.budgets.state)
        except store_errors.StoreError:
            away = filtering.hard(context, pod) or bool(context.plugins.preempts)
    if away:
        return Answer(snapshot, (), dict.fromkeys(offer, "the store is away"))
    base = cycles.cycle(pod, frozenset(offer), snapshot, score_max=context.plugins.score_max)
    dropped = {
        node: reason
        for node, uids in offer.items()
        if (reason := objection(context.plugins, base, node, uids)) is not None
    }
    return Answer(snapshot, tuple(node for node in offer if node not in dropped), dropped)


def objection(
    plugins: registry.Registry, base: cycles.Cycle, node: model.NodeName, uids: Sequence[model.Uid]
) -> str | None:
    """Why the victims must not be evicted from the node for this pod, or None."""
    if not uids:
        return "no victims listed"
    snapshot = base.snapshot
    if any(_elsewhere(snapshot, uid, node) for uid in uids):
        return "a listed victim runs on another node"
    if not plugins.concerned(base.pod, snapshot) and not plugins.preempts:
        return None
    if node not in snapshot.nodes:
        return "node not known"
    victims = [victim for uid in uids if (victim := snapshot.pod(uid)) is not None]
    return pipeline.veto(plugins, base, node, victims)


def _elsewhere(snapshot: snapshots.Snapshot, uid: model.Uid, node: model.NodeName) -> bool:
    return snapshot.node_of(uid) not in ("", node)
