"""The latest version of a pod that one call of bind has seen: it is judged, and its Binding carries it.

The log may show an older version of the pod, or a newer one. What is judged must be what the Binding's
precondition is about, so a pod and its version are never taken from two sources (decision 59).
"""

from typing import NamedTuple

import msgspec

from app.domain import model, snapshots
from app.kube.writes import binding
from app.verbs import errors
from app.verbs.memory import pod_memo


class Version(NamedTuple):
    """A pod in one version."""

    pod: model.Pod
    version: str
    """metadata.resourceVersion."""

    def unbound(self) -> "Version":
        """The pod as it is judged: if it is bound there already, the outcome of the Binding shows by whom."""
        return self._replace(pod=msgspec.structs.replace(self.pod, node="")) if self.pod.node else self


class LatestPod:
    """One pod, by uid: as kube-scheduler sent it, or as this call read it."""

    def __init__(
        self,
        binder: binding.Binder,
        sent: pod_memo.RecentPod | None,
        namespace: str,
        name: str,
        uid: model.Uid,
    ) -> None:
        """``sent``: the pod as kube-scheduler sent it last, if this process remembers it."""
        self._binder = binder
        self._namespace = namespace
        self._name = name
        self._uid = uid
        # A pod that was sent without a version could be of any.
        self._seen = Version(sent.pod, sent.version) if sent is not None and sent.version else None
        self._confirmed = False
        """The API server had a version during this call; all that were seen since are not older."""
        self._compared: model.Pod | None = None
        """The pod of the log that was compared with it last: what was seen is not older than that."""

    def judged(self, snapshot: snapshots.Snapshot, timeout: float) -> Version:
        """The version to judge, at least as new as the pod of the log. Raises as read.

        What kube-scheduler sent last may be older: another process may have answered its later calls. Equal
        counts do not prove that it is not, because plugins read more of a pod than what it raises.
        """
        known, read = snapshot.pods.get(self._uid), snapshot.schema.read_of_pod
        new, self._compared = known is not self._compared, known
        if self._seen is not None and known is not None and new and read(known) != read(self._seen.pod):
            self.read(timeout)
        return self.get(timeout)

    def get(self, timeout: float) -> Version:
        """The version that was seen last; read within ``timeout`` seconds if none was. Raises as read."""
        if self._seen is None:
            self.read(timeout)
        assert self._seen is not None
        self.check(self._seen.pod)
        return self._seen

    def confirmed(self, timeout: float) -> bool:
        """Whether the version that was seen last is no older than this call; may read. Raises as read.

        The log does not prove it: annotations, which plugins read, are not compared with it.
        """
        seen = self.get(timeout)
        if not self._confirmed:
            self.read(timeout)
        return seen.version == self.get(timeout).version

    def read(self, timeout: float) -> binding.Current:
        """The pod as the API server has it now. Raises Refused or KubeError."""
        current = self._binder.get_pod(self._namespace, self._name, timeout=timeout)
        if current is None or current.pod.uid != self._uid:
            raise errors.Refused(f"topolog: pod {self._namespace}/{self._name} with uid {self._uid} is gone")
        self.renew(current)
        return current

    def renew(self, current: binding.Current) -> None:
        """The API server has the pod so now."""
        self._seen, self._confirmed = Version(current.pod, current.version), True

    def check(self, known: model.Pod) -> None:
        """Raise Refused if a pod with the uid has another name than the requested one."""
        if (known.namespace, known.name) != (self._namespace, self._name):
            raise errors.Refused(
                f"topolog: uid {self._uid} belongs to {known.key}, not {self._namespace}/{self._name}"
            )


def refuse_bound(pod: model.Pod, *, but: model.NodeName = "") -> None:
    """Raise Refused if the pod is bound to a node, other than ``but``."""
    if pod.node and pod.node != but:
        raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")


def shown(snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName) -> bool:
    """Whether the pod, as the log has it, counts on the node as this version of it would."""
    known = snapshot.pods.get(pod.uid)
    # One that the log does not have yet counts as its placement has it.
    return known is None or snapshot.alike(known, pod, node)
