"""The law of observations: none is recorded twice, and what is gone stays gone."""

import msgspec

from app.domain import events
from app.plugins.workload_policy import policy_model
from tests.support.simulation.oracle import guarantees, plain_fold


def check(event: events.AnyEvent, fold: plain_fold.Fold) -> None:
    """Raises Broken if the event, which follows the fold, breaks the law."""
    match event:
        case events.PodSeen(pod=pod):
            guarantees.demand(
                fold.pods.get(pod.uid) != pod, "P3", f"pod {pod.uid} is recorded again as it was"
            )
            guarantees.demand(pod.uid not in fold.gone, "P9", f"pod {pod.uid} was gone and is back")
            before = fold.pods.get(pod.uid)
            moved = before is not None and before.node and before.node != pod.node
            guarantees.demand(not moved, "P9", f"pod {pod.uid} moved from {before.node if before else ''}")
        case events.PodGone(uid=uid):
            known = uid in fold.pods or uid in fold.placements
            guarantees.demand(known, "P3", f"pod {uid} goes, but was not there")
        case events.NodeSeen(node=node):
            known_node = fold.nodes.get(node.name)
            guarantees.demand(known_node != node, "P3", f"node {node.name} is recorded again as it was")
            same = known_node is None or known_node.uid == node.uid
            guarantees.demand(same, "P9", f"node {node.name} became another without an end of the former")
        case events.ObjectObserved(identity=key, data=data):
            policy = msgspec.json.decode(data, type=policy_model.WorkloadPolicy)
            known_policy = fold.policies.get(key)
            guarantees.demand(policy.key == key, "P3", f"policy {policy.key} is recorded as {key}")
            guarantees.demand(known_policy != policy, "P3", f"policy {key} is recorded again as it was")
        case _:
            pass
