"""`python -m tests.bench.interactive`: both sides of the comparison, kept running.

It prints commands to run by hand: the client against both or one of them, and the settings with which another
extender (for example under a profiler) serves the same store. Ctrl-C ends all processes.
"""

import pathlib
import shlex
import signal
import tempfile

import click
import rich.console

from app.serving.tls import certificate_issuer
from app.store.server import embedded
from tests.bench import cases, runs
from tests.bench.data import bench_cluster
from tests.bench.peer import builds, client, processes
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
        certificate_issuer.issue(folder / "tls", ["127.0.0.1", "localhost"])
        bench = runs.Bench(folder, folder / "tls", builds.built())
        server = embedded.Server()
        try:
            filled_stores.fill(server.url, "bench", bench_cluster.facts(nodes, pods))
            with (
                extender_processes.running(server.url, "bench", bench.tls, folder) as ours,
                processes.running(bench.programs, bench.tls, folder) as peer,
            ):
                show(console, bench, nodes, {"ours": ours.url, "peer": peer})
                settings = extender_processes.settings(
                    server.url,
                    "bench",
                    bench.tls,
                    folder,
                    port=18443,
                    health=18081,
                    kubeconfig=folder / extender_processes.EMPTY,
                )
                console.print("\n[bold]an extender of your own on the same store[/]")
                console.print(
                    " ".join(f"{k}={shlex.quote(v)}" for k, v in settings.items()), "topolog extender"
                )
                console.print(f"\nprocess of the extender: {ours.process.pid}; Ctrl-C ends all processes")
                # Blocked only now, so that the children do not inherit it.
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
                signal.sigwait(ENDING)
        finally:
            server.stop()


def show(console: rich.console.Console, bench: runs.Bench, nodes: int, targets: dict[str, str]) -> None:
    """Print the commands of the client."""
    caller = bench.caller(nodes)
    commands = {
        "both, in turns": (client.Load(nodes, 500), targets),
        "ours alone": (client.Load(nodes, 5_000), {"ours": targets["ours"]}),
        "ours alone, half refused": (
            client.Load(nodes, 5_000, policy=bench_cluster.HALF),
            {"ours": targets["ours"]},
        ),
        "whole nodes": (client.Load(nodes, 10, warm=2, form="nodes"), targets),
    }
    for title, (load, aims) in commands.items():
        console.print(f"\n[bold]{title}[/]")
        console.print(shlex.join(caller.command(load, aims)))


if __name__ == "__main__":
    main()
