"""The law of unrecorded Bindings: a pod that may count is placed in the log before it is bound.

What may count follows from what the process has read. A node that it has not read may be in any domain.
"""

from app.domain import snapshots
from tests.support.simulation.oracle import plain_fold


def must_be_placed(fold: plain_fold.Fold, snapshot: snapshots.Snapshot, uid: str, node: str) -> bool:
    """Whether a process that has read the log up to this snapshot must place the pod before it binds it.

    False where it has not read the latest changes of the pod, of the policies or of the node: then it may do
    either.
    """
    pod, read = fold.pods.get(uid), snapshot.offset
    if pod is None or fold.versions[f"pod:{uid}"] > read or fold.unlisted:
        return False
    if pod.terminating or pod.phase in ("Succeeded", "Failed"):
        return False
    if fold.versions.get(f"policies:{pod.namespace}", 0) > read:
        return False
    if not any(plain_fold.limits(policy, pod) for policy in fold.policies.values()):
        return False
    if node not in snapshot.nodes:
        return True
    return fold.versions.get(f"node:{node}", read + 1) <= read and bool(fold.keys(pod, node))
