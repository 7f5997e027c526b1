"""Derives from the log how kube-scheduler is configured: S02, S03, S04 and S07.

A configuration may not be the one in force; calls, and where pods went, show what is. Of facts that
contradict one another the latest counts: kube-scheduler may have been restarted in between.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app import clocks, plurals
from app.doctor.scheduler import catalog, entry_checks
from app.framework import doctor_checks

BACKOFF: Final = 1.0
"""Seconds for which kube-scheduler does not retry after an error (docs/design/extender-contract.md, 2)."""
NEARLY: Final = 0.98
"""Share of the nodes that counts as all of them: the log lags behind kube-scheduler's own cache by some."""
_DECIDING: Final = (*entry_checks.FILTERS, "bind")
_CARRYING: Final = (*entry_checks.FILTERS, *entry_checks.PRIORITIES)
_AWAY: Final = "another configuration is in force: another file, or one that was changed since the start"
_LATER: Final = "it takes effect when kube-scheduler starts again"


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call of kube-scheduler."""

    at: float
    """Seconds since 1970, as all times here."""
    verb: str
    outcome: str
    pod: str
    """NAMESPACE/NAME."""
    uid: str
    scheduler: str
    """spec.schedulerName; empty if it was not recorded."""
    offered: int
    """Nodes of the call."""
    whole: bool | None
    """It carried whole nodes, and not their names; None if that was not recorded."""


@dataclass(frozen=True, slots=True)
class Bypass:
    """A pod that was bound, and that no bind of Topolog had placed."""

    pod: str
    uid: str
    scheduler: str
    created: float
    at: float
    """When it was seen bound."""
    node: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes of a filter call, compared with those that were there."""

    at: float
    pod: str
    scheduler: str
    offered: int
    fitting: int
    """Nodes that the pod fits on by the rules of kube-scheduler that Topolog applies."""
    exact: bool
    """The pod is subject to no other rule of kube-scheduler."""
    nodes: int
    """Nodes of the cluster at that time."""


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """The facts, each kind oldest first."""

    calls: tuple[Call, ...] = ()
    bypasses: tuple[Bypass, ...] = ()
    offers: tuple[Offer, ...] = ()
    nodes: int | None = None
    """Of the cluster now; None if they were not seen."""

    def of(self, names: Collection[str], since: float = 0.0) -> "LogEvidence":
        """What concerns pods of these schedulerNames, from a time on."""
        return LogEvidence(
            tuple(one for one in self.calls if one.scheduler in names and one.at >= since),
            # One that was created before has been filtered before, perhaps by another process.
            tuple(one for one in self.bypasses if one.scheduler in names and one.created >= since),
            tuple(one for one in self.offers if one.scheduler in names and one.at >= since),
            self.nodes,
        )

    def names(self) -> list[str]:
        """The schedulerNames of the pods that calls are about."""
        return sorted({one.scheduler for one in self.calls if one.scheduler})

    def of_sent(self) -> "LogEvidence":
        """The evidence without pods that no call is about: some pods need no call."""
        called = {one.uid for one in self.calls}
        return dataclasses.replace(self, bypasses=tuple(one for one in self.bypasses if one.uid in called))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What facts show of one check."""

    holds: bool
    """Whether what has to be so is so."""
    at: float
    seen: str


def sampled(log: LogEvidence) -> Evidence | None:
    """S02: whether a call offered fewer nodes than the pod fits on; None if no call shows it."""
    if log.nodes is not None and log.nodes <= entry_checks.SAMPLED:
        return Evidence(holds=True, at=0.0, seen=f"all nodes are offered, the cluster has {log.nodes}")
    found = []
    for one in log.offers:
        if one.nodes <= entry_checks.SAMPLED or one.offered < entry_checks.SAMPLED:
            continue  # All are offered; or a rule of the pod keeps the others away.
        seen = f"filter about {one.pod} offered {one.offered} of {one.nodes} nodes at {when(one.at)}"
        if one.exact and one.offered < NEARLY * one.fitting:
            seen = f"{seen}, and the pod fits on {one.fitting}"
            found.append(Evidence(holds=False, at=one.at, seen=seen))
        elif one.offered >= max(one.fitting, NEARLY * one.nodes):
            found.append(Evidence(holds=True, at=one.at, seen=seen))
    return _latest(found)


def ignored(log: LogEvidence) -> Evidence | None:
    """S03: whether kube-scheduler went on after an error, or without a call; None if nothing shows it."""
    found = []
    latest = {}
    for calls in _of_pods(log).values():
        failed: Call | None = None
        for call in calls:
            if failed is not None and call.verb in entry_checks.FILTERS:
                seen = f"{call.pod} waited after the {_failure(failed)}, until {when(call.at)}"
                found.append(Evidence(holds=True, at=call.at, seen=seen))
            elif failed is not None and failed.verb != "bind" and call.at - failed.at < BACKOFF:
                seen = f"{call.verb} about {call.pod} at {when(call.at)} followed the {_failure(failed)}"
                found.append(Evidence(holds=False, at=call.at, seen=seen))
            failed = call if _failed(call) else None
            if call.verb in _DECIDING:
                latest[call.uid] = call
    for one in log.bypasses:
        skipped = _skipped(one, latest.get(one.uid), log)
        if skipped:
            seen = f"{one.pod} was bound to {one.node} at {when(one.at)}, {skipped}"
            found.append(Evidence(holds=False, at=one.at, seen=seen))
    return _latest(found)


def bound(log: LogEvidence) -> Evidence | None:
    """S04: whether bind is called; None if no pod was bound so far."""
    binds = [one for one in log.calls if one.verb == "bind"]
    found = [
        Evidence(holds=True, at=one.at, seen=f"bind about {one.pod} was called at {when(one.at)}")
        for one in binds[-1:]
    ]
    for one in log.bypasses:
        last = _last(one, log)
        if last is not None and last.verb in entry_checks.FILTERS and last.outcome == "kept":
            seen = (
                f"{one.pod} was filtered at {when(last.at)}, and bound to {one.node} without a call of bind"
            )
            found.append(Evidence(holds=False, at=one.at, seen=seen))
    return _latest(found)


def named(log: LogEvidence) -> Evidence | None:
    """S07: whether the latest call carried names of nodes, and not the nodes; None without a call."""
    carrying = [one for one in log.calls if one.offered and one.whole is not None and one.verb in _CARRYING]
    if not carrying:
        return None
    one = carrying[-1]
    what = "whole nodes" if one.whole else "names of nodes"
    seen = f"{one.verb} about {one.pod} carried {what} at {when(one.at)}"
    return Evidence(holds=not one.whole, at=one.at, seen=seen)


SHOWN: Final[Mapping[doctor_checks.Check, Callable[[LogEvidence], Evidence | None]]] = {
    catalog.PERCENTAGE: sampled,
    catalog.IGNORABLE: ignored,
    catalog.BINDER: bound,
    catalog.NAMES: named,
}
"""The checks about which the log has facts."""
_HARM: Final = (catalog.IGNORABLE, catalog.BINDER)
"""Those of them that are problems, and not warnings."""


def alone(log: LogEvidence, name: str, *, fix: str) -> Iterator[doctor_checks.Result]:
    """S01 to S04 and S07 of the scheduler of a name, whose configuration was not read.

    ``fix``: how it can be read.
    """
    subject = f"calls of {name}"
    calls = len(log.calls)
    if calls:
        seen = f"the log has {plurals.counted(calls, 'call')}, the last at {when(log.calls[-1].at)}"
        yield catalog.PRESENT.ok(subject, seen)
    for check, shown in SHOWN.items():
        evidence = shown(log)
        if evidence is None:
            seen = "the configuration was not read, and no call in the log shows it"
            yield check.unsure(subject, seen, fix=fix)
        elif evidence.holds:
            yield check.ok(subject, evidence.seen)
        else:
            yield _wrong(check, subject, evidence.seen)


def called_nevertheless(result: doctor_checks.Result, log: LogEvidence) -> doctor_checks.Result:
    """S01 of a configuration without an entry, of a scheduler that calls."""
    seen = f"{result.seen}; but filter about {log.calls[-1].pod} was called at {when(log.calls[-1].at)}"
    return catalog.PRESENT.warning(result.subject, f"{seen}: {_AWAY}", why=f"{_LATER}: {catalog.PRESENT.why}")


def confronted(
    results: Sequence[doctor_checks.Result], log: LogEvidence, *, restart: str
) -> Iterator[doctor_checks.Result]:
    """The results of a configuration, as far as the log does not contradict them, and what it shows instead.

    ``restart``: how the kube-scheduler that reads the configuration is restarted.
    """
    shown = {check.id: (check, evidence) for check, of in SHOWN.items() if (evidence := of(log)) is not None}
    for result in results:
        if result.id not in shown:
            yield result
            continue
        check, evidence = shown[result.id]
        right = result.verdict == doctor_checks.OK
        if right == evidence.holds:
            agreed = result.seen if right else f"{result.seen}; {evidence.seen}"
            yield dataclasses.replace(result, seen=agreed)
        elif right:
            seen = f"{result.seen}; but {evidence.seen}: {_AWAY}"
            yield _wrong(check, result.subject, seen, fix=f"{check.fix}; then {restart}")
        else:
            seen = f"{result.seen}; but {evidence.seen}: {_AWAY}"
            yield check.warning(result.subject, seen, why=f"{_LATER}: {check.why}")


def when(at: float) -> str:
    """A time in RFC 3339."""
    return clocks.rfc3339(at)


def _wrong(check: doctor_checks.Check, subject: str, seen: str, *, fix: str = "") -> doctor_checks.Result:
    return (check.problem if check in _HARM else check.warning)(subject, seen, fix=fix)


def _latest(found: Sequence[Evidence]) -> Evidence | None:
    return max(found, key=lambda one: one.at, default=None)


def _of_pods(log: LogEvidence) -> Mapping[str, list[Call]]:
    """The calls about each pod, without those of preempt, which decide nothing about it."""
    found: dict[str, list[Call]] = defaultdict(list)
    for one in log.calls:
        if one.verb != "preempt":
            found[one.uid].append(one)
    return found


def _failed(call: Call) -> bool:
    """Whether kube-scheduler must not go on with the pod after the reply.

    A bind that ends with an error may have failed at the API server, which refuses kube-scheduler's own
    Binding as well.
    """
    return call.outcome == "error" if call.verb in entry_checks.FILTERS else _refused(call)


def _refused(call: Call) -> bool:
    return call.verb == "bind" and call.outcome == "refused"


def _failure(call: Call) -> str:
    what = "refusal" if call.outcome == "refused" else "error"
    return f"{what} of {call.verb} at {when(call.at)}"


def _last(one: Bypass, log: LogEvidence) -> Call | None:
    """The last call that decided about the pod."""
    return next(
        (call for call in reversed(log.calls) if call.uid == one.uid and call.verb in _DECIDING), None
    )


def _skipped(one: Bypass, last: Call | None, log: LogEvidence) -> str:
    """How a pod was bound past an extender that is called otherwise; empty if that is not shown."""
    after = [call for call in log.calls if call.at > one.at]
    if last is None:
        around = after and any(call.at < one.created for call in log.calls)
        return f"without a call, and calls about {after[0].pod} followed" if around else ""
    if last.verb == "bind":
        return f"after the {_failure(last)}" if last.outcome in ("refused", "error") else ""
    if last.outcome == "error":
        return f"after the {_failure(last)}"
    if last.outcome == "kept":
        binds = [call for call in after if call.verb == "bind"]
        return f"without a call of bind, as there is about {binds[0].pod}" if binds else ""
    return f"although filter refused each node, and calls about {after[0].pod} followed" if after else ""
