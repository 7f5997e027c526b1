"""A gang in one state of the cluster: its definition, and where its members are."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from app.domain import model, snapshots
from app.plugins.coscheduling import gang_model, kinds, membership, options
from app.plugins.coscheduling.membership import GangKey

Source = Literal["GangFromPodGroupCrd", "GangFromPodAnnotation", "GangFromNative", ""]
NAME = "Coscheduling"
"""The plugin's name: the key of its data in placements."""
TOO_MANY = f"has more than {gang_model.LARGEST:,} members; no more are placed together"


class Seat(NamedTuple):
    """A member that has a node."""

    pod: model.Pod
    node: model.NodeName
    bound: bool


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang."""

    key: GangKey
    minimum: int = 0
    """Members that must be placed together; 0 if the gang is not defined."""
    given: options.Options = field(default_factory=options.Options)
    waiting_time: int = options.DEFAULT_WAIT
    resources: dict[str, int] = field(default_factory=dict)
    topology_key: str = ""
    disrupted_whole: bool = False
    """kube-scheduler evicts all members or none."""
    source: Source = ""
    defined_by: str = ""
    """The object or pod that defines the gang."""
    created: str = ""
    errors: tuple[str, ...] = ()
    relies_on: tuple[str, ...] = ()
    """The subjects of the objects or the pod that define the gang, or would if they existed."""
    seats: tuple[Seat, ...] = ()
    """Members on nodes, bound or placed for this gang."""
    waiting: tuple[model.Pod, ...] = ()
    """Pending members without a node, in the order in which they are placed."""
    others: tuple[model.Pod, ...] = ()
    """Members that exist and cannot be placed: gated, terminating, or with a seat of another gang."""
    finished: tuple[model.Pod, ...] = ()

    @property
    def satisfied(self) -> bool:
        """Whether the gang has been placed once: some member has a node, or has run.

        A terminating member does not count, also once it has ended: when a job is restarted, all members of
        its last run are deleted, and those of the next one are a gang that is placed whole.
        """
        return bool(self.seats or self.ran)

    @property
    def ran(self) -> tuple[model.Pod, ...]:
        """Members that have run to their end without being deleted, in the run of those that are left.

        Beside members that wait or have a node, only those count that share an owner with one of them: the
        members of the Job that follows one with finished pods are a gang that is placed whole.
        """
        ended = tuple(pod for pod in self.finished if not pod.terminating)
        left = (*self.waiting, *(seat.pod for seat in self.seats)) if ended else ()
        return membership.of_same_owner(ended, left) if left else ended

    @property
    def together(self) -> tuple[GangKey, ...]:
        """The gangs that are placed with this one, itself among them."""
        named = {GangKey(self.key.family, *one.split("/")) for one in self.given.groups}
        return tuple(sorted({self.key, *named}))

    @property
    def planned_with(self) -> tuple[GangKey, ...]:
        """The gangs whose waiting members are in one plan with those of this one, itself among them.

        Under ``once-satisfied`` the other gangs of the group have no part in where later members go: they
        may have ended since.
        """
        alone = self.given.match == "once-satisfied" and self.satisfied
        return (self.key,) if alone else self.together

    @property
    def needed(self) -> int:
        """Waiting members that have to be placed together, by the match policy."""
        unbound = sum(not seat.bound for seat in self.seats)
        match self.given.match:
            case "only-waiting":
                return max(0, self.minimum - unbound)
            case "waiting-and-running":
                return max(0, self.minimum - len(self.seats))
            case _:
                return 0 if self.satisfied else self.minimum

    @property
    def present(self) -> int:
        """Members that are placed or can be."""
        return len(self.seats) + len(self.waiting)

    @property
    def objection(self) -> str:
        """Why no member can be placed, whatever capacity there is; empty if one can."""
        if self.errors:
            return f"gang {self.key}: invalid: {'; '.join(self.errors[:3])}"
        if not self.minimum:
            if self.key.family == gang_model.KOORDINATOR:
                return f"gang {self.key}: no member defines {options.MINIMUM}, and there is no PodGroup"
            return f"gang {self.key}: pod group {self.key.short} not found"
        if self.present < self.minimum and (self.given.match != "once-satisfied" or not self.satisfied):
            return f"gang {self.key}: {self.present} of {self.minimum} members exist"
        return self.too_few if self.waiting else ""

    @property
    def too_few(self) -> str:
        """Why those of enough members that wait are too few to be placed; empty if they are not.

        So it is only under ``only-waiting``, and while all members run it keeps none of this gang.
        """
        if self.needed <= len(self.waiting):
            return ""
        counted = self.minimum - self.needed + len(self.waiting)
        of = f"{counted} of {self.minimum} members wait"
        return f"gang {self.key}: {of}; those that run do not count ({self.given.match})"


def find(snapshot: snapshots.Snapshot, key: GangKey, asked: Iterable[model.Pod] = ()) -> Gang | None:
    """The gang of the key; None if it demands nothing, or nothing of it exists.

    ``asked``: a pod whose placement is being decided: a waiting member, whatever the snapshot has of it.
    The time grows with the members; see ``limited``.
    """
    deciding = {
        pod.uid: pod for pod in asked if membership.of(pod) == key and not membership.waits(snapshot, pod)
    }
    if deciding:
        return _found(snapshot, key, deciding)
    return snapshot.computed((__name__, key), lambda: _found(snapshot, key, {}))


def limited(snapshot: snapshots.Snapshot, key: GangKey, asked: Iterable[model.Pod] = ()) -> Gang | None:
    """As ``find``, in a time that does not grow with members beyond the limit.

    A gang beyond the limit is found without its members and options: it is invalid.
    """
    if _demands_nothing(snapshot, key):
        return None
    if beyond(snapshot, (key,), asked):
        return Gang(key, errors=(f"it {TOO_MANY}",))
    return find(snapshot, key, asked)


def beyond(snapshot: snapshots.Snapshot, keys: Collection[GangKey], asked: Iterable[model.Pod] = ()) -> bool:
    """Whether gangs have more members, on nodes or waiting, than are placed together.

    No more members are examined than it takes, beside those that have ended or cannot be placed.
    """
    deciding = {pod.uid: not pod.finished for pod in asked if membership.of(pod) in keys}
    if sum(membership.most(snapshot, key) for key in keys) + len(deciding) <= gang_model.LARGEST:
        return False
    others = (
        pod
        for key in keys
        for pod in membership.members(snapshot, key)
        if pod.uid not in deciding and seated(snapshot, pod, key)
        if (pod.counted if snapshot.node_of(pod.uid) else pod.pending)
    )
    rest = gang_model.LARGEST - sum(deciding.values())
    return next(itertools.islice(others, rest, None), None) is not None


def _found(
    snapshot: snapshots.Snapshot, key: GangKey, deciding: Mapping[model.Uid, model.Pod]
) -> Gang | None:
    if _demands_nothing(snapshot, key):
        return None
    pods = {pod.uid: pod for pod in membership.members(snapshot, key)}
    pods.update(deciding)
    everyone = sorted(pods.values(), key=membership.age)
    defined = _defined(snapshot, key, everyone)
    if defined is None:
        return None
    seats, waiting, others, finished = [], [], [], []
    for pod in everyone:
        node = "" if pod.uid in deciding else snapshot.node_of(pod.uid)
        if pod.finished:
            finished.append(pod)
        elif node and pod.counted and seated(snapshot, pod, key):
            seats.append(Seat(pod, node, bound=bool(pod.node)))
        elif pod.uid in deciding or (not node and pod.pending):
            waiting.append(pod)
        else:
            others.append(pod)
    errors = list(defined.errors)
    if len(seats) + len(waiting) > gang_model.LARGEST:
        errors.append(f"it {TOO_MANY}")
    if key.family != gang_model.NATIVE:
        spread = sorted({pod.group for pod in (*waiting, *(seat.pod for seat in seats)) if pod.group})
        if len(spread) > 1:
            errors.append(f"its members are in several pod groups of kube-scheduler: {', '.join(spread[:3])}")
    return replace(
        defined,
        errors=tuple(errors),
        seats=tuple(seats),
        waiting=tuple(sorted(waiting, key=membership.order)),
        others=tuple(others),
        finished=tuple(finished),
    )


def seated(snapshot: snapshots.Snapshot, pod: model.Pod, key: GangKey | None) -> bool:
    """Whether the pod is bound, or its placement was committed for this gang, or is only supposed.

    The labels of a pod may change after the commitment: its seat is no proof that another gang was placed.
    """
    placement = snapshot.placements.get(pod.uid)
    if pod.node or placement is None or not placement.at:
        return True
    return committed_for(placement) == key


def committed_for(placement: model.Placement) -> GangKey | None:
    """The gang that the placement was committed for.

    Without data of the plugin, which may not have been enabled then, it is the gang that its pod named.
    """
    named = placement.data.get(NAME, {}).get("gang")
    return GangKey(*named.split("/", 2)) if named else membership.of(placement.pod)


def group(
    snapshot: snapshots.Snapshot, gang: Gang, asked: Sequence[model.Pod] = ()
) -> tuple[tuple[Gang, ...], str]:
    """The gangs that are placed with this one, itself among them, and why none of them can be."""
    found: list[Gang] = []
    objection = ""
    rules: tuple[options.Gather, ...] = ()
    names = {gang.key.short, *gang.given.groups}
    for key in gang.together:
        one = gang if key == gang.key else find(snapshot, key, asked)
        if one is None:
            objection = objection or f"gang {gang.key}: gang {key.short} of its group does not exist"
            continue
        found.append(one)
        objection = objection or one.objection
        rules = rules or one.given.gather
        same = {one.key.short, *one.given.groups} == names
        if not same or one.given.gather not in ((), rules):
            # It must not be placed without the gangs that it names, nor by a gang that it does not name.
            other = "topology rules" if same else "gangs"
            objection = objection or f"gang {gang.key}: gang {key.short} of its group names other {other}"
    if not objection and any(one.waiting for one in found):
        objection = next(filter(None, (one.too_few for one in found)), "")
    total = sum(one.present for one in found)
    if not objection and total > gang_model.LARGEST:
        objection = _crowded(gang)
    return tuple(found), objection


def deciding(
    snapshot: snapshots.Snapshot, gang: Gang, asked: Sequence[model.Pod] = ()
) -> tuple[tuple[Gang, ...], str]:
    """The gangs that are planned with this one, itself among them, and why none of them can be placed."""
    if len(gang.planned_with) == 1:
        return (gang,), gang.objection
    if beyond(snapshot, gang.together, asked):
        return (gang,), _crowded(gang)
    return group(snapshot, gang, asked)


def _crowded(gang: Gang) -> str:
    """Why none of the gangs that are placed with this one can be, if they are too many together."""
    return f"gang {gang.key}: invalid: its group {TOO_MANY}"


def _demands_nothing(snapshot: snapshots.Snapshot, key: GangKey) -> bool:
    """Whether the pods are of a group of kube-scheduler's own that is not a gang."""
    if key.family != gang_model.NATIVE:
        return False
    return _native(snapshot, key, key.name.replace(":", "/")) is None


def _defined(snapshot: snapshots.Snapshot, key: GangKey, everyone: Sequence[model.Pod]) -> Gang | None:
    """What the gang demands; None if it is not a gang."""
    if key.family == gang_model.NATIVE:
        return _native(snapshot, key, key.name.replace(":", "/"))
    held = snapshot.get(kinds.OF_FAMILY[key.family], key.short)
    if held is not None:
        made = _of_object(key, held, "GangFromPodGroupCrd")
    elif key.family == gang_model.KOORDINATOR:
        made = _of_pods(key, everyone)
    else:
        made = Gang(key)
    if not everyone and held is None:
        return None
    made = replace(made, relies_on=(kinds.OF_FAMILY[key.family].subject(key.short), *made.relies_on))
    # Those that have ended, or terminate, may be of an earlier run, with a group of its own.
    inner = next((pod.group for pod in sorted(everyone, key=lambda one: not one.counted) if pod.group), "")
    below = _native(snapshot, GangKey(gang_model.NATIVE, key.namespace, inner), inner) if inner else None
    if below is None or not made.minimum:
        return made
    # The gang has to be accepted by kube-scheduler's own rules, too.
    return replace(
        made,
        minimum=max(made.minimum, below.minimum),
        topology_key=below.topology_key,
        disrupted_whole=below.disrupted_whole,
        errors=(*made.errors, *below.errors),
        relies_on=(*made.relies_on, *below.relies_on),
    )


def _of_object(key: GangKey, held: gang_model.PodGroup, source: Source) -> Gang:
    given = options.read(held.options, {})
    return Gang(
        key,
        minimum=held.minimum,
        given=given._replace(minimum=held.minimum),
        waiting_time=held.timeout or given.waiting,
        resources=held.resources,
        topology_key=held.topology_key,
        disrupted_whole=held.disrupted_whole,
        source=source,
        defined_by=f"PodGroup {key.short}",
        created=held.created,
        errors=(*held.errors, *given.errors),
    )


def _by_rank(everyone: Sequence[model.Pod]) -> Iterator[model.Pod]:
    """The members that may define the gang: by age, then those that terminate, then those that have ended in
    the run of those that are left, as the launcher of a Job may before its workers.
    """
    yield from sorted((one for one in everyone if not one.finished), key=lambda one: one.terminating)
    ended = (one for one in everyone if one.finished and not one.terminating)
    yield from membership.of_same_owner(ended, (one for one in everyone if one.counted))


def _of_pods(key: GangKey, everyone: Sequence[model.Pod]) -> Gang:
    able = (one for one in _by_rank(everyone) if options.minimum(one.annotations, one.labels) is not None)
    pod = next(able, None)
    if pod is None:
        return Gang(key)
    given = options.read(pod.annotations, pod.labels)
    minimum = max(1, given.minimum or 0)
    errors = given.errors
    if minimum > gang_model.LARGEST:
        text = f"{options.MINIMUM} is {minimum:,}; at most {gang_model.LARGEST:,} are placed together"
        errors = (text, *errors)
    return Gang(
        key,
        minimum=minimum,
        given=given,
        waiting_time=given.waiting,
        source="GangFromPodAnnotation",
        defined_by=f"pod {pod.key}",
        created=pod.created,
        errors=errors,
        relies_on=(f"pod:{pod.uid}",),
    )


def _native(snapshot: snapshots.Snapshot, key: GangKey, name: str) -> Gang | None:
    """kube-scheduler's own group, in the form of any version; None if its policy demands nothing."""
    if "/" in name:
        workload, _, rest = name.partition("/")
        held = snapshot.get(kinds.WORKLOADS, f"{key.namespace}/{workload}")
        relies_on = (kinds.WORKLOADS.subject(f"{key.namespace}/{workload}"),)
        if held is None:
            return Gang(key, relies_on=relies_on)
        minimum = held.groups.get(rest.partition("/")[0])
        if minimum == 0 and not held.errors:
            return None
        by = f"Workload {key.namespace}/{workload}"
        errors = held.errors if minimum is not None else (*held.errors, f"{by} has no group {rest}")
        return Gang(
            key,
            minimum=minimum or 1,
            source="GangFromNative",
            defined_by=by,
            created=held.created,
            errors=errors,
            relies_on=relies_on,
        )
    found = snapshot.get(kinds.NATIVE, f"{key.namespace}/{name}")
    relies_on = (kinds.NATIVE.subject(f"{key.namespace}/{name}"),)
    if found is None:
        return Gang(key, relies_on=relies_on)
    if not (found.minimum or found.topology_key or found.errors):
        return None
    made = _of_object(key, found, "GangFromNative")
    return replace(made, minimum=made.minimum or 1, relies_on=relies_on)
