"""Chooses the candidates of a hypothetical question, and states what that does not model.

Topolog's own decisions are about the nodes that kube-scheduler offers. A question has to state where its
candidates come from, and which of kube-scheduler's rules they do not follow.
"""

from collections.abc import Sequence

from app.domain import model, node_sets, snapshots
from app.domain.fit import node_fit
from app.verbs.questions import errors

RECORDED, ALL, ROOMY = "recorded", "all", "roomy"
CHOICES = (RECORDED, ALL, ROOMY)
UNMODELLED = "kube-scheduler's own filters are not modelled"
NOT_OFFERED = (
    "a node that kube-scheduler did not offer then is not a candidate, also if an override uncordons or"
    " labels it or frees capacity there: use roomy"
)
_ROOMY = (
    "candidates are the nodes that the pod fits on by kube-scheduler's rules for requests, taints, node"
    " selector and node affinity, cordons and host ports"
)


def from_record(decision: str) -> str:
    """The limitation of an answer whose candidates were recorded."""
    return f"{UNMODELLED}: candidates are those that it offered in decision {decision}"


def of(choice: str | list[str], snapshot: snapshots.Snapshot) -> tuple[node_sets.Names | None, str]:
    """The candidates of all pods and the limitation; None if they differ from pod to pod (roomy).

    Raises Mistake. ``recorded`` is the concern of the caller.
    """
    match choice:
        case str() if choice == ALL:
            return (
                snapshot.topology.everywhere,
                f"{UNMODELLED}: candidates are all nodes",
            )
        case str() if choice == ROOMY:
            return None, _ROOMY
        case str():
            raise errors.Mistake("candidates", f"must be one of {', '.join(CHOICES)}, or a list of nodes")
        case _:
            for at, name in enumerate(choice):
                if name not in snapshot.nodes:
                    raise errors.Mistake(
                        f"candidates[{at}]", f"there is no node {name} at {snapshot.position}"
                    )
            return frozenset(choice), f"{UNMODELLED}: candidates are those of the question"


def several(choice: str | list[str], snapshot: snapshots.Snapshot) -> tuple[node_sets.Names | None, str]:
    """As ``of``, for several pods: roomy unless the question has a choice. Raises Mistake."""
    if choice == RECORDED:
        raise errors.Mistake("candidates", "recorded candidates are those of one pod: use roomy or all")
    return of(choice or ROOMY, snapshot)


def lacking(
    names: node_sets.Names | None, snapshot: snapshots.Snapshot, pods: Sequence[model.Pod]
) -> list[str]:
    """The rules that apply to the pods and that the candidates do not follow.

    Only of roomy candidates (``names`` is None): others follow none of them, as their limitation states.
    """
    return list(node_fit.unmodelled(snapshot, *pods)) if names is None else []


def limits(limit: str, rules: Sequence[str]) -> list[str]:
    """The limitations of an answer, as sentences."""
    return [limit, *([f"not modelled: {', '.join(rules)}; it may offer fewer nodes"] if rules else [])]
