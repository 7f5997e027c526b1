"""bind: append the placement first, then send the Binding.

Idempotent by pod uid. The API server is called only after the placement was appended under its guard (see
placer), with the pod's uid and resourceVersion as preconditions. A refused Binding releases the placement;
after an unknown outcome it stays counted until there is evidence. The reply is empty only if the pod is known
to be bound (docs/design/principles.md, 6).
"""

from dataclasses import dataclass

from app.domain import model, snapshots
from app.kube.writes import binding
from app.verbs import contexts, errors, placer

GROUP_SECONDS = 1.0
"""A member of a scheduling group is refused no sooner than this, as long as few are at a time
(docs/design/principles.md, 20)."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """A pod that is known to be bound, and the snapshot in which it was placed on its node."""

    pod: model.Pod
    node: model.NodeName
    snapshot: snapshots.Snapshot


def run(context: contexts.Context, request: placer.BindRequest) -> BindResult:
    """Bind the pod; returns normally only if it is known to be bound to the node.

    Raises Refused (the pod cannot be bound there) or StateAway (try again).
    """
    began = context.monotonic()
    try:
        return _Attempt(context, request, began + context.time_limits.bind).run()
    except errors.VerbError:
        # kube-scheduler retries a refused member of a group at once, hundreds of times a second.
        if _is_group_member(context, request) and context.held_refusals.acquire(blocking=False):
            try:
                context.sleep(max(0.0, began + GROUP_SECONDS - context.monotonic()))
            finally:
                context.held_refusals.release()
        raise


class _Attempt:
    """One call of bind."""

    def __init__(self, context: contexts.Context, request: placer.BindRequest, deadline: float) -> None:
        self._context = context
        self._request = request
        self._deadline = deadline
        self._placing = placer.Placer(context, request, deadline)

    def run(self) -> BindResult:
        """See the function of that name."""
        while True:
            placed = self._placing.ensure_placed()
            if placed.bound:
                return self._done(placed)
            match self._send_binding(placed):
                case binding.Bound():
                    return self._done(placed)
                case binding.NotBound(reason):
                    self._placing.release(placed, reason)
                    raise errors.Refused(f"topolog: {reason}")
                case binding.Outdated(reason, current):
                    if self._left() < placer.MIN_LEFT:
                        self._placing.release(placed, reason)
                        raise errors.StateAway(f"topolog: {reason}; the pod is not bound, try again")
                    self._placing.place_again(placed, current)
                case binding.BoundByOther(reason):
                    # The pod counts on the node, by its placement until the watch shows it there.
                    raise errors.Refused(f"topolog: {reason}")
                case binding.Unknown(reason):
                    raise errors.StateAway(
                        f"topolog: it is not known whether the pod was bound to {self._request.node}"
                        f" ({reason}); its placement stays counted until the API server confirms or denies it"
                    )

    def _send_binding(self, placed: placer.Placed) -> binding.Outcome:
        """The outcome of one Binding. Raises StateAway if there is no time left for it."""
        request, left = self._request, self._left()
        if left < placer.MIN_LEFT:
            # Other calls rely on it that no Binding is sent after the deadline (placer.Placer._is_void).
            self._placing.release(placed, "no time was left for its Binding")
            raise errors.StateAway("topolog: the time for this bind is over; nothing was bound, try again")
        made = placed.placement
        return self._context.binder.bind(
            request.namespace,
            request.name,
            request.uid,
            request.node,
            carried=binding.Carried(placed.version, made.annotations, made.labels)
            if made is not None
            else binding.Carried(placed.version),
            timeout=left,
        )

    def _done(self, placed: placer.Placed) -> BindResult:
        request, snapshot = self._request, placed.snapshot
        unseen = model.Pod(uid=request.uid, namespace=request.namespace, name=request.name)
        return BindResult(snapshot.pod(request.uid) or unseen, request.node, snapshot)

    def _left(self) -> float:
        return self._deadline - self._context.monotonic()


def _is_group_member(context: contexts.Context, request: placer.BindRequest) -> bool:
    """Whether the pod, as this process last saw it, belongs to a scheduling group."""
    recent = context.memo.get(request.uid)
    known = recent.pod if recent is not None else context.state.snapshot.pod(request.uid)
    return known is not None and bool(known.group)
