"""``topolog explain``: why a pod went where it went, or goes nowhere."""

import click

from app.cli import asking, tables


@click.command("explain")
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="The Nth attempt; the latest if not given."
)
@click.option("--at", metavar="OFFSET|TIME", help="As it was known then, instead of now.")
@asking.server_options
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
    """Say why a pod went where it went, or why it waits.

    Shows which plugin refused which nodes and with what reason, the scores of the rest, and what
    would let the pod fit. It is recomputed from the log at the position of the decision, and equals
    what was answered. Exit code 1 if there is no such pod.
    """
    if pod.count("/") != 1:
        raise click.BadParameter("must be NAMESPACE/POD", param_hint="NAMESPACE/POD")
    extender = asking.extender(config, options)
    query = {"attempt": attempt, "at": at, "format": "json" if output == tables.JSON else "markdown"}
    accept = "application/json" if output == tables.JSON else "text/markdown, application/json"
    reply = extender.get(f"/apis/v1/pods/{pod}/explain", query, accept=accept)
    if isinstance(reply, str):
        click.echo(reply.rstrip())
    else:
        tables.show_json(reply)
