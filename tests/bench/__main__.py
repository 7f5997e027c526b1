"""`python -m tests.bench`: measure, show a table, write build/bench.json, exit 1 if a bar was missed."""

import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

import click
import rich.console
import rich.markup

from app import telemetry
from app.serving.tls import certificate_issuer
from tests.bench import cases, rows, runs
from tests.bench.peer import builds, client
from tests.e2e import control_plane_builds

WIDTH = 110
"""Columns of the table where no terminal has a width."""
OUTPUT = pathlib.Path("build/bench.json")


@click.command()
@click.argument("chosen", nargs=-1, metavar="[CASE]...", type=click.Choice(list(cases.CASES)))
@click.option("--e2e", is_flag=True, help="The cases with a real kube-scheduler: those named e2e.")
@click.option("--scale", default=1.0, show_default=True, help="How many calls, compared with a full run.")
@click.option("--output", default=OUTPUT, show_default=True, type=click.Path(path_type=pathlib.Path))
@click.option("--keep", is_flag=True, help="Keep the folder with logs and certificates, and name it.")
def main(chosen: Sequence[str], e2e: bool, scale: float, output: pathlib.Path, keep: bool) -> None:
    """Measure the CASEs, all of `make bench` by default."""
    console = rich.console.Console(width=None if sys.stdout.isatty() else WIDTH)
    # The measurements of this process log much, and none of it is a result.
    telemetry.configure(level="warning")
    try:
        programs = builds.built()
    except control_plane_builds.GoMissing as missing:
        raise click.ClickException(str(missing)) from missing
    folder = pathlib.Path(tempfile.mkdtemp(prefix="topolog-bench-"))
    try:
        tls = folder / "tls"
        certificate_issuer.issue(tls, ["127.0.0.1", "localhost"])
        bench = runs.Bench(folder, tls, programs, scale)
        measured, missing_rows = measure(
            console,
            bench,
            [*chosen, *(cases.END_TO_END if e2e and not chosen else ())] or list(cases.DEFAULT),
        )
    finally:
        if keep:
            console.print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    rows.write(output, measured)
    console.print(rows.shown(measured))
    for each in missing_rows:
        console.print(f"[red]not measured:[/] {each.case}:", rich.markup.escape(each.reason))
    sys.exit(0 if not missing_rows and all(row.ok for row in measured) else 1)


def measure(
    console: rich.console.Console, bench: runs.Bench, chosen: Sequence[str]
) -> tuple[list[rows.Row], list[rows.Missing]]:
    """The rows of the chosen cases, and the cases that failed. After Ctrl-C, no further case begins."""
    measured: list[rows.Row] = []
    missing: list[rows.Missing] = []
    for name in chosen:
        started = time.monotonic()
        with console.status(f"{name} ..."):
            try:
                measured.extend(cases.CASES[name](bench))
            except (client.CallFailed, AssertionError, OSError, ImportError) as error:
                missing.append(rows.Missing(name, str(error)))
            except KeyboardInterrupt:
                left = chosen[chosen.index(name) :]
                return measured, [*missing, *(rows.Missing(each, "interrupted") for each in left)]
        console.print(f"[dim]{name}: {time.monotonic() - started:.0f} s[/]")
    return measured, missing


if __name__ == "__main__":
    main()
