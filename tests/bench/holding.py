"""`python -m tests.bench.holding`: both sides of the comparison, kept running to be looked into.

It prints what to run by hand: the client against both or one of them, and the settings with which an
extender of your own (for example under a profiler) works on the same store. Ctrl-C ends it all.
"""

import pathlib
import shlex
import signal
import tempfile

import click
import rich.console

from app.serving.tls import issuing
from app.store.server import embedded
from tests.bench import benches, building, calling, cases, peers, populating
from tests.support import extender_processes
from tests.support.store import filled_stores

ENDING = (signal.SIGINT, signal.SIGTERM)


@click.command()
@click.option("--nodes", default=cases.NODES, show_default=True)
@click.option("--pods", default=cases.PODS, show_default=True)
def main(nodes: int, pods: int) -> None:
    """Keep an extender with that many nodes and pods, and its peer, until Ctrl-C."""
    console = rich.console.Console(soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="topolog-bench-") as temporary:
        folder = pathlib.Path(temporary)
        issuing.issue(folder / "tls", ["127.0.0.1", "localhost"])
        bench = benches.Bench(folder, folder / "tls", building.built())
        server = embedded.Server()
        try:
            filled_stores.fill(server.url, "bench", populating.facts(nodes, pods))
            with (
                extender_processes.running(server.url, "bench", bench.tls, folder) as ours,
                peers.running(bench.programs, bench.tls, folder) as peer,
            ):
                show(console, bench, nodes, {"ours": ours.url, "peer": peer})
                settings = extender_processes.settings(
                    server.url, "bench", bench.tls, folder, port=18443, health=18081
                )
                console.print("\n[bold]an extender of your own on the same store[/]")
                console.print(
                    " ".join(f"{k}={shlex.quote(v)}" for k, v in settings.items()), "topolog extender"
                )
                console.print(f"\nprocess of the extender: {ours.process.pid}; Ctrl-C ends all of this")
                # Blocked only now: the children must not inherit that.
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
                signal.sigwait(ENDING)
        finally:
            server.stop()


def show(console: rich.console.Console, bench: benches.Bench, nodes: int, targets: dict[str, str]) -> None:
    """Print a command for each thing that is worth running by hand."""
    caller = bench.caller(nodes)
    commands = {
        "both, in turns": (calling.Load(nodes, 500), targets),
        "ours alone": (calling.Load(nodes, 5_000), {"ours": targets["ours"]}),
        "ours alone, half refused": (
            calling.Load(nodes, 5_000, policy=populating.HALF),
            {"ours": targets["ours"]},
        ),
        "whole nodes": (calling.Load(nodes, 10, warm=2, form="nodes"), targets),
    }
    for title, (load, aims) in commands.items():
        console.print(f"\n[bold]{title}[/]")
        console.print(shlex.join(caller.command(load, aims)))


if __name__ == "__main__":
    main()
