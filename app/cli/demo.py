"""``topolog demo``: runs all components on one machine against a simulated cluster."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from app import exit_codes, settings
from app.cli import exits

if TYPE_CHECKING:
    from app.simulation import stages


@click.command("demo")
@click.option(
    "--keep/--end",
    default=None,
    help="Keep running at the end, with the dashboard, until Ctrl-C.  [default: keep on a terminal]",
)
@click.pass_obj
def demo_command(config: str | None, keep: bool | None) -> None:
    """Run an embedded store, a simulated cluster and scheduler, and an extender with real mTLS.

    Takes under two minutes; then it prints the address of its dashboard, and two questions to try there. Its
    files are removed when it ends. Exit code 1 if a result differs from the expected one.
    """
    if keep is None:
        keep = on_terminal()
    try:
        from app.simulation import demo
    except ModuleNotFoundError as missing:
        if missing.name != "rich":
            raise
        reason = (
            "the demo needs the package rich and a Redis or Valkey server, which image and zipapp leave out:"
            " clone the repository and run `make demo`"
        )
        raise exits.Failed(exit_codes.USAGE, reason) from missing

    as_expected = demo.run(settings.load(config, os.environ), keep=keep, dashboard=_dashboard)
    click.get_current_context().exit(exit_codes.OK if as_expected else exit_codes.NEGATIVE)


def on_terminal() -> bool:
    """Whether a person reads the output and can end the demo."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def _dashboard(stage: "stages.Stage") -> Iterator[str]:
    """A proxy with the viewer's certificate, until the demo ends."""
    from app.cli.client import api_client
    from app.cli.viewer import proxies

    ca, cert, key = (str(stage.folder / name) for name in ("ca.crt", "viewer.crt", "viewer.key"))
    client = api_client.ExtenderClient(settings.Client(url=stage.view_url, ca=ca, cert=cert, key=key))
    with proxies.Proxy(client) as proxy:
        threading.Thread(target=proxy.serve_forever, name="dashboard", daemon=True).start()
        try:
            yield proxy.address("/dashboard/")
        finally:
            proxy.shutdown()
