"""The rows of the benchmark: what was measured, the peer's figure, and whether the bar is met."""

import dataclasses
import pathlib
from collections.abc import Sequence

import msgspec
from rich import box, table


class Row(msgspec.Struct, frozen=True):
    """One line of build/bench.json.

    Where there is a peer, `ratio` is ours / peer and the bar is its upper limit; where there is none,
    `ours` itself is held against the bar.
    """

    case: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    bar: float | None
    """None: measured for information only."""
    ok: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """A row that could not be measured, and why."""

    case: str
    reason: str


def compared(case: str, unit: str, *, ours: float, peer: float, bar: float | None) -> Row:
    """Ours against the peer: the less the better."""
    ratio = ours / peer
    return Row(case, unit, ours, peer, ratio, bar, ok=bar is None or ratio <= bar)


def reaching(case: str, unit: str, *, ours: float, peer: float, bar: float) -> Row:
    """Ours against the peer: the more the better."""
    ratio = ours / peer
    return Row(case, unit, ours, peer, ratio, bar, ok=ratio >= bar)


def at_most(case: str, unit: str, *, ours: float, bar: float) -> Row:
    """A figure of ours with an upper limit."""
    return Row(case, unit, ours, None, None, bar, ok=ours <= bar)


def at_least(case: str, unit: str, *, ours: float, bar: float) -> Row:
    """A figure of ours with a lower limit."""
    return Row(case, unit, ours, None, None, bar, ok=ours >= bar)


def measured(case: str, unit: str, *, ours: float) -> Row:
    """A figure of ours that has no bar."""
    return Row(case, unit, ours, None, None, None, ok=True)


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Write the rows as JSON; those of other cases that an earlier run left there stay."""
    fresh = {row.case for row in rows}
    kept = [row for row in read(path) if row.case not in fresh]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode([*kept, *rows]), indent=2) + b"\n")


def read(path: pathlib.Path) -> list[Row]:
    """Read what `write` wrote; nothing where there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []


def shown(rows: Sequence[Row]) -> table.Table:
    """The table for people."""
    out = table.Table(box=box.SIMPLE_HEAD, title="Topolog against its peer, measured in one run")
    out.add_column("case")
    for heading in ("ours", "peer", "ratio", "bar", ""):
        out.add_column(heading, justify="right")
    for row in rows:
        mark = "[green]ok[/]" if row.ok else "[red]missed[/]"
        out.add_row(
            row.case,
            f"{figure(row.ours)} {row.unit}",
            figure(row.peer),
            figure(row.ratio),
            figure(row.bar),
            mark if row.bar is not None else "",
        )
    return out


def figure(value: float | None) -> str:
    """A number with as many digits as mean anything."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
