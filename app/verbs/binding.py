"""bind: the placement first, then the Binding.

Idempotent by pod uid. The placement (PodPlaced) is appended under guard, so that no other replica can
give the same place away; only then the API server is asked, with the pod's uid and its resourceVersion as
preconditions. A refusal releases the placement; an unknown outcome leaves it counted until there is
evidence: the pod has another version than the Binding carries, so that it cannot be carried out any more
(ADR 0008). The reply is empty only if the pod is known to be bound (architecture 6).
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
_RELEASE, _READ, _LEAST = 0.6, 2.0, 0.1
"""Seconds: for releasing a placement and for reading a pod at most, and for anything at least."""
_MOST_TAKEN = 5
"""So often may the last place be taken between our snapshot and our append."""
_POLL, _LONGEST_POLL = 0.05, 0.8
"""Seconds between the first two reads of a pod that another call is binding, and at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """What kube-scheduler asks: this pod, by uid, on this node."""

    namespace: str
    name: str
    uid: model.Uid
    node: model.NodeName


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod that is known to be bound, and the snapshot in which it was placed on its node."""

    pod: model.Pod
    node: model.NodeName
    snapshot: snapshots.Snapshot


def run(context: contexts.Context, request: Request) -> Bound:
    """Bind the pod; returns normally only if it is known to be bound to the node.

    Raises Refused (will not or must not be bound there) or StateAway (try again).
    """
    began = context.monotonic()
    try:
        return _Attempt(context, request, began + context.budgets.bind).run()
    except errors.VerbError:
        if _grouped(context, request):
            # kube-scheduler tries a refused member of a group again at once, hundreds of times a second.
            context.sleep(max(0.0, began + GROUP_SECONDS - context.monotonic()))
        raise


@dataclass(frozen=True, slots=True)
class _Ready:
    """The state in which a Binding may be sent."""

    snapshot: snapshots.Snapshot
    made: model.Position | None = None
    """This call's own placement; None if the pod needs none."""
    version: str = ""
    """The pod's resourceVersion, which that placement names and the Binding carries; empty without one."""
    bound: bool = False
    """The pod is known to be bound to the node already."""


class _Standing(NamedTuple):
    """A placement that this call found."""

    node: model.NodeName
    made: model.Position
    version: str


class _Attempt:
    """One call of bind."""

    def __init__(self, context: contexts.Context, request: Request, deadline: float) -> None:
        self._context = context
        self._request = request
        self._deadline = deadline
        recent = context.recents.get(request.uid)
        self._version = recent.version if recent is not None else ""
        """The pod's resourceVersion as last seen: by kube-scheduler, or by this call itself."""
        self._void: model.Position | None = None
        """A placement on the node whose Binding cannot be carried out any more."""

    def run(self) -> Bound:
        """See the function of that name."""
        context, request = self._context, self._request
        while True:
            ready = self._known()
            if ready.bound:
                return self._done(ready)
            left = self._deadline - context.monotonic()
            if left < _LEAST:
                # Others count on it that no Binding is sent after the deadline (see _over).
                self._release(ready, "there was no time left for its Binding")
                raise errors.StateAway("topolog: the time for this bind is over; nothing was bound")
            outcome = context.binder.bind(
                request.namespace,
                request.name,
                request.uid,
                request.node,
                version=ready.version,
                timeout=left,
            )
            match outcome:
                case binding.Bound():
                    return self._done(ready)
                case binding.Refused():
                    self._release(ready, outcome.reason)
                    raise errors.Refused(f"topolog: {outcome.reason}")
                case binding.Outdated():
                    if self._deadline - context.monotonic() < _LEAST:
                        self._release(ready, outcome.reason)
                        raise errors.StateAway(f"topolog: {outcome.reason}; it is not bound, try again")
                    # Placed again first: the version that the next Binding carries has to be in the log.
                    self._void, self._version = ready.made, outcome.version
                case binding.Unknown():
                    raise errors.StateAway(
                        f"topolog: it is not known whether the pod was bound to {request.node}"
                        f" ({outcome.reason}); its place stays taken until the API server tells"
                    )

    def _done(self, ready: _Ready) -> Bound:
        request, snapshot = self._request, ready.snapshot
        unseen = model.Pod(uid=request.uid, namespace=request.namespace, name=request.name)
        return Bound(snapshot.pod(request.uid) or unseen, request.node, snapshot)

    def _release(self, ready: _Ready, reason: str) -> None:
        """Release this call's own placement: all its Bindings were refused, or none was sent."""
        if ready.made is not None:
            releasing.release(
                self._context.state,
                self._context.log,
                self._request.uid,
                "refused",
                reason,
                promise=ready.made,
                timeout=_RELEASE,
            )

    # -- placing -----------------------------------------------------------------------------

    def _known(self) -> _Ready:
        """The state in which the pod may be bound to the node. Raises Refused or StateAway."""
        try:
            try:
                return self._placed()
            except store_errors.Conflict as conflict:
                text = "too many pods are placed at the same moment; nothing was bound, try again"
                raise errors.StateAway(f"topolog: {text}") from conflict
            except store_errors.StoreError as away:
                if not self._stateless():
                    raise errors.StateAway(
                        f"topolog: the store is away ({away}); nothing was bound"
                    ) from away
                return _Ready(self._context.state.snapshot)
        except kube_errors.KubeError as problem:
            text = f"the API server cannot be asked about the pod ({problem}); nothing was bound"
            raise errors.StateAway(f"topolog: {text}") from problem

    def _placed(self) -> _Ready:
        """The state in which the pod is placed on (or already bound to) the node."""
        context, request = self._context, self._request
        taken = 0
        while True:
            snapshot = context.present(self._left(context.budgets.state))
            pod = self._pod(snapshot)
            if pod.node == request.node:
                return _Ready(snapshot, bound=True)
            _refuse_bound(pod)
            standing = _standing(snapshot, request.uid)
            try:
                if standing is None:
                    self._fence()
                    return self._place(snapshot, pod)
                if standing.node != request.node:
                    self._supersede(standing)
                elif standing.made == self._void:
                    # Placed again, it is young again for the controller, which looks for old placements.
                    return self._append(snapshot, pod)
                elif self._awaited(standing):
                    return _Ready(snapshot, bound=True)
            except store_errors.Conflict:
                if context.monotonic() >= self._deadline:
                    raise
            except store_errors.CeilingReached as reached:
                # Another replica took the last place after our snapshot: the next one says so in the
                # plugin's own words. If it does not, the counts are wrong: no place is given away by them.
                taken += 1
                if taken >= _MOST_TAKEN:
                    telemetry.log.warning(
                        "a count differs from its log", count=reached.key, reached=str(reached)
                    )
                    raise errors.Refused(f"topolog: no room left on node {request.node}") from reached

    def _fence(self) -> None:
        """Make the pod's resourceVersion known: mostly kube-scheduler has just sent it with filter."""
        if not self._version:
            self._read()

    def _place(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> _Ready:
        trace = running.run_filter(self._context.plugins, self._cycle(snapshot, pod))
        if trace.refusals:
            raise errors.Refused(f"topolog: {trace.refusals[0].reason}", snapshot=snapshot, trace=trace)
        return self._append(snapshot, pod)

    def _append(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> _Ready:
        """The state after the placement was appended, for this call alone to bind."""
        context, request = self._context, self._request
        claim = running.claim(context.plugins, self._cycle(snapshot, pod), request.node)
        event = events.PodPlaced(
            pod=pod, node=request.node, at=context.now(), by=context.identity, resource_version=self._version
        )
        projection = projecting.Projection(snapshot)
        projection.apply(event)
        appended = context.log.append(
            logs.Batch(events=(event,), increments=projection.increments),
            _guard(snapshot, claim, projection),
            timeout=self._left(context.budgets.state),
        )
        made = model.Position(snapshot.position.incarnation, appended.first)
        context.met.since((request.uid, made), context.monotonic())
        after = projection.finish()
        if appended.first == snapshot.offset + 1:
            context.state.adopt(after, appended)
        else:
            # Others wrote in between: only the log knows what the placement follows on.
            after = context.state.catch_up(timeout=context.budgets.state)
        return _Ready(after, made, self._version)

    def _cycle(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> cycles.Cycle:
        nodes = frozenset((self._request.node,))
        return cycles.cycle(pod, nodes, snapshot, score_max=self._context.plugins.score_max)

    # -- placements that others made ---------------------------------------------------------

    def _over(self, standing: _Standing) -> bool:
        """Whether no Binding of the placement can be carried out any more, because of its age alone."""
        now = self._context.monotonic()
        return now - self._context.met.since((self._request.uid, standing.made), now) >= binding.UNFENCED

    def _awaited(self, standing: _Standing) -> bool:
        """Whether the pod is bound there by another call that may be about it right now.

        A second Binding beside the first would make the refusal of either no evidence that the place is
        free. False when the placement is gone, or void. Raises Refused or StateAway.
        """
        context, pause = self._context, _POLL
        while True:
            current = self._read()
            if current.pod.node == self._request.node:
                return True
            _refuse_bound(current.pod)
            if binding.outdates(standing.version, current.version) or self._over(standing):
                self._void = standing.made
                return False
            snapshot = context.state.catch_up(timeout=self._left(context.budgets.state))
            if snapshot.promise(self._request.uid) != standing.made:
                return False
            if context.monotonic() + pause >= self._deadline:
                raise errors.StateAway(
                    f"topolog: another call is binding the pod to node {standing.node};"
                    " it is not known yet what comes of it, try again"
                )
            context.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)

    def _supersede(self, standing: _Standing) -> None:
        """Release an earlier placement on another node, on the evidence of the API server.

        That it shows the pod unbound is evidence only if no Binding of that placement can be carried out any
        more; until then the place stays taken, or the pod could end up there uncounted. Raises Refused or
        StateAway.
        """
        current = self._read()
        bound = bool(current.pod.node)
        if current.pod.node != self._request.node:
            _refuse_bound(current.pod)
        void = bound or binding.outdates(standing.version, current.version) or self._over(standing)
        if not void:
            raise errors.StateAway(
                f"topolog: the pod was promised to node {standing.node} and may yet be bound there;"
                " nothing else was bound, try again"
            )
        # Not one made again meanwhile, perhaps for the same node: its Binding may be under way.
        released = releasing.release(
            self._context.state,
            self._context.log,
            self._request.uid,
            "superseded",
            f"placed anew; {standing.node} was never bound",
            promise=standing.made,
            timeout=_RELEASE,
        )
        if not released:
            raise errors.StateAway(f"topolog: the promise of node {standing.node} cannot be taken back yet")

    # -- the pod -----------------------------------------------------------------------------

    def _pod(self, snapshot: snapshots.Snapshot) -> model.Pod:
        """The pod as it is best known here; asks the API server if neither the log nor memory has it."""
        request = self._request
        known = snapshot.pod(request.uid)
        if known is None:
            recent = self._context.recents.get(request.uid)
            known = recent.pod if recent is not None else self._read().pod
        if (known.namespace, known.name) != (request.namespace, request.name):
            raise errors.Refused(
                f"topolog: uid {request.uid} belongs to {known.key}, not {request.namespace}/{request.name}"
            )
        return known

    def _read(self) -> binding.Current:
        """The pod now, and no other of its name. Raises Refused or KubeError."""
        request = self._request
        current = self._context.binder.get_pod(request.namespace, request.name, timeout=self._left(_READ))
        if current is None or current.pod.uid != request.uid:
            raise errors.Refused(
                f"topolog: pod {request.namespace}/{request.name} with uid {request.uid} is gone"
            )
        self._version = current.version
        return current

    def _left(self, most: float) -> float:
        return max(_LEAST, min(most, self._deadline - self._context.monotonic()))

    def _stateless(self) -> bool:
        """Whether the pod may be bound without a record: no plugin or policy has to do with it (ADR 0001)."""
        context = self._context
        if not context.state.caught_up:
            return False  # Which policies there are was never known here.
        snapshot = context.state.snapshot
        if snapshot.unlisted:
            return False  # Nor which there are again.
        pod = self._pod(snapshot)
        if context.plugins.concerned(pod, snapshot):
            return False
        policies = snapshot.policies_of(pod.namespace)
        node = snapshot.nodes.get(self._request.node)
        if node is None:
            # Which domain it is in is not known: whatever selects the pod may count it there.
            return not any(counting.selects(policy, pod) for policy in policies)
        return not any(True for _ in counting.contributions(pod, node, policies))


def _standing(snapshot: snapshots.Snapshot, uid: model.Uid) -> _Standing | None:
    made = snapshot.promise(uid)
    if made is None:
        return None
    placement = snapshot.placements[uid]
    return _Standing(placement.node, made, placement.resource_version)


def _refuse_bound(pod: model.Pod) -> None:
    if pod.node:
        raise errors.Refused(f"topolog: pod {pod.key} is already bound to node {pod.node}")


def _guard(
    snapshot: snapshots.Snapshot, claim: capabilities.Claim, projection: projecting.Projection
) -> logs.Guard:
    """What must still be true when the placement is appended."""
    return logs.Guard(
        incarnation=snapshot.position.incarnation,
        versions={subject: snapshot.version(subject) for subject in claim.subjects},
        # Only a count that the placement raises can break its ceiling.
        ceilings={key: top for key, top in claim.ceilings.items() if projection.increments.get(key, 0) > 0},
    )


def _grouped(context: contexts.Context, request: Request) -> bool:
    """Whether the pod, as far as it is known, belongs to a scheduling group."""
    recent = context.recents.get(request.uid)
    known = recent.pod if recent is not None else context.state.snapshot.pod(request.uid)
    return known is not None and bool(known.group)
