"""Since when: the last event at which the answer to a question about the cluster changed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from app.domain import model, snapshots
from app.domain.fit import fitting_nodes
from app.framework import cycles, pipeline, registry, supposed_operations
from app.verbs.questions import candidate_choice, errors, kinds, question_schema

Predicate = Callable[[snapshots.Snapshot], bool]
_TRIED: Final = 2
"""Recorded moments that are examined."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The last change of an answer."""

    now: bool
    """The answer at the end."""
    offset: int | None
    """The event after which it was this; None if it has not changed since the start."""
    examined: int
    """Snapshots that were examined."""
    complete: bool
    """False if the budget was spent: ``offset`` is then the end of the remaining range."""
    low: int
    """The latest offset that is known to have had the other answer; the start if there is none."""


def bisect(
    at: Callable[[int], snapshots.Snapshot],
    predicate: Predicate,
    first: int,
    last: int,
    running: Callable[[], bool],
    recorded: Sequence[tuple[int, bool]] = (),
) -> Found:
    """Gallop back from the end until the answer is another one, then halve.

    ``at``: the snapshot at an offset. ``recorded``: offsets and the answers that were given there, newest
    first: the gallop ends at one of another answer, so that it does not pass over a short change far back. If
    the answer changed several times, the event is one at which it changed to the present one: the last such
    event, unless two changes lie between two steps of the gallop.
    """
    now = predicate(at(last))
    examined, step, high = 1, 1, last
    low, other = last, None
    for offset in [offset for offset, answer in recorded if answer != now and first <= offset < last][
        :_TRIED
    ]:
        if not running():
            return Found(now, None, examined, False, low)
        examined += 1
        # What is asked may differ from what was: the candidates, or the configuration.
        if predicate(at(offset)) != now:
            first = other = offset
            break
    while low > first:
        if not running():
            return Found(
                now, None if other is None else high, examined, False, low if other is None else other
            )
        low = max(first, last - step)
        if low == other:
            break
        examined += 1
        if predicate(at(low)) != now:
            break
        high, step = low, 2 * step
    else:
        return Found(now, None, examined, True, low)
    while high - low > 1:
        if not running():
            return Found(now, high, examined, False, low)
        middle = (low + high) // 2
        examined += 1
        if predicate(at(middle)) == now:
            high = middle
        else:
            low = middle
    return Found(now, high, examined, True, low)


def predicate(
    asked: question_schema.Bisect, plugins: registry.Registry, last: snapshots.Snapshot
) -> Predicate:
    """The question as a function of a snapshot. Raises Mistake and Missing.

    ``last``: the snapshot at the end, which has the pod of the question. The pod is evaluated as it is in
    each snapshot, and where it does not exist, as it is at the end.
    """
    given = (asked.fits, asked.count, asked.waiting, asked.exists)
    if sum(one is not None for one in given) != 1:
        raise errors.Mistake("", "exactly one of fits, count, waiting and exists is required")
    if asked.fits is not None:
        return _fits(asked.fits, plugins, last, roomy=asked.candidates == candidate_choice.ROOMY)
    if asked.count is not None:
        count = asked.count
        return lambda snapshot: snapshot.counts.get(count.count, 0) >= count.at_least
    if asked.waiting is not None:
        return _waiting(asked.waiting)
    return _exists(asked.exists or "", last)


def _fits(name: str, plugins: registry.Registry, last: snapshots.Snapshot, *, roomy: bool) -> Predicate:
    if not _is_named(name, namespaced=True):
        raise errors.Mistake("fits", f"{name[:80]!r} is not NAMESPACE/NAME")
    namespace, _, own = name.partition("/")
    pod = last.pod_named(namespace, own)
    if pod is None:
        raise errors.Missing(f"cannot find pod {name} at {last.position}")
    latest: model.Pod = pod

    def fits(snapshot: snapshots.Snapshot) -> bool:
        asked = snapshot.pod(latest.uid) or latest
        everywhere = frozenset(snapshot.topology.everywhere)
        offered = fitting_nodes.FittingNodes(snapshot).of(asked) if roomy else everywhere
        cycle = cycles.cycle(asked, offered, snapshot, score_max=plugins.score_max)
        return bool(pipeline.run_filter(plugins, cycle).kept)

    return fits


def _waiting(asked: question_schema.WaitingAtLeast) -> Predicate:
    def waiting(snapshot: snapshots.Snapshot) -> bool:
        if not asked.namespace:
            return len(snapshot.waiting) >= asked.at_least
        found = (snapshot.pod(uid) for uid in snapshot.waiting)
        return sum(pod is not None and pod.namespace == asked.namespace for pod in found) >= asked.at_least

    return waiting


def _exists(text: str, last: snapshots.Snapshot) -> Predicate:
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise errors.Mistake("exists", f"{text[:80]!r} is not KIND:NAME, such as node:n1")
    try:
        namespaced = kind == "pod" or (kind != "node" and kinds.namespaced(last, kind))
    except supposed_operations.Impossible as error:
        raise errors.Mistake("exists", f"{error.text}, node, pod") from error
    if not _is_named(name, namespaced=namespaced):
        form = "NAMESPACE/NAME" if namespaced else "NAME"
        raise errors.Mistake("exists", f"{text[:80]!r} is not {kind}:{form}")
    match kind:
        case "node":
            return lambda snapshot: name in snapshot.nodes
        case "pod":
            return lambda snapshot: name in snapshot.names
        case _:
            return lambda snapshot: name in kinds.all_of(snapshot, kind)


def _is_named(name: str, *, namespaced: bool) -> bool:
    """Whether it has the form NAMESPACE/NAME, or NAME."""
    parts = name.split("/")
    return len(parts) == 1 + namespaced and all(parts)
