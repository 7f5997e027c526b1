"""bind: the promise first, then the Binding.

Idempotent by pod uid. The promise (PodPlaced) is appended under guard, so that no other replica can
give the same place away; only then the API server is asked, with the uid as precondition. A refusal
takes the promise back; an unknown outcome leaves it counted until there is evidence. The reply is
empty only if the pod is known to be bound (architecture 6).
"""

from dataclasses import dataclass
from typing import NamedTuple

from app import telemetry
from app.domain import counting, events, model, projecting, snapshots
from app.framework import capabilities, cycles, running
from app.kube import binding
from app.kube import errors as kube_errors
from app.store import errors as store_errors
from app.store import logs
from app.verbs import contexts, errors, releasing

GROUP_SECONDS = 1.0
"""No member of a scheduling group is refused sooner (architecture 20)."""
_UNDER_WAY = 1.5
"""Seconds beyond the time for a bind after which no Binding of it can still take effect."""
_RELEASE, _READ, _LEAST = 0.6, 2.0, 0.1
"""Seconds: for taking a promise back and for reading a pod at most, and for anything at least."""
_MOST_TAKEN = 5
"""So often may the last place be taken between our snapshot and our append."""
_POLL = 0.05
"""Seconds between two looks at what another call is doing."""


@dataclass(frozen=True, slots=True)
class Request:
    """What kube-scheduler asks: this pod, by uid, on this node."""

    namespace: str
    name: str
    uid: model.Uid
    node: model.NodeName


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod that is known to be bound, and the snapshot in which it was promised its node."""

    pod: model.Pod
    node: model.NodeName
    snapshot: snapshots.Snapshot


def run(context: contexts.Context, request: Request) -> Bound:
    """Bind the pod; returns normally only if it is known to be bound to the node.

    Raises Refused (will not or must not be bound there) or StateAway (try again).
    """
    began = context.monotonic()
    try:
        return _bound(context, request, began + context.budgets.bind)
    except errors.VerbError:
        if _grouped(context, request):
            # kube-scheduler tries a refused member of a group again at once, hundreds of times a second.
            context.sleep(max(0.0, began + GROUP_SECONDS - context.monotonic()))
        raise


def _bound(context: contexts.Context, request: Request, deadline: float) -> Bound:
    promised = _known(context, request, deadline)
    snapshot = promised.snapshot
    if promised.bound:
        return _done(request, snapshot)
    left = deadline - context.monotonic()
    if left < _LEAST:
        # Others count on it that no attempt of a Binding begins after the deadline (see _over).
        raise errors.StateAway("topolog: the time for this bind is over; nothing was bound")
    outcome = context.binder.bind(request.namespace, request.name, request.uid, request.node, timeout=left)
    match outcome:
        case binding.Bound():
            return _done(request, snapshot)
        case binding.Refused():
            if promised.alone is not None:
                releasing.release(
                    context.state,
                    context.log,
                    request.uid,
                    "refused",
                    outcome.reason,
                    promise=promised.alone,
                    timeout=_RELEASE,
                )
            raise errors.Refused(f"topolog: {outcome.reason}")
        case binding.Unknown():
            raise errors.StateAway(
                f"topolog: it is not known whether the pod was bound to {request.node} ({outcome.reason});"
                " its place stays taken until the API server tells"
            )


def _done(request: Request, snapshot: snapshots.Snapshot) -> Bound:
    unseen = model.Pod(uid=request.uid, namespace=request.namespace, name=request.name)
    return Bound(snapshot.pod(request.uid) or unseen, request.node, snapshot)


@dataclass(frozen=True, slots=True)
class _Promised:
    """The state in which the pod may be bound to the node."""

    snapshot: snapshots.Snapshot
    alone: model.Position | None = None
    """The promise, if no other call has a part in it: a refused Binding proves that the place is free."""
    bound: bool = False
    """The pod is known to be bound to the node already."""


def _known(context: contexts.Context, request: Request, deadline: float) -> _Promised:
    """The state in which the pod may be bound to the node. Raises Refused or StateAway."""
    try:
        try:
            return _promise(context, request, deadline)
        except store_errors.Conflict as conflict:
            text = "too many pods are placed at the same moment; nothing was bound, try again"
            raise errors.StateAway(f"topolog: {text}") from conflict
        except store_errors.StoreError as away:
            if not _stateless(context, request, deadline):
                raise errors.StateAway(f"topolog: the store is away ({away}); nothing was bound") from away
            return _Promised(context.state.snapshot)
    except kube_errors.KubeError as problem:
        text = f"the API server cannot be asked about the pod ({problem}); nothing was bound"
        raise errors.StateAway(f"topolog: {text}") from problem


def _promise(context: contexts.Context, request: Request, deadline: float) -> _Promised:
    """The state in which the pod is promised (or already bound to) the node."""
    taken = 0
    while True:
        snapshot = context.present(_left(context, deadline, context.budgets.state))
        pod = _pod(context, snapshot, request, deadline)
        if pod.node == request.node:
            return _Promised(snapshot, bound=True)
        if pod.node:
            raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")
        standing = _standing(snapshot, request.uid)
        try:
            if standing is not None and standing.node == request.node:
                over = _over(context, request, standing)
                if _awaited(context, request, standing, deadline):
                    return _Promised(snapshot, bound=True)
                if over:
                    # Made anew, it is young again for whoever looks for promises that nobody keeps.
                    return _promised(context, snapshot, pod, request.node, deadline)
                continue
            if standing is not None:
                _resolve(context, request, standing, deadline)
                continue
            return _place(context, snapshot, pod, request.node, deadline)
        except store_errors.Conflict:
            if context.monotonic() >= deadline:
                raise
        except store_errors.CeilingReached as reached:
            # Another replica took the last place after our snapshot: the next one says so in the plugin's
            # own words. If it does not, the counts are wrong, and no place is given away on their account.
            taken += 1
            if taken >= _MOST_TAKEN:
                telemetry.log.warning("a count differs from its log", count=reached.key, reached=str(reached))
                raise errors.Refused(f"topolog: no room left on node {request.node}") from reached


def _place(
    context: contexts.Context,
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    deadline: float,
) -> _Promised:
    cycle = _cycle(context, snapshot, pod, node)
    trace = running.run_filter(context.plugins, cycle)
    if trace.refusals:
        raise errors.Refused(f"topolog: {trace.refusals[0].reason}", snapshot=snapshot, trace=trace)
    return _promised(context, snapshot, pod, node, deadline)


def _promised(
    context: contexts.Context,
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    deadline: float,
) -> _Promised:
    """The state after the promise was appended, for this call alone to keep."""
    claim = running.claim(context.plugins, _cycle(context, snapshot, pod, node), node)
    after = _written(context, snapshot, pod, node, claim, deadline)
    made = after.promise(pod.uid)
    if made is not None:
        context.met.since((pod.uid, made), context.monotonic())
    return _Promised(after, alone=made)


def _cycle(
    context: contexts.Context, snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName
) -> cycles.Cycle:
    return cycles.cycle(pod, frozenset((node,)), snapshot, score_max=context.plugins.score_max)


def _written(
    context: contexts.Context,
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    claim: capabilities.Claim,
    deadline: float,
) -> snapshots.Snapshot:
    """The snapshot after the promise was appended. Raises Conflict, CeilingReached or StoreAway."""
    event = events.PodPlaced(pod=pod, node=node, at=context.now(), by=context.identity)
    projection = projecting.Projection(snapshot)
    projection.apply(event)
    guard = logs.Guard(
        incarnation=snapshot.position.incarnation,
        versions={subject: snapshot.version(subject) for subject in claim.subjects},
        # Only a count that the placement raises can break its ceiling.
        ceilings={key: top for key, top in claim.ceilings.items() if projection.increments.get(key, 0) > 0},
    )
    batch = logs.Batch(events=(event,), increments=projection.increments)
    appended = context.log.append(batch, guard, timeout=_left(context, deadline, context.budgets.state))
    after = projection.finish()
    if appended.first == snapshot.offset + 1:
        context.state.adopt(after, appended)
        return after
    # Others wrote in between: only the log knows what the promise follows on.
    return context.state.catch_up(timeout=context.budgets.state)


def _pod(
    context: contexts.Context, snapshot: snapshots.Snapshot, request: Request, deadline: float
) -> model.Pod:
    """The pod as it is best known here; asks the API server if neither the log nor memory has it."""
    known = snapshot.pod(request.uid)
    if known is None:
        recent = context.recents.get(request.uid)
        known = recent.pod if recent is not None else _read(context, request, deadline)
    if known is None or known.uid != request.uid:
        raise _gone(request)
    if (known.namespace, known.name) != (request.namespace, request.name):
        raise errors.Refused(
            f"topolog: uid {request.uid} belongs to {known.key}, not {request.namespace}/{request.name}"
        )
    return known


class _Standing(NamedTuple):
    """A promise that this call found."""

    node: model.NodeName
    made: model.Position


def _standing(snapshot: snapshots.Snapshot, uid: model.Uid) -> _Standing | None:
    made = snapshot.promise(uid)
    return _Standing(snapshot.placements[uid].node, made) if made is not None else None


def _over(context: contexts.Context, request: Request, standing: _Standing) -> bool:
    """Whether no Binding of the promise can be under way any more, whoever made it."""
    now = context.monotonic()
    return now - context.met.since((request.uid, standing.made), now) >= context.budgets.bind + _UNDER_WAY


def _awaited(context: contexts.Context, request: Request, standing: _Standing, deadline: float) -> bool:
    """Whether the pod is bound there by another call that may be about it right now.

    A second Binding beside the first would make the refusal of either no evidence that the place is
    free. False when the promise is gone or over. Raises Refused or StateAway.
    """
    while True:
        pod = _read(context, request, deadline)
        if pod is None or pod.uid != request.uid:
            raise _gone(request)
        if pod.node == request.node:
            return True
        if pod.node:
            raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")
        snapshot = context.state.catch_up(timeout=_left(context, deadline, context.budgets.state))
        if snapshot.promise(request.uid) != standing.made or _over(context, request, standing):
            return False
        if context.monotonic() + _POLL >= deadline:
            raise errors.StateAway(
                f"topolog: another call is binding the pod to node {standing.node};"
                " it is not known yet what comes of it, try again"
            )
        context.sleep(_POLL)


def _resolve(context: contexts.Context, request: Request, standing: _Standing, deadline: float) -> None:
    """An earlier promise of another node stands: the API server knows what became of it.

    That it shows the pod unbound is evidence only once no Binding of that promise can be under way any
    more; until then the place stays taken, or the pod could end up there uncounted. Raises Refused or
    StateAway, or has taken the promise back.
    """
    over = _over(context, request, standing)
    pod = _read(context, request, deadline)
    if pod is None or pod.uid != request.uid:
        raise _gone(request)
    if pod.node and pod.node != request.node:
        raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")
    if not pod.node and not over:
        raise errors.StateAway(
            f"topolog: the pod was promised to node {standing.node} and may yet be bound there;"
            " nothing else was bound, try again"
        )
    reason = f"placed anew; {standing.node} was never bound"
    # Not one made anew meanwhile, perhaps for the same node: its Binding may be under way.
    released = releasing.release(
        context.state,
        context.log,
        request.uid,
        "superseded",
        reason,
        promise=standing.made,
        timeout=_RELEASE,
    )
    if not released:
        raise errors.StateAway(f"topolog: the promise of node {standing.node} cannot be taken back yet")


def _read(context: contexts.Context, request: Request, deadline: float) -> model.Pod | None:
    return context.binder.get_pod(request.namespace, request.name, timeout=_left(context, deadline, _READ))


def _left(context: contexts.Context, deadline: float, most: float) -> float:
    return max(_LEAST, min(most, deadline - context.monotonic()))


def _gone(request: Request) -> errors.Refused:
    return errors.Refused(f"topolog: pod {request.namespace}/{request.name} with uid {request.uid} is gone")


def _grouped(context: contexts.Context, request: Request) -> bool:
    """Whether the pod, as far as it is known, belongs to a scheduling group."""
    recent = context.recents.get(request.uid)
    known = recent.pod if recent is not None else context.state.snapshot.pod(request.uid)
    return known is not None and bool(known.group)


def _stateless(context: contexts.Context, request: Request, deadline: float) -> bool:
    """Whether the pod may be bound without a record: no plugin and no policy has to do with it (ADR 0001)."""
    if not context.state.caught_up:
        return False  # Which policies there are was never known here.
    snapshot = context.state.snapshot
    if snapshot.unlisted:
        return False  # Nor which there are again.
    pod = _pod(context, snapshot, request, deadline)
    if context.plugins.concerned(pod, snapshot):
        return False
    node = snapshot.nodes.get(request.node)
    return not any(True for _ in counting.contributions(pod, node, snapshot.policies_of(pod.namespace)))
