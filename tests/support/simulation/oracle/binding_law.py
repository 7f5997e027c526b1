"""The law of Bindings: a pod is bound as it was judged, and as the log counts it.

What is carried out is compared with the placement whose version the Binding names. Without one the pod may
not count: no policy selects it, and there is no elastic quota, as far as the sender of the Binding has read.
"""

from app.domain import events, model, snapshots
from app.plugins.elastic_quota import kinds as quota_kinds
from app.plugins.workload_policy import kinds as policy_kinds
from tests.support.simulation.cluster import sent_bindings
from tests.support.simulation.oracle import plain_fold

_Read = tuple[str, dict[str, str], bool, bool, dict[str, int]]


def read(pod: model.Pod) -> _Read:
    """All that counters read of a pod."""
    finished = pod.phase in ("Succeeded", "Failed")
    return pod.namespace, pod.labels, finished, pod.terminating, pod.requests


class Placed:
    """The pods that were placed, by the version that their Bindings carry."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], list[model.Pod]] = {}

    def note(self, event: events.AnyEvent) -> None:
        """Note the placements of the event that may have a Binding."""
        for one in event.placements if isinstance(event, events.PlacementsCommitted) else ():
            if not one.planned:
                self._pods.setdefault((one.pod.uid, one.resource_version), []).append(one.pod)

    def problem(self, written: sent_bindings.Written) -> str:
        """How a Binding that was carried out breaks the law; empty if it does not."""
        pod = written.pod
        made = self._pods.get((pod.uid, written.version), [])
        if not made:
            # It was decided between these two states: what counts the pod in both did so then.
            missing = all(_counted(pod, written.node, snapshot) for snapshot in written.read)
            return f"{pod.key} is bound without a placement, and counts" if missing else ""
        differing = [one for one in made if read(one) != read(pod)]
        return f"{pod.key} is bound as {pod.labels}, was placed as {differing[0].labels}" if differing else ""


def _counted(pod: model.Pod, name: str, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod raises a count on the node in this state; also if the node is not known in it."""
    if pod.phase in ("Succeeded", "Failed"):
        return False
    if snapshot.all(quota_kinds.QUOTAS):
        return True
    node = snapshot.nodes.get(name)
    return not pod.terminating and any(
        plain_fold.selects(policy, pod) and (node is None or policy.topology_key in node.labels)
        for policy in snapshot.all(policy_kinds.POLICIES).values()
    )
