"""The scheduler's verbs over HTTP: decode, ask the verb, record, encode.

kube-scheduler shows a reply's ``Error`` to people but of any other status only the number, so what
it must know is said with 200; a 4xx is for requests that kube-scheduler never sends.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import msgspec

from app import telemetry
from app.api import calls, replies, strictness
from app.domain import model, snapshots
from app.kube import decoding
from app.kube import errors as kube_errors
from app.verbs import (
    binding,
    candidates,
    contexts,
    errors,
    filtering,
    preempting,
    prioritizing,
    reporting,
)

VERBS = ("filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt")
FILTERS = frozenset(("filter", "filter_onlyone"))
ROUTES = {f"{prefix}/{verb}": verb for prefix in ("", "/api") for verb in VERBS}
"""Path -> verb: each verb also under /api/ (seed 000 configures that prefix)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: a status, and JSON."""

    status: int
    body: bytes
    shown: snapshots.Snapshot | None = None
    """What was decided on; None if nothing was decided."""


class Clock(Protocol):
    """Monotonic seconds."""

    def __call__(self) -> float:
        """Now."""
        ...


class Asking(Protocol):
    """Has the state asked for in advance (store.following.Follower)."""

    def ask(self) -> int:
        """Ask for it; returns what ``asked`` is given."""
        ...

    def asked(self, came: int | None = None) -> AbstractContextManager[None]:
        """While the call is answered that it was asked for."""
        ...


class Extender:
    """Answers the verbs; one per process, used by all its threads."""

    def __init__(
        self,
        context: contexts.Context,
        monotonic: Clock,
        state: Asking | None = None,
    ) -> None:
        """``state`` is asked in advance, if it is given."""
        self._context = context
        self._monotonic = monotonic
        self._state = state
        self._about_nodes: dict[str, Callable[[calls.Call, float], Reply]] = {
            "filter": lambda asked, began: self._filter(asked, began, single=False),
            "filter_onlyone": lambda asked, began: self._filter(asked, began, single=True),
            "prioritize": self._prioritize,
            "priority": self._prioritize,
        }
        self._others: dict[str, Callable[[bytes, float], Reply]] = {
            "bind": self._bind,
            "preempt": self._preempt,
        }

    def ask(self, verb: str) -> int | None:
        """Have the state asked for that a call will need whose body is still to come. Never waits."""
        # prioritize has its state from filter, mostly.
        return self._state.ask() if self._state is not None and verb in FILTERS else None

    def asked(self, came: int | None) -> AbstractContextManager[None]:
        """While a call is answered: ``came`` is what ``ask`` returned for it."""
        return self._state.asked(came) if self._state is not None and came is not None else nullcontext()

    def answer(self, verb: str, body: bytes, *, names_limit: int) -> Reply:
        """The reply to one call; never raises for anything that the caller sent."""
        began = self._monotonic()
        try:
            if verb in self._others:
                return self._others[verb](body, began)
            asked = calls.call(body)
            if asked.nodes is None and len(body) > names_limit:
                text = f"a call with node names has at most {names_limit} bytes"
                return problem(413, "BodyTooLarge", text)
            return self._about_nodes[verb](asked, began)
        except (strictness.BadRequest, kube_errors.Oversized) as error:
            telemetry.rejected(verb, str(error))
            return problem(400, "BadRequest", str(error))

    def headers(self, reply: Reply) -> tuple[tuple[str, str], ...]:
        """Which position the reply was taken at, and how many seconds ago that was known to be the head."""
        shown = reply.shown or self._context.state.snapshot
        return (
            ("X-Topolog-Position", str(shown.position)),
            ("X-Topolog-Age", f"{max(0.0, self._context.state.lag_seconds):.3f}"),
        )

    # -- verbs -----------------------------------------------------------------------------

    def _filter(self, asked: calls.Call, began: float, *, single: bool) -> Reply:
        verb = "filter_onlyone" if single else "filter"
        if asked.names is None and asked.nodes is None:
            text = "topolog: the request names no nodes: neither NodeNames nor Nodes"
            return Reply(200, replies.filter_error(text))
        try:
            pod, offered = self._read(asked)
        except kube_errors.Oversized as large:
            failed = reporting.failed(_named(asked.pod), candidates.Candidates(()), f"topolog: {large}")
            return self._told(verb, failed, replies.filter_error(failed.error), began)
        run = filtering.run_only_one if single else filtering.run
        try:
            answer = run(self._context, pod, offered)
        except errors.StateAway as away:
            failed = reporting.failed(pod, offered, str(away))
            return self._told(verb, failed, replies.filter_error(str(away)), began)
        except Exception as fault:
            telemetry.fault(verb, pod.key, fault)
            text = f"topolog: internal fault ({type(fault).__name__}); nothing was decided"
            return Reply(200, replies.filter_error(text))
        keep = None if not answer.single else [answer.only] if answer.only is not None else []
        kept = None
        if asked.names is not None and keep is None:
            kept = replies.told(offered, answer.trace)
            self._context.recents.tell(pod, offered, kept)
        reply = replies.filter_reply(asked, offered, answer.trace, keep, kept)
        return self._told(verb, reporting.filtered(answer, offered), reply, began)

    def _prioritize(self, asked: calls.Call, began: float) -> Reply:
        if asked.names is None and asked.nodes is None:
            return Reply(200, b"[]")
        pod, offered = self._read(asked)
        try:
            answer = prioritizing.run(self._context, pod, offered)
        except Exception as fault:
            # Without a score for each, kube-scheduler would send pod after pod to the first node (C8).
            telemetry.fault("prioritize", pod.key, fault)
            return Reply(200, replies.priority_reply(offered, {}))
        reply = replies.priority_reply(offered, answer.trace.totals)
        return self._told("prioritize", reporting.scored(answer, offered), reply, began)

    def _bind(self, body: bytes, began: float) -> Reply:
        asked = calls.bind_call(body)
        request = binding.Request(namespace=asked.namespace, name=asked.name, uid=asked.uid, node=asked.node)
        try:
            bound = binding.run(self._context, request)
        except errors.VerbError as refused:
            unbound = reporting.unbound(request, self._context, refused)
            return self._told("bind", unbound, replies.bind_reply(str(refused)), began)
        except Exception as fault:
            # An empty or missing reply would be taken for success or strand the pod (C10): say so, always.
            telemetry.fault("bind", f"{request.namespace}/{request.name}", fault)
            text = f"topolog: internal fault ({type(fault).__name__}); nothing is known to be bound"
            return Reply(200, replies.bind_reply(text))
        return self._told("bind", reporting.bound(bound), replies.bind_reply(), began)

    def _preempt(self, body: bytes, began: float) -> Reply:
        asked = calls.preempt_call(body)
        pod = self._recent(asked.pod).pod
        try:
            answer = preempting.run(self._context, pod, asked.victims)
        except Exception as fault:
            # A failing preempt parks the pod for minutes (C6), a bad one evicts for nothing (N3).
            telemetry.fault("preempt", pod.key, fault)
            return Reply(200, replies.preempt_reply(asked, ()))
        reply = replies.preempt_reply(asked, answer.kept)
        return self._told("preempt", reporting.preempted(pod, answer, asked.victims), reply, began)

    # -- reading ---------------------------------------------------------------------------

    def _read(self, asked: calls.Call) -> tuple[model.Pod, candidates.Candidates]:
        """The pod and the candidates; what is spelled as a moment ago is not read again."""
        recent = self._recent(asked.pod)
        if asked.names is None:
            everywhere = self._context.state.snapshot.topology.everywhere
            return recent.pod, calls.nodes_of(asked.nodes or b"{}", everywhere)
        for known in (recent.offered, recent.told):
            if known is not None and known.spelled == asked.names:
                return recent.pod, known
        offered = calls.names_of(asked.names, self._context.state.snapshot.topology.everywhere)
        self._context.recents.hold(recent, offered)
        return recent.pod, offered

    def _recent(self, raw: bytes) -> contexts.Recent:
        if not raw:
            raise strictness.BadRequest("Pod is missing")
        known = self._context.recents.spelled(raw)
        if known is not None:
            return known
        strictness.check(raw)
        try:
            pod, version = decoding.pod_seen(raw)
        except kube_errors.Oversized:
            raise
        except kube_errors.Undecodable as error:
            raise strictness.BadRequest(f"Pod: {error}") from error
        if not pod.uid or not pod.name or not pod.namespace:
            raise strictness.BadRequest(
                "Pod: metadata.name, metadata.namespace and metadata.uid must not be empty"
            )
        recent = contexts.Recent(spelled=raw, pod=pod, version=version)
        self._context.recents.put(recent)
        return recent

    # -- reporting -------------------------------------------------------------------------

    def _told(self, verb: str, decided: reporting.Decided, body: bytes, began: float) -> Reply:
        """The reply, after one log line, the metrics, and the decision record."""
        reporting.report(self._context, verb, decided, self._monotonic() - began)
        return Reply(200, body, decided.snapshot)


def _named(raw: bytes) -> model.Pod:
    """What a pod that is too large is known by."""
    namespace, name, uid = decoding.identity(raw)
    return model.Pod(uid=uid, namespace=namespace, name=name)


def problem(status: int, code: str, message: str) -> Reply:
    """An error of the HTTP surface (design/api.md)."""
    return Reply(status, msgspec.json.encode({"message": message, "reasonCode": code}))
