"""bind: the promise first, then the Binding.

Idempotent by pod uid. The promise (PodPlaced) is appended under guard, so that no other replica can
give the same place away; only then the API server is asked, with the uid as precondition. A refusal
takes the promise back; an unknown outcome leaves it counted until there is evidence. The reply is
empty only if the pod is known to be bound (architecture 6).
"""

from dataclasses import dataclass

from app.domain import counting, events, model, projecting, snapshots
from app.framework import cycles, running
from app.kube import binding
from app.store import errors as store_errors
from app.store import logs
from app.verbs import contexts, errors, releasing


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
    deadline = context.monotonic() + context.budgets.bind
    try:
        snapshot = _promise(context, request, deadline)
    except store_errors.StoreError as away:
        if not _stateless(context, request):
            raise errors.StateAway(f"topolog: the store is away ({away}); nothing was bound") from away
        snapshot = context.state.snapshot
    outcome = context.binder.bind(
        request.namespace,
        request.name,
        request.uid,
        request.node,
        timeout=max(0.2, deadline - context.monotonic()),
    )
    match outcome:
        case binding.Bound():
            pod = snapshot.pod(request.uid)
            unseen = model.Pod(uid=request.uid, namespace=request.namespace, name=request.name)
            return Bound(pod or unseen, request.node, snapshot)
        case binding.Refused():
            releasing.release(context.state, context.log, request.uid, outcome.reason)
            raise errors.Refused(f"topolog: {outcome.reason}")
        case binding.Unknown():
            raise errors.StateAway(
                f"topolog: it is not known whether the pod was bound to {request.node} ({outcome.reason});"
                " its place stays taken until the API server tells"
            )


def _promise(context: contexts.Context, request: Request, deadline: float) -> snapshots.Snapshot:
    """The snapshot in which the pod is promised (or already bound to) the node."""
    while True:
        snapshot = context.state.catch_up(
            timeout=max(0.1, min(context.budgets.state, deadline - context.monotonic()))
        )
        pod = _pod(context, snapshot, request)
        if pod.node == request.node:
            return snapshot
        if pod.node:
            raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")
        standing = snapshot.placements.get(request.uid)
        if standing is not None and standing.node == request.node:
            return snapshot
        if standing is not None:
            _resolve(context, request, standing)
            continue
        try:
            return _place(context, snapshot, pod, request.node)
        except store_errors.Conflict:
            if context.monotonic() >= deadline:
                raise
        except store_errors.CeilingReached as reached:
            # Another replica took the last place after our snapshot: say so in the plugin's own words.
            if context.monotonic() >= deadline:
                raise errors.Refused(f"topolog: {reached}") from reached


def _place(
    context: contexts.Context, snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName
) -> snapshots.Snapshot:
    cycle = cycles.cycle(pod, frozenset((node,)), snapshot, score_max=context.plugins.score_max)
    trace = running.run_filter(context.plugins, cycle)
    if trace.refusals:
        raise errors.Refused(f"topolog: {trace.refusals[0].reason}")
    claim = running.claim(context.plugins, cycle, node)
    event = events.PodPlaced(pod=pod, node=node, at=context.now(), by=context.identity)
    projection = projecting.Projection(snapshot)
    projection.apply(event)
    guard = logs.Guard(
        versions={subject: snapshot.version(subject) for subject in claim.subjects},
        # Only a count that the placement raises can break its ceiling.
        ceilings={key: top for key, top in claim.ceilings.items() if projection.increments.get(key, 0) > 0},
    )
    appended = context.log.append(logs.Batch(events=(event,), increments=projection.increments), guard)
    after = projection.finish()
    if appended.first == snapshot.offset + 1:
        context.state.adopt(after, appended)
    return after


def _pod(context: contexts.Context, snapshot: snapshots.Snapshot, request: Request) -> model.Pod:
    """The pod as it is best known here; asks the API server if neither the log nor memory has it."""
    known = snapshot.pod(request.uid)
    if known is None:
        recent = context.recents.get(request.uid)
        known = recent.pod if recent is not None else context.binder.get_pod(request.namespace, request.name)
    if known is None or known.uid != request.uid:
        raise errors.Refused(
            f"topolog: pod {request.namespace}/{request.name} with uid {request.uid} is gone"
        )
    if (known.namespace, known.name) != (request.namespace, request.name):
        raise errors.Refused(
            f"topolog: uid {request.uid} belongs to {known.key}, not {request.namespace}/{request.name}"
        )
    return known


def _resolve(context: contexts.Context, request: Request, standing: model.Placement) -> None:
    """An earlier promise of another node stands: the API server knows what became of it."""
    pod = context.binder.get_pod(request.namespace, request.name)
    if pod is None or pod.uid != request.uid:
        raise errors.Refused(
            f"topolog: pod {request.namespace}/{request.name} with uid {request.uid} is gone"
        )
    if pod.node and pod.node != request.node:
        raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")
    releasing.release(
        context.state, context.log, request.uid, f"placed anew; {standing.node} was never bound"
    )


def _gone(request: Request) -> errors.Refused:
    return errors.Refused(f"topolog: pod {request.namespace}/{request.name} with uid {request.uid} is gone")


def _stateless(context: contexts.Context, request: Request) -> bool:
    """Whether the pod may be bound without a record: no plugin and no policy has to do with it (ADR 0001)."""
    if not context.state.caught_up:
        return False  # Which policies there are was never known here.
    snapshot = context.state.snapshot
    pod = _pod(context, snapshot, request)
    if context.plugins.interested(pod):
        return False
    node = snapshot.nodes.get(request.node)
    return not any(True for _ in counting.contributions(pod, node, snapshot.policies_of(pod.namespace)))
