"""Applies the debug flags: logs more of a Trace. They change what is logged, never what is decided."""

from collections.abc import Callable, Iterator, Mapping

from app.domain import model, snapshots, verdicts
from app.framework import registry
from app.verbs.explain import explanations, tables

_NAMED = 20
"""Nodes that a line names; the others are counted."""


def in_force(
    snapshot: snapshots.Snapshot, letter: str, *, now: str, pod: model.NamespacedName = ""
) -> model.Flag | None:
    """The flag as set last; None if it has expired or is for another pod. ``now``: RFC 3339 in UTC."""
    flag = snapshot.flags.get(letter)
    if flag is None or (flag.until and flag.until <= now) or (pod and flag.pod not in ("", pod)):
        return None
    return flag


def lines(
    trace: verdicts.Trace,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
    *,
    started: Mapping[str, str],
    now: str,
) -> Iterator[tuple[str, dict[str, object]]]:
    """The log lines that the flags add, each as event and fields. ``started``: the flags' values at start."""
    if not snapshot.flags and not started:
        return
    value = _reader(trace.pod.key, snapshot, started, now)
    changed = {"transformed_by": tables.transformed(trace)} if trace.transformed else {}
    top = int(value("s") or 0)
    if top > 0 and trace.ratings:
        yield "debug scores", {"pod": trace.pod.key, "table": tables.scores(trace, top), **changed}
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
                        "names": tables.first_of(nodes, _NAMED),
                        **changed,
                    },
                )
    if value("d") == "true":
        diagnosis = explanations.Explanation(trace, plugins.concerned_in(trace, snapshot))
        yield "debug diagnosis", tables.structure(diagnosis, limit=_NAMED)
    if int(value("v") or 0) > 0:
        yield (
            "debug candidates",
            {"pod": trace.pod.key, "names": tables.first_of(trace.candidates, _NAMED)},
        )


def _reader(
    pod: model.NamespacedName, snapshot: snapshots.Snapshot, started: Mapping[str, str], now: str
) -> Callable[[str], str]:
    def value(letter: str) -> str:
        flag = in_force(snapshot, letter, now=now, pod=pod)
        return flag.value if flag is not None else started.get(letter, "")

    return value
