"""Ensures that a pod is placed on its node in the log before a Binding is sent.

The placement is appended under a guard, so that no other replica can give the same capacity away,
and names the pod's resourceVersion, which the Binding carries as its precondition. It also holds all else
that the Binding writes: a call that finds a placement takes that from the log, and asks no plugin
(decision 23), but for whether a placement without a Binding still holds for the pod.

The pod that is judged is the one whose version the Binding carries. The log counts the pod as it shows it, so
a pod that would count otherwise there is placed only when the log shows its change (decision 59).

A placement that another call made is released only on the evidence of the API server that its Binding can no
longer be carried out: the pod has another version than that Binding carries, or the placement is older than
any Binding can be (decision 8). One that the bind of another pod planned has no Binding yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from app import telemetry
from app.domain import events, model, projections, schema, snapshots, verdicts
from app.framework import cycles, plans
from app.kube import errors as kube_errors
from app.kube.writes import binding
from app.pauses import Pauses
from app.store import errors as store_errors
from app.store.log import batches
from app.verbs import contexts, errors, nominations, placement_releases
from app.verbs.memory import latest_pods

MIN_LEFT = 0.1
"""Seconds that each step gets at least, and without which no Binding is sent."""
_RELEASE, _READ = 0.6, 2.0
"""Seconds for releasing a placement and for reading a pod, at most."""
_SPARE = 0.2
"""Seconds after the limit for catching up with the log until a bind without the store has its error (P12)."""
_MAX_CEILINGS = 5
"""Appends refused at a ceiling that our snapshot shows as free, before the count is taken to be wrong."""
_POLL, _MAX_POLL = 0.05, 0.8
"""Seconds between the first two reads of a pod that is waited for, and at most."""
_BEHIND = 1.0
"""Seconds for which a bind waits until the log shows the pod as it is. A recorder needs milliseconds; while
there is none, a longer wait would only take the thread from other calls."""


@dataclass(frozen=True, slots=True)
class BindRequest:
    """The request of kube-scheduler: this pod, by uid, on this node."""

    namespace: str
    name: str
    uid: model.Uid
    node: model.NodeName


@dataclass(frozen=True, slots=True)
class Placed:
    """The state in which a Binding may be sent."""

    snapshot: snapshots.Snapshot
    own: model.Position | None = None
    """The position of the placement that this call made; None if the pod needs none."""
    placement: model.Placement | None = None
    """That placement: its Binding carries the annotations and the labels that it names."""
    version: str = ""
    """The resourceVersion of the pod that was judged, which the Binding requires; the placement names it."""
    bound: bool = False
    """The pod is known to be bound to the node already."""


class _Existing(NamedTuple):
    """A placement that was in the log before."""

    position: model.Position
    placement: model.Placement


class Placer:
    """The placement of one call of bind."""

    def __init__(self, context: contexts.Context, request: BindRequest, deadline: float) -> None:
        """``deadline``: in seconds of the context's monotonic clock."""
        self._context = context
        self._request = request
        self._deadline = deadline
        self._latest = latest_pods.LatestPod(
            context.binder, context.memo.get(request.uid), request.namespace, request.name, request.uid
        )
        self._void: model.Position | None = None
        """A placement on the node whose Binding can no longer be carried out."""
        self._away: store_errors.StoreError | None = None
        """Why the store does not answer this call, which waits for it only once."""
        self._behind_since: float | None = None
        """Since when this call has waited for the log to show the pod as it is; None if it has not."""

    def ensure_placed(self) -> Placed:
        """The state in which the pod may be bound to the node. Raises Refused or StateAway."""
        try:
            if self._away is None:
                try:
                    return self._find_or_place()
                except (errors.VerbError, kube_errors.KubeError, store_errors.Conflict):
                    self._release_void()
                    raise
                except store_errors.StoreError as away:
                    self._away = away
            return self._without_store(self._away)
        except store_errors.Conflict as conflict:
            text = "too many pods are placed at the same moment; nothing was bound, try again"
            raise errors.StateAway(f"topolog: {text}") from conflict
        except kube_errors.KubeError as problem:
            text = f"the pod cannot be read from the API server ({problem}); nothing was bound"
            raise errors.StateAway(f"topolog: {text}") from problem

    def place_again(self, former: Placed, current: binding.Current) -> None:
        """Have the next ``ensure_placed`` place the pod again, as it is now: it has another version.

        The version that the next Binding carries has to be in the log before it is sent.
        """
        self._void = former.own
        self._latest.renew(current)

    def release(self, placed: Placed, reason: str) -> None:
        """Release the placement of this call: each of its Bindings was refused, or none was sent."""
        if placed.own is not None:
            self._release("refused", reason, placed.own)

    # -- placing -----------------------------------------------------------------------------

    def _find_or_place(self) -> Placed:
        """The state in which the pod is placed on the node, or already bound to it."""
        context, request = self._context, self._request
        ceilings = 0
        while True:
            snapshot = context.present(self._left(context.time_limits.state))
            known = snapshot.pod(request.uid)
            if known is not None:
                self._latest.check(known)
                if known.node == request.node:
                    return Placed(snapshot, bound=True)
                latest_pods.refuse_bound(known)
            existing = _existing(snapshot, request.uid)
            try:
                if existing is None or self._without_binding(existing):
                    placed = self._place_unless_bound(snapshot, existing)
                    if placed is not None:
                        return placed
                elif existing.placement.node != request.node:
                    self._resolve_stale(existing)
                elif self._await_other_call(existing):
                    return Placed(snapshot, bound=True)
            except errors.Refused:
                # kube-scheduler may have sent a later version of the pod to another process.
                if self._latest.confirmed(self._left(_READ)):
                    raise
            except store_errors.Conflict:
                if context.monotonic() >= self._deadline:
                    raise
            except store_errors.CeilingReached as reached:
                # Another replica reached the ceiling after our snapshot; with the next snapshot the plugin
                # refuses in its own words. If it does not, the count is wrong: place nothing by it.
                ceilings += 1
                if ceilings >= _MAX_CEILINGS:
                    telemetry.log.warning(
                        "a count differs from its log", count=reached.key, reached=str(reached)
                    )
                    raise errors.Refused(f"topolog: no capacity left on node {request.node}") from reached

    def _place_unless_bound(self, snapshot: snapshots.Snapshot, existing: _Existing | None) -> Placed | None:
        """Place the pod, of which no Binding is under way; None if the state has to be read again first.

        Raises Refused, StateAway, StoreError or KubeError.
        """
        context, request = self._context, self._request
        seen = self._latest.judged(snapshot, self._left(_READ))
        if seen.pod.node == request.node and snapshot.pod(request.uid) is None:
            return Placed(snapshot, bound=True)
        latest_pods.refuse_bound(seen.pod, but=request.node)
        seen = seen.unbound()
        outdated = bool(existing and context.plugins.outdated(snapshot.schema, seen.pod, existing.placement))
        if outdated and not self._latest.confirmed(self._left(_READ)):
            return None
        if not latest_pods.shown(snapshot, seen.pod, request.node):
            self._await_log()
        elif existing is None:
            return self._commit(snapshot, self._judged(snapshot, seen.pod), seen.version)
        elif existing.placement.node != request.node:
            # The plan relies on it: it goes only where the pod can be placed instead.
            self._judged(snapshot, seen.pod, outdated=outdated)
            self._resolve_stale(existing)
        elif outdated:
            # In one append: between two, another pod could take what a gang needs.
            return self._commit(snapshot, self._judged(snapshot, seen.pod, outdated=True), seen.version)
        else:
            # A later position: the controller, which fences old placements, counts its age from now.
            return self._place_again(snapshot, seen, existing.placement)
        return None

    def _judged(
        self, snapshot: snapshots.Snapshot, pod: model.Pod, *, outdated: bool = False
    ) -> plans.Commitment:
        """What the plugins reserve on the node; ``outdated``: not as its placement has it. Raises Refused."""
        plugins, cycle = self._context.plugins, self._cycle(snapshot, pod)
        cycle = replace(cycle, reserved="") if outdated else cycle
        try:
            made = nominations.in_bind(plugins, cycle, self._request.node)
        except (plans.InvalidPlan, cycles.HookFailed) as failed:
            telemetry.fault("bind", pod.key, failed)
            raise errors.Refused(f"topolog: {failed}; nothing was bound") from failed
        if isinstance(made, verdicts.Trace):
            raise errors.Refused(f"topolog: {made.refusals[0].reason}", snapshot=snapshot, trace=made)
        return made

    def _place_again(
        self, snapshot: snapshots.Snapshot, seen: latest_pods.Version, placement: model.Placement
    ) -> Placed:
        """Commit a placement of the log for the pod's present version, with all that was decided for it.

        No plugin is asked: the pod counts on the node already.
        """
        again = msgspec.structs.replace(placement, pod=seen.pod, at="", offset=0, planned=False)
        subjects = (*snapshot.schema.footprint(seen.pod, placement.node), events.RUN)
        return self._commit(snapshot, plans.Commitment((again,), subjects, {}), seen.version)

    def _commit(self, snapshot: snapshots.Snapshot, made: plans.Commitment, version: str) -> Placed:
        """The state after the placements were appended; only this call may bind the first one."""
        context, request = self._context, self._request
        own = msgspec.structs.replace(made.placements[0], resource_version=version)
        event = events.PlacementsCommitted(
            placements=(own, *made.placements[1:]),
            at=context.now(),
            by=context.identity,
            claims=made.claims,
        )
        projection = projections.Projection(snapshot)
        projection.apply(event)
        appended = context.log.append(
            batches.Batch(events=(event,), increments=projection.increments),
            _guard(snapshot, made.subjects, made.ceilings, projection),
            timeout=self._left(context.time_limits.state),
        )
        position = model.Position(snapshot.position.incarnation, appended.first)
        context.ages.since((request.uid, position), context.monotonic())
        after = projection.finish()
        if appended.first == snapshot.offset + 1:
            context.state.apply_own_append(after, appended)
        else:
            # Others appended in between: read the log to learn which state the placement follows.
            expected, after = after, context.state.catch_up(timeout=context.time_limits.state)
            if len(made.placements) > 1 and placement_releases.released_if_crowded(
                context.log, expected, after, event, appended.first, timeout=_RELEASE
            ):
                raise store_errors.Conflict(tuple(sorted({one.node for one in made.placements})))
        return Placed(after, position, own, version)

    def _cycle(self, snapshot: snapshots.Snapshot, pod: model.Pod) -> cycles.Cycle:
        nodes = frozenset((self._request.node,))
        return cycles.cycle(pod, nodes, snapshot, score_max=self._context.plugins.score_max)

    # -- placements of other calls -----------------------------------------------------------

    def _await_other_call(self, existing: _Existing) -> bool:
        """Whether another call, which may be binding the pod to the node right now, has bound it.

        With a second Binding beside the first, the refusal of either would be no evidence that the capacity
        is free. False when the placement is gone, or void. Raises Refused or StateAway.
        """
        context, pauses = self._context, Pauses(_POLL, _MAX_POLL)
        while True:
            current = self._latest.read(self._left(_READ))
            if current.pod.node == self._request.node:
                if not binding.carries(current, existing.placement.annotations):
                    raise errors.Refused(f"topolog: {binding.by_other(current.pod)}")
                return True
            latest_pods.refuse_bound(current.pod)
            if self._is_void(existing, current):
                self._void = existing.position
                return False
            snapshot = context.state.catch_up(timeout=self._left(context.time_limits.state))
            if snapshot.placement_position(self._request.uid) != existing.position:
                return False
            if context.monotonic() + pauses.following >= self._deadline:
                raise errors.StateAway(
                    f"topolog: another call is binding the pod to node {existing.placement.node};"
                    " its outcome is not known yet, try again"
                )
            context.sleep(pauses.take())

    def _without_binding(self, existing: _Existing) -> bool:
        """Whether no Binding of the placement can be under way: none was sent yet, or it is void."""
        return existing.placement.planned or existing.position == self._void

    def _resolve_stale(self, existing: _Existing) -> None:
        """Release an earlier placement on another node, on the evidence of the API server.

        An unbound pod is evidence only if no Binding of that placement can still be carried out; until
        then the placement stays, or the pod could end up there uncounted. Raises Refused or StateAway.
        """
        current = self._latest.read(self._left(_READ))
        latest_pods.refuse_bound(current.pod, but=self._request.node)
        void = bool(current.pod.node) or self._is_void(existing, current)
        if not void:
            raise errors.StateAway(
                f"topolog: the pod is placed on node {existing.placement.node} and may still be bound there;"
                " nothing else was bound, try again"
            )
        # By position: a later placement, perhaps on the same node, may have its Binding under way.
        outdated = self._context.plugins.outdated_by_plugin(current.pod, existing.placement)
        reason = outdated or f"placed again; {existing.placement.node} was never bound"
        if not self._release("unbound" if outdated else "superseded", reason, existing.position):
            raise errors.StateAway(
                f"topolog: the placement on node {existing.placement.node} cannot be released yet, try again"
            )

    def _is_void(self, existing: _Existing, current: binding.Current) -> bool:
        """Whether no Binding of the placement can be carried out: there is none, or it is outdated or old."""
        if existing.placement.planned or binding.outdates(
            existing.placement.resource_version, current.version
        ):
            return True
        now = self._context.monotonic()
        return now - self._context.ages.since((self._request.uid, existing.position), now) >= binding.UNFENCED

    def _release_void(self) -> None:
        """Release the placement whose Binding can no longer be carried out: this call will not replace it."""
        snapshot = self._context.state.snapshot
        existing = _existing(snapshot, self._request.uid)
        if existing is None or existing.position != self._void:
            return
        pod = self._latest.get(MIN_LEFT).pod
        if not pod.node:
            reason = self._context.plugins.outdated(snapshot.schema, pod, existing.placement)
            self._release("unbound", reason or "its Binding was refused", existing.position)

    def _release(self, cause: events.Cause, reason: str, placement: model.Position) -> bool:
        state, log, uid = self._context.state, self._context.log, self._request.uid
        return placement_releases.release(
            state, log, uid, cause, reason, placement=placement, timeout=_RELEASE
        )

    # -- the pod -----------------------------------------------------------------------------

    def _await_log(self) -> None:
        """Give the log time to show the pod, and read it then. Raises Refused, StateAway or KubeError."""
        context, now = self._context, self._context.monotonic()
        since = self._behind_since = now if self._behind_since is None else self._behind_since
        pause = max(_POLL, now - since)
        if now + pause >= min(since + _BEHIND, self._deadline - MIN_LEFT):
            text = "the log does not show the pod as it is yet; nothing was bound, try again"
            raise errors.StateAway(f"topolog: {text}")
        context.sleep(pause)
        # It may have changed back, which the log need not show.
        self._latest.read(self._left(_READ))

    def _left(self, most: float) -> float:
        return max(MIN_LEFT, min(most, self._deadline - self._context.monotonic()))

    def _without_store(self, away: store_errors.StoreError) -> Placed:
        """The state in which the pod may be bound without a placement, as it concerns nothing (decision 1).

        Raises Refused, StateAway or KubeError.
        """
        context = self._context
        snapshot = context.last_known()
        if snapshot is not None:
            limits = context.time_limits
            error_by = self._deadline - limits.bind + limits.state + _SPARE
            seen = self._latest.get(max(MIN_LEFT, error_by - context.monotonic()))
            latest_pods.refuse_bound(seen.pod, but=self._request.node)
            known = snapshot.pod(self._request.uid)
            # What the log shows may be the later one: kube-scheduler sends what it has observed.
            each = (seen.pod,) if known is None else (seen.pod, known)
            if all(context.needs_no_record(snapshot, one, self._request.node) for one in each):
                return Placed(context.state.snapshot, version=seen.version)
        raise errors.StateAway(f"topolog: {store_errors.obstacle(away)}; nothing was bound") from away


def _existing(snapshot: snapshots.Snapshot, uid: model.Uid) -> _Existing | None:
    position = snapshot.placement_position(uid)
    return _Existing(position, snapshot.placements[uid]) if position is not None else None


def _guard(
    snapshot: snapshots.Snapshot,
    subjects: Sequence[str],
    ceilings: Mapping[schema.CountKey, int],
    projection: projections.Projection,
) -> batches.Guard:
    """What must still be true when the placements are appended."""
    return batches.Guard(
        incarnation=snapshot.position.incarnation,
        versions={subject: snapshot.version(subject) for subject in subjects},
        # Only a count that the placements raise can exceed its ceiling.
        ceilings={key: top for key, top in ceilings.items() if projection.increments.get(key, 0) > 0},
    )
