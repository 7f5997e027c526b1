"""Debug flags at work: more of a Trace in the log. They change what is shown, never what is decided."""

from collections.abc import Callable, Iterator, Mapping

from app.domain import model, snapshots, verdicts
from app.verbs import explaining, tabulating

_NAMED = 20
"""So many nodes are named in a line; the others are counted."""


def in_force(
    snapshot: snapshots.Snapshot, letter: str, *, now: str, pod: model.NamespacedName = ""
) -> model.Flag | None:
    """The flag as last set, unless its time is over or it is for another pod; ``now`` is RFC 3339 in UTC."""
    flag = snapshot.flags.get(letter)
    if flag is None or (flag.until and flag.until <= now) or (pod and flag.pod not in ("", pod)):
        return None
    return flag


def lines(
    trace: verdicts.Trace, snapshot: snapshots.Snapshot, *, started: Mapping[str, str], now: str
) -> Iterator[tuple[str, dict[str, object]]]:
    """What the flags add to the log: event, fields. ``started``: the values from the start."""
    if not snapshot.flags and not started:
        return
    value = _reader(trace.pod.key, snapshot, started, now)
    top = int(value("s") or 0)
    if top > 0 and trace.ratings:
        yield "debug scores", {"pod": trace.pod.key, "table": tabulating.scores(trace, top)}
    if value("f") == "true":
        for refusal in trace.refusals:
            for detail, nodes in refusal.details.items() or {"": refusal.nodes}.items():
                yield (
                    "debug filter failure",
                    {
                        "pod": trace.pod.key,
                        "plugin": refusal.plugin,
                        "reason": refusal.reason,
                        "detail": detail,
                        "nodes": len(nodes),
                        "names": tabulating.first_of(nodes, _NAMED),
                    },
                )
    if value("d") == "true":
        yield "debug diagnosis", tabulating.structure(explaining.Explanation(trace), limit=_NAMED)
    if int(value("v") or 0) > 0:
        yield (
            "debug candidates",
            {"pod": trace.pod.key, "names": tabulating.first_of(trace.candidates, _NAMED)},
        )


def _reader(
    pod: model.NamespacedName, snapshot: snapshots.Snapshot, started: Mapping[str, str], now: str
) -> Callable[[str], str]:
    def value(letter: str) -> str:
        flag = in_force(snapshot, letter, now=now, pod=pod)
        return flag.value if flag is not None else started.get(letter, "")

    return value
