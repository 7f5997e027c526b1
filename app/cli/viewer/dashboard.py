"""``topolog dashboard``: opens the dashboard in a browser, through a proxy on the loopback."""

import signal
import urllib.parse
import webbrowser

import click

from app.cli import exits
from app.cli.client import api_client, moment_option

_VIEWS = ("overview", "pending", "workloads", "decisions", "compare", "health")


@click.command("dashboard")
@click.option(
    "--view", "chosen", type=click.Choice(_VIEWS), default="overview", show_default=True, help="The view."
)
@click.option(
    "--at", type=moment_option.MOMENT, help="Show the state at this position instead of the current one."
)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port of the proxy; 0: any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@api_client.server_options
@click.pass_obj
def dashboard_command(
    config: str | None, /, chosen: str, at: str | None, port: int, no_browser: bool, **options: str | None
) -> None:
    """Open the dashboard in a browser, until Ctrl-C (exit code 130).

    A proxy on the loopback shows the viewer's certificate to `topolog view` (client.view_url), so the browser
    needs none. The printed address holds a secret: without it nothing is passed on.
    """
    from app.cli.viewer import proxies

    client = api_client.view(config, options)
    client.get("/apis/v1/lag")
    try:
        proxy = proxies.Proxy(client, port)
    except OSError as error:
        raise exits.not_listening(f"port {port}", error) from error
    path = "/dashboard/" if chosen == "overview" else f"/dashboard/{chosen}"
    query = f"?{urllib.parse.urlencode({'at': at})}" if at else ""
    address = proxy.address(path + query)
    click.echo(f"Dashboard of {client.client.url}:\n  {address}\nPress Ctrl-C to stop.")
    if not no_browser:
        webbrowser.open(address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        proxy.serve_forever()
    finally:
        proxy.server_close()
