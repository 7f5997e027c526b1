"""The gang that a pod belongs to: a function of its labels, annotations and specification alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from app.domain import model, snapshots
from app.plugins.coscheduling import gang_model, options

SIGS_LABEL = "scheduling.x-k8s.io/pod-group"
NAME, SELECTOR = model.annotation(options.NAME), model.annotation(options.SELECTOR)
"""Keys of the index: a pod may have labels of the same names, which mean nothing."""
INDEXED = (SIGS_LABEL, options.LABEL, options.OLD_LABEL, NAME, SELECTOR, model.GROUP)
"""Keys by which the members of a gang are found."""


class GangKey(NamedTuple):
    """The identity of a gang."""

    family: str
    namespace: str
    name: str
    """For a group of a Workload (Kubernetes 1.35) ``WORKLOAD:GROUP`` or ``WORKLOAD:GROUP:REPLICA``."""

    @property
    def short(self) -> str:
        """``namespace/name``, as in Koordinator's lists of groups."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.family}/{self.namespace}/{self.name}"


def of(pod: model.Pod) -> GangKey | None:
    """The gang of the pod: Koordinator's mark comes first, then the sigs' label, then kube-scheduler's."""
    labels = pod.labels
    name = labels.get(options.LABEL) or labels.get(options.OLD_LABEL) or pod.annotations.get(options.NAME)
    if name:
        return GangKey(gang_model.KOORDINATOR, pod.namespace, name)
    if name := labels.get(SIGS_LABEL):
        return GangKey(gang_model.SIGS, pod.namespace, name)
    if pod.group:
        return GangKey(gang_model.NATIVE, pod.namespace, pod.group.replace("/", ":"))
    return None


def others(pod: model.Pod) -> list[GangKey]:
    """The gangs that further marks of the pod name: it is not among their members.

    A group of kube-scheduler is not among them, because its own rules count beside those of another mark.
    """
    names = (
        pod.labels.get(options.LABEL),
        pod.labels.get(options.OLD_LABEL),
        pod.annotations.get(options.NAME),
    )
    named = [GangKey(gang_model.KOORDINATOR, pod.namespace, name) for name in names if name]
    if name := pod.labels.get(SIGS_LABEL):
        named.append(GangKey(gang_model.SIGS, pod.namespace, name))
    own = of(pod)
    return [key for key in dict.fromkeys(named) if key != own]


def preempts_whole(pod: model.Pod) -> bool:
    """Whether kube-scheduler preempts for the pod's group as a whole; not for one of a Workload (1.35)."""
    return bool(pod.group) and "/" not in pod.group


def members(snapshot: snapshots.Snapshot, key: GangKey) -> Iterator[model.Pod]:
    """The pods of the gang in any phase, each once, in any order."""
    seen: set[model.Uid] = set()
    for mark, value in _marks(key):
        for pod in snapshot.siblings(key.namespace, mark, value):
            if pod.uid not in seen and of(pod) == key:
                seen.add(pod.uid)
                yield pod


def of_same_owner(pods: Iterable[model.Pod], others: Iterable[model.Pod]) -> tuple[model.Pod, ...]:
    """The pods that share an owner with one of the others, such as a Job: they are of the same run."""
    owners = {owner.uid for pod in others for owner in pod.owners}
    return tuple(pod for pod in pods if any(owner.uid in owners for owner in pod.owners))


def age(pod: model.Pod) -> tuple[str, model.Uid]:
    """The oldest first."""
    return pod.created, pod.uid


def order(pod: model.Pod) -> tuple[bool, int, str, str]:
    """In which members are placed: by index if there is one from 0, then by name."""
    index = options.number(pod.annotations.get(options.INDEX))
    without = index is None or index < 0
    return without, 0 if without or index is None else index, pod.name, pod.uid


def waits(snapshot: snapshots.Snapshot, pod: model.Pod) -> bool:
    """Whether the snapshot has just this pod, waiting for a node, and lists it among the members of its gang.

    A snapshot whose index lacks the marks, such as one that no extender made, lists none.
    """
    if not snapshot.indexed.issuperset(INDEXED):
        return False
    return pod.uid in snapshot.waiting and snapshot.pods.get(pod.uid) == pod


def most(snapshot: snapshots.Snapshot, key: GangKey) -> int:
    """At least as many as the gang has pods in any phase, without examining any of them."""
    return sum(len(snapshot.labelled.get((key.namespace, *mark), ())) for mark in _marks(key))


def _marks(key: GangKey) -> tuple[tuple[str, str], ...]:
    """Key and value of each mark by which pods may name the gang."""
    match key.family:
        case gang_model.KOORDINATOR:
            return tuple((mark, key.name) for mark in (options.LABEL, options.OLD_LABEL, NAME))
        case gang_model.NATIVE:
            return ((model.GROUP, key.name.replace(":", "/")),)
        case _:
            return ((SIGS_LABEL, key.name),)


def all_keys(snapshot: snapshots.Snapshot) -> set[GangKey]:
    """The gangs that some pod names."""
    found: set[GangKey] = set()
    marks = {*INDEXED} - {SELECTOR}
    for (_, mark, value), pods in snapshot.labelled.items():
        for uid in pods if mark in marks else ():
            pod = snapshot.pod(uid)
            key = of(pod) if pod is not None else None
            if key is not None:
                found.add(key)
                if (mark, value) in _marks(key):
                    break  # The others are of the same gang, or are found by the mark that counts for them.
    return found
