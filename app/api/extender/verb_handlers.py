"""Answers the scheduler's verbs over HTTP: decodes the call, runs the verb, reports, encodes the reply.

kube-scheduler shows the ``Error`` of a reply with status 200, and of any other status only the number: errors
of verbs are sent with 200. A 4xx is for requests that kube-scheduler never sends.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import msgspec

from app import telemetry
from app.api.extender import calls, replies, strict_json
from app.domain import model, snapshots
from app.kube import errors as kube_errors
from app.kube.objects import decoding
from app.verbs import (
    binding,
    candidates,
    contexts,
    decision_reports,
    errors,
    filtering,
    placer,
    preempting,
    prioritizing,
)
from app.verbs.memory import pod_memo

FILTERS = frozenset(("filter", "filter_onlyone"))
ROUTES = {f"{prefix}/{verb}": verb for prefix in ("", "/api") for verb in telemetry.metrics.VERBS}
"""Path -> verb; each verb is also mounted below /api/ (a prefix that some configurations have)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A status, and JSON."""

    status: int
    body: bytes
    shown: snapshots.Snapshot | None = None
    """The state that was decided on; None without a decision."""


class Clock(Protocol):
    """Monotonic seconds."""

    def __call__(self) -> float:
        """Now."""
        ...


class Prefetching(Protocol):
    """Requests the state in advance (app.store.state.followers.Follower)."""

    def request(self) -> int:
        """Send the request; returns the ticket for ``prefetch``."""
        ...

    def prefetch(self, ticket: int | None = None) -> AbstractContextManager[None]:
        """Use the requested state for the call that is answered in the block."""
        ...


class Extender:
    """Answers the verbs; one per process, used by all its threads."""

    def __init__(
        self,
        context: contexts.Context,
        monotonic: Clock,
        state: Prefetching | None = None,
    ) -> None:
        """``state``: requested in advance of filter calls; None to request it only when it is needed."""
        self._context = context
        self._monotonic = monotonic
        self._state = state
        self._about_nodes: dict[str, Callable[[calls.Call, float], Reply]] = {
            "filter": lambda call, began: self._filter(call, began, single=False),
            "filter_onlyone": lambda call, began: self._filter(call, began, single=True),
            "prioritize": self._prioritize,
            "priority": self._prioritize,
        }

    def request(self, verb: str) -> int | None:
        """Request the state for a call whose body is still to arrive. Never waits."""
        # prioritize usually reuses the state of filter.
        return self._state.request() if self._state is not None and verb in FILTERS else None

    def prefetch(self, ticket: int | None) -> AbstractContextManager[None]:
        """The block in which a call is answered; ``ticket``: the result of ``request``."""
        if self._state is None or ticket is None:
            return nullcontext()
        return self._state.prefetch(ticket)

    def answer(self, verb: str, body: bytes, *, names_limit: int) -> Reply:
        """The reply to one call; never raises because of the request."""
        began = self._monotonic()
        try:
            if verb == "bind":
                return self._bind(body, began)
            everywhere = self._context.state.snapshot.topology.everywhere
            call = calls.preempt_call(body, everywhere) if verb == "preempt" else calls.call(body)
            if not call.whole and len(body) > names_limit:
                text = f"a call with node names has at most {names_limit} bytes"
                return problem(413, "BodyTooLarge", text)
            if isinstance(call, calls.PreemptCall):
                return self._preempt(call, began)
            return self._about_nodes[verb](call, began)
        except (strict_json.BadRequest, kube_errors.Oversized) as error:
            telemetry.rejected(verb, str(error))
            return problem(400, "BadRequest", str(error))

    def headers(self, reply: Reply) -> tuple[tuple[str, str], ...]:
        """The position of the reply's state, and the seconds since that was known to be the head."""
        shown = reply.shown or self._context.state.snapshot
        return (
            ("X-Topolog-Position", str(shown.position)),
            ("X-Topolog-Age", f"{max(0.0, self._context.state.lag_seconds):.3f}"),
        )

    # -- verbs -----------------------------------------------------------------------------

    def _filter(self, call: calls.Call, began: float, *, single: bool) -> Reply:
        verb = "filter_onlyone" if single else "filter"
        if call.names is None and call.nodes is None:
            text = "topolog: the request names no nodes: neither NodeNames nor Nodes"
            return Reply(200, replies.filter_error(text))
        try:
            pod, offered = self._read(call)
        except kube_errors.Oversized as large:
            failed = decision_reports.failed(_named(call.pod), candidates.Candidates(()), f"topolog: {large}")
            return self._reported(verb, failed, replies.filter_error(failed.error), began)
        run = filtering.run_only_one if single else filtering.run
        try:
            answer = run(self._context, pod, offered)
        except errors.VerbError as error:
            failed = decision_reports.failed(pod, offered, str(error))
            return self._reported(verb, failed, replies.filter_error(str(error)), began)
        except Exception as fault:
            telemetry.fault(verb, pod.key, fault)
            text = f"topolog: internal fault ({type(fault).__name__}); nothing was decided"
            return Reply(200, replies.filter_error(text))
        keep = None if not answer.single else [answer.only] if answer.only is not None else []
        kept = None
        if call.names is not None and keep is None:
            kept = replies.kept_names(offered, answer.trace)
            self._context.memo.keep(pod, offered, kept)
        reply = replies.filter_reply(call, offered, answer.trace, keep, kept)
        return self._reported(verb, decision_reports.filtered(answer, offered), reply, began)

    def _prioritize(self, call: calls.Call, began: float) -> Reply:
        if call.names is None and call.nodes is None:
            return Reply(200, b"[]")
        pod, offered = self._read(call)
        try:
            answer = prioritizing.run(self._context, pod, offered)
        except Exception as fault:
            # Without a score for every node, kube-scheduler prefers the first one (extender contract, 6).
            telemetry.fault("prioritize", pod.key, fault)
            return Reply(200, replies.priority_reply(offered, {}))
        reply = replies.priority_reply(offered, answer.trace.totals)
        return self._reported("prioritize", decision_reports.scored(answer, offered), reply, began)

    def _bind(self, body: bytes, began: float) -> Reply:
        call = calls.bind_call(body)
        request = placer.BindRequest(namespace=call.namespace, name=call.name, uid=call.uid, node=call.node)
        try:
            bound = binding.run(self._context, request)
        except errors.VerbError as refused:
            unbound = decision_reports.unbound(request, self._context, refused)
            return self._reported("bind", unbound, replies.bind_reply(str(refused)), began)
        except Exception as fault:
            # An empty or missing reply would count as success or strand the pod (extender contract, 8).
            telemetry.fault("bind", f"{request.namespace}/{request.name}", fault)
            text = f"topolog: internal fault ({type(fault).__name__}); nothing is known to be bound"
            return Reply(200, replies.bind_reply(text))
        return self._reported("bind", decision_reports.bound(bound), replies.bind_reply(), began)

    def _preempt(self, call: calls.PreemptCall, began: float) -> Reply:
        pod = self._pod_of(call.pod).pod
        try:
            answer = preempting.run(self._context, pod, call.victims)
        except Exception as fault:
            # A failing preempt parks the pod for minutes, a wrong one evicts in vain (extender contract, 10).
            telemetry.fault("preempt", pod.key, fault)
            return Reply(200, replies.preempt_reply(call, {}))
        reply = replies.preempt_reply(call, answer.kept)
        return self._reported("preempt", decision_reports.preempted(pod, answer, call.victims), reply, began)

    # -- reading ---------------------------------------------------------------------------

    def _read(self, call: calls.Call) -> tuple[model.Pod, candidates.Candidates]:
        """The pod and the candidates; JSON that equals that of a recent call is not decoded again."""
        recent = self._pod_of(call.pod)
        names, everywhere = call.names, self._context.state.snapshot.topology.everywhere
        if names is None:
            return recent.pod, calls.nodes_of(call.nodes or b"{}", everywhere)
        offered = self._context.memo.candidates_for(recent, names, lambda: calls.names_of(names, everywhere))
        return recent.pod, offered

    def _pod_of(self, raw: bytes) -> pod_memo.RecentPod:
        """The pod of a request. Raises BadRequest and Oversized."""
        if not raw:
            raise strict_json.BadRequest("Pod is missing")
        return self._context.memo.pod_for(raw, _decoded)

    # -- reporting -------------------------------------------------------------------------

    def _reported(self, verb: str, decided: decision_reports.Decided, body: bytes, began: float) -> Reply:
        """The reply, after one log line, the metrics, and the decision record."""
        decision_reports.report(self._context, verb, decided, self._monotonic() - began)
        return Reply(200, body, decided.snapshot)


def _decoded(raw: bytes) -> pod_memo.RecentPod:
    """A pod that was not sent in this form before. Raises BadRequest and Oversized."""
    strict_json.check(raw)
    try:
        pod, version = decoding.pod_seen(raw)
    except kube_errors.Oversized:
        raise
    except kube_errors.Undecodable as error:
        raise strict_json.BadRequest(f"Pod: {error}") from error
    if not pod.uid or not pod.name or not pod.namespace:
        raise strict_json.BadRequest(
            "Pod: metadata.name, metadata.namespace and metadata.uid must not be empty"
        )
    return pod_memo.RecentPod(spelled=raw, pod=pod, version=version)


def _named(raw: bytes) -> model.Pod:
    """The identity of a pod that is too large to decode."""
    namespace, name, uid = decoding.identity(raw)
    return model.Pod(uid=uid, namespace=namespace, name=name)


def problem(status: int, code: str, message: str) -> Reply:
    """An error of the HTTP surface."""
    return Reply(status, msgspec.json.encode({"message": message, "reasonCode": code}))
