"""Gathers what the log has about kube-scheduler's calls: decisions, the lives of pods, and offered nodes."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from app.doctor import api_reader, times
from app.doctor.scheduler import entry_checks, log_evidence

_CALLS: Final = 1000
"""Decisions that are read, the latest ones."""
_LIVES: Final = 10
"""Pods whose life is read: of those with calls, and of those without."""
_OFFERS: Final = 2
"""Filter calls of one scheduler that are compared with the nodes of the time."""
_TRIED: Final = 10
"""Those that are looked up for it, at most: the log may have no state with a pod that waited."""
Json = Mapping[str, Any]


class Source(Protocol):
    """The REST API of an extender; each method raises Unseen, and Missing for what the log does not have."""

    def get(self, path: str, **query: object) -> Json:
        """The JSON at a path."""
        ...

    def ask(self, path: str, question: Json) -> Json:
        """The answer to a question."""
        ...


def gather(
    source: Source,
    *,
    nodes: int | None,
    pods: Iterable[Json] = (),
    interested: Callable[[Json], bool] = lambda _: False,
) -> log_evidence.LogEvidence:
    """The facts. Raises Unseen if the decisions cannot be read.

    ``nodes``: of the cluster, None if they were not seen. ``pods``: objects of the API server.
    ``interested``: whether a plugin is interested in one.
    """
    rows = _latest(source)
    calls = _calls(rows)
    if not calls:
        return log_evidence.LogEvidence(nodes=nodes)
    few = nodes is not None and nodes <= entry_checks.SAMPLED
    bypasses, offers = list[log_evidence.Bypass](), list[log_evidence.Offer]()
    # If the extender is too slow for one question, the others would wait as long.
    with contextlib.suppress(api_reader.Unseen):
        bypasses += _bypasses(source, _suspects(calls, pods, interested))
        offers += () if few else _offers(source, rows)
    return log_evidence.LogEvidence(
        tuple(calls),
        tuple(sorted(bypasses, key=lambda one: one.at)),
        tuple(sorted(offers, key=lambda one: one.at)),
        nodes,
    )


def _latest(source: Source) -> list[Json]:
    """The records, newest first: a page ends with a number of bytes, too. Raises Unseen."""
    found: list[Json] = []
    following: dict[str, str] = {}
    while True:
        page = source.get("/apis/v1/decisions", limit=_CALLS - len(found), **following)
        found += page["items"]
        token = page["metadata"]["continue"]
        if token is None or len(found) >= _CALLS:
            return found
        following = {"continue": token}


def _calls(rows: Sequence[Json]) -> list[log_evidence.Call]:
    """Oldest first; a scheduler that one record lacks is that of the pod's other records."""
    schedulers = {one["pod"]["uid"]: name for one in rows if (name := one.get("scheduler"))}
    found = [
        log_evidence.Call(
            times.seconds(one["at"]),
            one["verb"],
            one["outcome"],
            f"{one['pod']['namespace']}/{one['pod']['name']}",
            one["pod"]["uid"],
            schedulers.get(one["pod"]["uid"], ""),
            one["candidates"],
            one.get("wholeNodes"),
        )
        for one in reversed(rows)
    ]
    # The extenders write their records in batches: not in the order of the calls.
    return sorted(found, key=lambda one: one.at)


# -- pods that were bound ------------------------------------------------------------------------


def _suspects(
    calls: Sequence[log_evidence.Call], pods: Iterable[Json], interested: Callable[[Json], bool]
) -> Iterator[tuple[Json, bool]]:
    """Bound pods without a successful bind among the calls, the newest, and whether there is any call."""
    latest = {one.uid: one for one in calls if one.verb in (*entry_checks.FILTERS, "bind")}
    names = {one.scheduler for one in calls}
    newest = sorted(
        (one for one in pods if one["spec"].get("nodeName") and one["spec"].get("schedulerName") in names),
        key=lambda one: str(one["metadata"].get("creationTimestamp", "")),
        reverse=True,
    )
    left = {True: _LIVES, False: _LIVES}
    for pod in newest:
        last = latest.get(pod["metadata"].get("uid", ""))
        called = last is not None
        if last is not None and (last.verb, last.outcome) == ("bind", "bound"):
            continue
        if not called and _created(pod) <= calls[0].at:
            continue  # Its calls may be older than those that were read.
        # Of other pods the log has no placement, which is there before the record of the bind.
        if left[called] and interested(pod):
            left[called] -= 1
            yield pod, called


def _bypasses(source: Source, suspects: Iterable[tuple[Json, bool]]) -> Iterator[log_evidence.Bypass]:
    """Those that the log shows. Raises Unseen."""
    for pod, called in suspects:
        with contextlib.suppress(api_reader.Missing):
            found = _bypass(source, pod, called=called)
            if found is not None:
                yield found


def _bypass(source: Source, pod: Json, *, called: bool) -> log_evidence.Bypass | None:
    """The pod, if the log shows that it was bound and that Topolog had not placed it; else None.

    Raises Unseen, and Missing if the log does not have the pod.
    """
    metadata = pod["metadata"]
    life = source.get(f"/apis/v1/pods/{metadata['namespace']}/{metadata['name']}/life")
    happened = [one for one in life["items"] if one["kind"] != "attempt"]
    kinds = [one["kind"] for one in happened]
    if life["uid"] != metadata["uid"] or life["more"] or not life["complete"] or "placed" in kinds:
        return None
    bound = next((one for one in happened if one["kind"] == "bound"), None)
    # One that had a node when it was first seen may have been created with it.
    if bound is None or not (called or kinds[0] == "seen"):
        return None
    return log_evidence.Bypass(
        f"{metadata['namespace']}/{metadata['name']}",
        metadata["uid"],
        pod["spec"]["schedulerName"],
        _created(pod),
        times.seconds(bound["at"]),
        bound["node"],
    )


def _created(pod: Json) -> float:
    return times.seconds(str(pod["metadata"].get("creationTimestamp", "")))


# -- offered nodes -------------------------------------------------------------------------------


def _offers(source: Source, rows: Sequence[Json]) -> Iterator[log_evidence.Offer]:
    """The latest filter calls of each scheduler, about different pods, with the nodes of that time.

    Raises Unseen.
    """
    compared, tried = Counter[str](), Counter[str]()
    seen: set[str] = set()
    for one in rows:
        name, uid = one.get("scheduler"), one["pod"]["uid"]
        few = one["candidates"] < entry_checks.SAMPLED
        if one["verb"] not in entry_checks.FILTERS or few or not name or uid in seen:
            continue
        if compared[name] < _OFFERS and tried[name] < _TRIED:
            seen.add(uid)
            tried[name] += 1
            with contextlib.suppress(api_reader.Missing):
                found = _offer(source, one)
                if found is not None:
                    compared[name] += 1
                    yield found


def _offer(source: Source, row: Json) -> log_evidence.Offer | None:
    """The call beside the nodes of its time; None if the name is that of another pod there.

    Raises Unseen, and Missing if the log has no such pod or no longer that state.
    """
    try:
        return _compared(source, row, row["position"])
    except api_reader.Missing:
        later = _appeared(source, row)
    # Nodes may have been added, removed, cordoned or uncordoned since the call.
    same = _numbers(source, row["position"]) == _numbers(source, later)
    return _compared(source, row, later) if same else None


def _numbers(source: Source, position: str) -> Json:
    """The numbers of nodes: all, ready, cordoned and not ready. Raises as _offer does."""
    found: Json = source.get("/apis/v1/cluster", at=position, limit=1)["nodes"]
    return found


def _appeared(source: Source, row: Json) -> str:
    """The position at which the log got the pod of a call. Raises Unseen, and Missing if it has none.

    An extender decides about a new pod at once, so that the log may get a pod that is bound at its first
    attempt only after all calls about it.
    """
    life = source.get(f"/apis/v1/pods/{row['pod']['namespace']}/{row['pod']['name']}/life")
    incarnation, _, _ = row["position"].rpartition("/")
    now, _, _ = life["metadata"]["position"].rpartition("/")
    first = next((one for one in life["items"] if one["kind"] != "attempt"), None)
    known = life["uid"] == row["pod"]["uid"] and life["complete"] and not life["more"]
    if first is None or first["kind"] != "seen" or not known or now != incarnation:
        raise api_reader.Missing(f"the log has no state with pod {life['pod']} before it was bound", "")
    return f"{incarnation}/{first['offset']}"


def _compared(source: Source, row: Json, position: str) -> log_evidence.Offer | None:
    """The call beside the nodes at a position. Raises as _offer does."""
    pod = f"{row['pod']['namespace']}/{row['pod']['name']}"
    asked = {"pod": pod, "situation": {"at": position}, "top": 1}
    fitting = source.ask("/apis/v1/simulate", {**asked, "candidates": "roomy"})
    every = source.ask("/apis/v1/simulate", {**asked, "candidates": "all"})
    if fitting["explanation"]["pod"]["uid"] != row["pod"]["uid"]:
        return None
    return log_evidence.Offer(
        times.seconds(row["at"]),
        pod,
        row["scheduler"],
        row["candidates"],
        fitting["explanation"]["candidates"],
        not fitting["notModelled"],
        every["explanation"]["candidates"],
    )
