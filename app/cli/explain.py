"""``topolog explain``: why a pod was placed on its node, or is pending."""

import click

from app.cli import tables
from app.cli.client import api_client


@click.command("explain")
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="The Nth scheduling attempt.  [default: the latest]",
)
@click.option(
    "--at", metavar="OFFSET|TIME", help="Explain with the state at this position instead of the current one."
)
@api_client.server_options
@tables.output_option
@click.pass_obj
def explain_command(
    config: str | None,
    /,
    pod: str,
    attempt: int | None,
    at: str | None,
    output: str,
    **options: str | None,
) -> None:
    """Explain why a pod was placed on its node, or why it is pending.

    Shows which plugin refused which nodes and why, the scores of the other nodes, and which changes
    would let the pod fit. The explanation is recomputed from the log at the position of the decision and
    equals the extender's reply. Exit code 1 if the pod does not exist.
    """
    if pod.count("/") != 1:
        raise click.BadParameter("must be NAMESPACE/POD", param_hint="NAMESPACE/POD")
    extender = api_client.extender(config, options)
    query = {"attempt": attempt, "at": at, "format": "json" if output == tables.JSON else "markdown"}
    accept = "application/json" if output == tables.JSON else "text/markdown, application/json"
    reply = extender.get(f"/apis/v1/pods/{pod}/explain", query, accept=accept)
    if isinstance(reply, str):
        click.echo(reply.rstrip())
    else:
        tables.show_json(reply)
