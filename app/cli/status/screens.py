"""The document of ``topolog status`` as text: 80 columns in a file or pipe, where no sentence is cut."""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app import plurals
from app.cli.output import colours, tables

Json = Mapping[str, Any]
_WIDTH: Final = 80
_WIDEST: Final = 140
_LABEL: Final = 10
"""Columns of the name of a section."""
_SHOWN: Final = 8
"""Lines of one section that are shown."""
_UNSEEN: Final = "unknown"


def lines(document: Json) -> Iterator[str]:
    """The screen, line by line."""
    width = _width()
    verdict = document["verdict"]
    title = f"topolog {document['topolog']}, cluster {document['name']}, {document['at']}"
    yield f"{_cut(title, width - 9)}  {colours.verdict(verdict.upper(), verdict)}"
    yield ""
    yield from _processes(document["processes"], width)
    yield ""
    yield from _section("store", _store(document["store"]), width)
    yield from _section("tls", _certificates(document["certificates"]), width)
    yield from _section("audit", _audit(document["audit"]), width)
    yield from _section("cluster", _cluster(document["cluster"]), width)
    yield from _listed("pending", [_group(one) for one in document["pending"]], document["cluster"], width)
    shown = [_line(one) for one in document["plugins"]]
    yield from _listed("plugins", shown, document["cluster"], width, empty="nothing to show")
    yield from _attention(document["attention"], width)


def _age(seconds: float | None) -> str:
    return _UNSEEN if seconds is None else tables.age(seconds)


def _width() -> int:
    if not sys.stdout.isatty():
        return _WIDTH
    return max(40, min(_WIDEST, shutil.get_terminal_size().columns))


def _most(lines: int) -> int | None:
    """Lines of one text on a terminal; None: any, where it may be read by no person."""
    return lines if sys.stdout.isatty() else None


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 3)]}..."


def _processes(found: Sequence[Json], width: int) -> Iterator[str]:
    if not found:
        yield from _section("processes", _UNSEEN, width)
        return
    rows = [
        (one["role"] or "?", one["name"], "ready" if one["ready"] else "NOT READY", _age(one["upSeconds"]))
        for one in found
    ]
    headers = ("PROCESS", "NAME", "", "UP")
    sizes = [max(len(row[at]) for row in (headers, *rows)) for at in range(len(headers))]
    # What is left for the state is at least a third of the line: names give way to it.
    sizes[1] = min(sizes[1], max(12, width - width // 3 - sizes[0] - sizes[2] - sizes[3] - 8))
    left = width - sum(sizes) - 2 * len(sizes)
    yield _row(headers, sizes) + "STATE"
    for row, one in zip(rows, found, strict=True):
        name = row[1] if len(row[1]) <= sizes[1] else f"...{row[1][3 - sizes[1] :]}"
        text = _row((row[0], name, row[2], row[3]), sizes)
        mark = colours.verdict(row[2], "ok" if one["ready"] else "problem", bold=False)
        yield (text.replace(row[2], mark, 1) + _cut(tables.cell(one["state"] or "-"), left)).rstrip()


def _row(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "".join(f"{cell.ljust(size)}  " for cell, size in zip(cells, sizes, strict=True))


def _store(store: Json) -> str:
    if store["up"] is None:
        return _UNSEEN
    parts = ["answers every process" if store["up"] else "DOES NOT ANSWER every process"]
    if store["head"] is not None:
        parts.append(f"log to {store['head']}")
    if store["memoryUsed"] is not None:
        limit = f" of {store['memoryLimit'] >> 20} MiB" if store["memoryLimit"] else ", no limit"
        parts.append(f"{store['memoryUsed'] >> 20} MiB used{limit}")
    return ", ".join(parts)


def _certificates(found: Sequence[Json] | None) -> str:
    if found is None:
        return _UNSEEN
    return ", ".join(map(_end, found)) or "all serve plain HTTP"


def _end(one: Json) -> str:
    left = one["secondsLeft"]
    return f"{one['file']} " + (f"expires in {_age(left)}" if left > 0 else f"EXPIRED {_age(-left)} ago")


def _audit(audit: Json | None) -> str:
    if audit is None:
        return _UNSEEN
    found = f", {audit['total']} differences" if audit["total"] else ""
    since = f", {_age(audit['age'])} ago" if audit["age"] >= 0 else ""
    problem = f": {audit['problem']}" if audit["problem"] else ""
    return f"{audit['state']}{found}{since}{problem}"


def _cluster(cluster: Json | None) -> str:
    if cluster is None:
        return _UNSEEN
    bound, flying, pending = (cluster["pods"].get(name, 0) for name in ("bound", "inFlight", "pending"))
    return (
        f"{cluster['schedulable']} of {cluster['nodes']} nodes schedulable;"
        f" pods: {bound} bound, {flying} in flight, {pending} pending"
    )


def _group(one: Json) -> str:
    by = "" if one["by"] in ("none", "kube-scheduler") else f"{one['by']}: "
    number = plurals.counted(one["pods"], "pod")
    return f"{number}, up to {_age(one['oldestSeconds'])}: {by}{one['reason']} ({one['example']})"


def _line(one: Json) -> str:
    return f"{one['name']}: {one['seen']}" + (f"; {one['wrong']}" if one["wrong"] else "")


def _listed(
    name: str, found: Sequence[str], cluster: Json | None, width: int, *, empty: str = "none"
) -> Iterator[str]:
    """A section with a line for each item, or with what there is instead."""
    if not found:
        yield from _section(name, empty if cluster is not None else _UNSEEN, width)
    for at, text in enumerate(found[:_SHOWN]):
        yield from _section(name if not at else "", text, width)
    if len(found) > _SHOWN:
        yield from _section("", f"and {len(found) - _SHOWN} more (-o json)", width)


def _section(name: str, text: str, width: int) -> list[str]:
    """The text behind the name of its section, on a terminal in at most three lines."""
    return textwrap.wrap(
        tables.cell(text),
        width,
        initial_indent=f"{name.upper():{_LABEL}}",
        subsequent_indent=" " * _LABEL,
        max_lines=_most(3),
        placeholder=" ...",
    )


def _attention(found: Sequence[Json], width: int) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "ATTENTION (topolog doctor run has the reasons and fixes)"
    groups = _groups(found)
    for group in groups[: 2 * _SHOWN]:
        one, ids = group[0], list(dict.fromkeys(each["id"] for each in group))
        subjects = list(dict.fromkeys(each["subject"] for each in group))
        others = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        text = f"{one['verdict']:8} {_spans(ids)}  "
        wrapped = textwrap.wrap(
            tables.cell(f"{one['subject']}{others}: {one['seen']}"),
            width,
            initial_indent=text,
            subsequent_indent=" " * len(text),
            max_lines=_most(2),
            placeholder=" ...",
        )
        wrapped[0] = wrapped[0].replace(one["verdict"], colours.verdict(one["verdict"], one["verdict"]), 1)
        yield from wrapped
    if len(groups) > 2 * _SHOWN:
        yield f"... and {len(groups) - 2 * _SHOWN} more"


def _spans(ids: Sequence[str]) -> str:
    """The ids of checks; A..B for those that follow one another."""
    runs: list[list[str]] = []
    for one in ids:
        if not runs or one != _following(runs[-1][-1]):
            runs.append([])
        runs[-1].append(one)
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


def _following(check: str) -> str:
    return f"{check[0]}{int(check[1:]) + 1:02}"


def _groups(found: Sequence[Json]) -> list[list[Json]]:
    """Results in order; those of one verdict and cause are one group, as when the store is away."""
    groups: dict[tuple[str, str], list[Json]] = {}
    for one in found:
        groups.setdefault((one["verdict"], one["seen"]), []).append(one)
    return list(groups.values())
