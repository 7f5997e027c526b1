"""``topolog demo``: plays the scenes, schedules a large trace, and explains a pending pod."""

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from rich import box, console, markdown, progress, table

from app import interrupts, settings
from app.simulation import crowds, scenes, stages, traces

_POLL_SECONDS = 0.2
PODS = 1500
"""Pods of the scene at scale, about half a minute on two cores."""


Opened = Callable[[stages.Stage], AbstractContextManager[str]]
"""Opens a way into the dashboard of the stage; returns its address."""


def _closed(stage: stages.Stage) -> AbstractContextManager[str]:
    return contextlib.nullcontext(f"{stage.view_url}/dashboard/")


def run(chosen: settings.Settings, *, keep: bool, pods: int = PODS, dashboard: Opened = _closed) -> bool:
    """Play all scenes; returns whether every outcome was as expected."""
    out = console.Console()
    out.print(
        "[bold]Topolog demo[/bold]: a simulated cluster and scheduler, and beside them `topolog up`: store,"
        " recorder, controller, and the extender, which the scheduler calls over mTLS.\n"
        "Each scene compares its outcomes with the expected ones."
    )
    try:
        trace = traces.load(Path(chosen.trace)) if chosen.trace else traces.generate()
        with contextlib.ExitStack() as ending:
            ending.enter_context(interrupts.by_sigterm())
            with out.status(
                "creating certificates; starting the API server, store, recorder, controller and extender"
            ):
                stage = ending.enter_context(stages.open_stage())
            address = ending.enter_context(dashboard(stage))
            return _play(out, stage, trace, keep=keep, pods=pods, address=address)
    except (stages.StageFailed, traces.InvalidTrace, RuntimeError) as failure:
        out.print(f"[red]the demo failed:[/red] {failure}")
        return False


def _play(
    out: console.Console,
    stage: stages.Stage,
    trace: traces.Trace,
    *,
    keep: bool,
    pods: int,
    address: str,
) -> bool:
    outcomes: list[scenes.Outcome] = []
    for scene in scenes.SCENES:
        out.print(f"\n[bold]{(scene.__doc__ or '').splitlines()[0]}[/bold]")
        for outcome in scene(stage):
            _show(out, outcome)
            outcomes.append(outcome)
    crowd = _crowd(out, stage, trace, pods)
    outcomes += crowd.outcomes
    _explain(out, stage, crowd)
    good = _sum_up(out, outcomes, crowd)
    _next_steps(out, stage, crowd, keep=keep)
    _dashboard(out, crowd, address, keep=keep)
    if keep:
        until_interrupted(stage)
    return good


def _crowd(out: console.Console, stage: stages.Stage, trace: traces.Trace, pods: int) -> crowds.Crowd:
    out.print(f"\n[bold]At scale: {len(trace.nodes):,} nodes, {pods:,} pods; {trace.source}[/bold]")
    bar = progress.Progress(
        progress.TextColumn("scheduling"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        console=out,
    )
    with bar:
        task = bar.add_task("", total=pods)

        def update(done: int) -> None:
            bar.update(task, completed=done)

        crowd = crowds.play(stage, trace, pods=pods, clock=time.perf_counter, progress=update)
    for outcome in crowd.outcomes:
        _show(out, outcome)
    return crowd


def _show(out: console.Console, outcome: scenes.Outcome) -> None:
    mark = "[green]ok[/green]  " if outcome.good else "[red]WRONG[/red]"
    expected = "" if outcome.good else f"  (expected: {outcome.expected})"
    out.print(f"  {mark} {outcome.what}: {outcome.got}{expected}", highlight=False)
    if not outcome.good:
        for reason in outcome.reasons:
            out.print(f"        pending: {reason}", highlight=False)


def _explain(out: console.Console, stage: stages.Stage, crowd: crowds.Crowd) -> None:
    name = _pending_pod(crowd)
    if not name:
        return
    out.print(f"\n[bold]Why is {name} pending?[/bold]")
    text = stage.get(f"/apis/v1/pods/{name}/explain?format=markdown", accept="text/markdown")
    lines = text.splitlines()
    out.print(markdown.Markdown("\n".join(lines[:40])))
    if len(lines) > 40:
        out.print(f"  ... and {len(lines) - 40} more lines")


def _sum_up(out: console.Console, outcomes: list[scenes.Outcome], crowd: crowds.Crowd) -> bool:
    shown = table.Table(title="Summary", box=box.SIMPLE)
    for column in ("scene", "outcomes", "as expected"):
        shown.add_column(column)
    for scene in dict.fromkeys(outcome.scene for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.scene == scene]
        good = sum(outcome.good for outcome in mine)
        colour = "green" if good == len(mine) else "red"
        shown.add_row(scene, str(len(mine)), f"[{colour}]{good}[/{colour}]")
    for name, value in crowds.figures(crowd):
        shown.add_row(name, value, "")
    out.print(shown)
    return all(outcome.good for outcome in outcomes)


def _pending_pod(crowd: crowds.Crowd) -> str:
    """NAMESPACE/NAME of a pod that waits; empty without one."""
    if not crowd.pending:
        return ""
    meta = crowd.pending[0]["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


def _next_steps(out: console.Console, stage: stages.Stage, crowd: crowds.Crowd, *, keep: bool) -> None:
    name = _pending_pod(crowd) or "crowd/NAME"
    head = (
        "Try these in another terminal:"
        if keep
        else "`topolog demo --keep` leaves it running for commands such as:"
    )
    out.print(f"\n[bold]{head}[/bold]")
    lines = [
        f"topolog explain {name}",
        f"topolog bisect {name}",
        "topolog get pending --limit 5",
        "topolog get policies",
        "topolog get decisions --where outcome=refused --limit 3",
        "topolog status",
    ]
    if keep:
        lines.insert(0, f"source {stage.folder / stages.ENVIRONMENT}")
    for line in lines:
        out.print(f"  {line}", soft_wrap=True, highlight=False)


def _dashboard(out: console.Console, crowd: crowds.Crowd, address: str, *, keep: bool) -> None:
    out.print("\n[bold]The dashboard[/bold]")
    if keep:
        out.print(f"  {address}", soft_wrap=True, highlight=False)
    else:
        out.print("  topolog demo --keep", soft_wrap=True, highlight=False)
        out.print("leaves it running and prints its address.")
    out.print("Two questions to try there:")
    name = _pending_pod(crowd) or "a pod of Pending"
    out.print(
        f"  1. Since when does {name} not fit? Find it by name, then press `since when does it not fit?`.",
        soft_wrap=True,
        highlight=False,
    )
    out.print("  2. What did the cluster look like before the crowd arrived? Drag the slider to the left.")
    if not crowd.pending:
        out.print("  (No pod of this run is pending: ask the first question for one of the past.)")
    if keep:
        out.print("\nPress Ctrl-C to stop the demo.")


def until_interrupted(stage: stages.Stage) -> None:
    """Return at Ctrl-C or SIGTERM. Raises StageFailed if ``topolog up`` ends."""
    with interrupts.by_sigterm(), contextlib.suppress(KeyboardInterrupt):
        while not (report := stage.exit_report()):
            time.sleep(_POLL_SECONDS)
        raise stages.StageFailed(report)
