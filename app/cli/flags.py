"""``topolog flags``: sets the debug flags, for every process of every replica."""

from typing import Any

import click

from app.cli.client import api_client
from app.cli.completion import items
from app.serving.tls import role_names

_PATH = "/apis/v1/flags"


@click.group("flags")
def flags_command() -> None:
    """Set the debug flags, which change what extenders log and never what they decide.

    A change is an event of the log: every process of every replica follows it, and `topolog get events` has
    who made it. `topolog get flags` lists the flags with the values in force. A change needs a client
    certificate of the role operator; by default that of `topolog up`, or of the Secret topolog-operator-tls
    in the cluster of the kubeconfig.
    """


@flags_command.command("set")
@click.argument("flag", type=items.FLAG, metavar="FLAG")
@click.argument("value", metavar="VALUE")
@click.option(
    "--pod",
    type=items.POD,
    metavar="NAMESPACE/POD",
    help="Only for decisions about this pod.  [default: all]",
)
@click.option(
    "--ttl",
    metavar="DURATION",
    help="Return to the value at start after this time, such as 90s, 15m or 2h; at most 168h.",
)
@api_client.server_options
@click.pass_obj
def set_command(
    config: str | None, /, flag: str, value: str, pod: str | None, ttl: str | None, **options: str | None
) -> None:
    """Set a debug flag.

    FLAG is a letter or a name of `topolog get flags`. VALUE is true or false, or a number. A flag has one
    value: the latest change counts, with its --pod and --ttl.

    \b
    topolog flags set debugFilterFailure true --pod shop/web-0 --ttl 15m
    """
    extender = api_client.extender(config, options, role=role_names.OPERATOR)
    letter = _found(extender, flag)["name"]
    click.echo(extender.set_text(f"/debug/flags/{letter}", value, {"pod": pod, "ttl": ttl}).rstrip())
    if pod or ttl:
        made = _found(extender, letter)
        end = f"until {made['until']}" if made["until"] else "without an end"
        click.echo(f"for {made['pod'] or 'all pods'}, {end}")


@flags_command.command("unset")
@click.argument("flag", type=items.FLAG, metavar="FLAG")
@api_client.server_options
@click.pass_obj
def unset_command(config: str | None, /, flag: str, **options: str | None) -> None:
    """Return a debug flag to its value at start, for all pods.

    FLAG is a letter or a name of `topolog get flags`.
    """
    extender = api_client.extender(config, options, role=role_names.OPERATOR)
    found = _found(extender, flag)
    if not found["changed"]:
        click.echo(f"{found['title']} was never set: it is {found['value']}")
        return
    click.echo(extender.set_text(f"/debug/flags/{found['name']}", found["default"], {}).rstrip())


def _found(extender: api_client.ExtenderClient, flag: str) -> dict[str, Any]:
    """The flag of that letter or name. Raises BadParameter."""
    every: list[dict[str, Any]] = extender.document(_PATH)["items"]
    for one in every:
        if flag in (one["name"], one["title"]):
            return one
    known = ", ".join(f"{one['name']} ({one['title']})" for one in every)
    raise click.BadParameter(f"no such debug flag: {flag}; the flags are {known}", param_hint="FLAG")
