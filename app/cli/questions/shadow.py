"""``topolog shadow``: an edit that is compared with every decision from now on, and enforced for none."""

import click

from app.cli.client import api_client
from app.cli.completion import items
from app.cli.questions import declared_overrides, differences, question_options
from app.serving.tls import role_names


@click.group("shadow")
def shadow_command() -> None:
    """Compare every decision with an edit of policies or plugin settings that is not enforced.

    A shadow is set and deleted at an extender, by the role operator; `topolog view` compares. By default
    the certificate is that of `topolog up`, or of the Secret topolog-operator-tls in the cluster of the
    kubeconfig.

    \b
    topolog shadow set strict -f policy.yaml --ttl 24h
    topolog shadow show strict
    """


@shadow_command.command("set", cls=declared_overrides.Question)
@click.argument("name", type=items.SHADOW, metavar="NAME")
@click.option("--until", metavar="TIME", help="When it ends (RFC 3339).  [default: never]")
@click.option("--ttl", metavar="DURATION", help="Instead of --until: how long it lasts, such as 24h.")
@click.option("--note", metavar="TEXT", help="What it is for.")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="The namespace of objects of a file that name none.",
)
@question_options.object_options
@api_client.server_options
@question_options.output_option
@click.pass_obj
def set_command(
    config: str | None,
    /,
    name: str,
    until: str | None,
    ttl: str | None,
    note: str | None,
    namespace: str | None,
    output: str,
    **options: question_options.Value,
) -> None:
    """Set the shadow NAME, or replace it.

    It may change objects such as policies, and the weights and the enabled plugins; no nodes and no pods.
    Setting it again as it is, with the same end, keeps its differences; --ttl sets another end each time.
    """
    edit = question_options.overridden(options, namespace)
    if not edit:
        raise click.UsageError(
            "a shadow needs an edit: --set-policy, --scale, --override, --weights or --enable"
        )
    given = {"until": until, "ttl": ttl, "note": note}
    asked = {**edit, **{field: value for field, value in given.items() if value}}
    extender = api_client.extender(config, options, role=role_names.OPERATOR)
    reply = extender.put(_path(name), asked, timeout=question_options.MAX_WAIT)
    question_options.show(output, reply, _set, _names)


@shadow_command.command("delete")
@click.argument("name", type=items.SHADOW, metavar="NAME")
@api_client.server_options
@question_options.output_option
@click.pass_obj
def delete_command(config: str | None, /, name: str, output: str, **options: str | None) -> None:
    """Delete the shadow NAME and its differences."""
    reply = api_client.extender(config, options, role=role_names.OPERATOR).delete(_path(name))
    question_options.show(output, reply, lambda shown: click.echo(f"shadow {shown['name']} deleted"), _names)


@shadow_command.command("show")
@click.argument("name", type=items.SHADOW, metavar="NAME")
@api_client.server_options
@question_options.output_option
@click.pass_obj
def show_command(config: str | None, /, name: str, output: str, **options: str | None) -> None:
    """Show the differences of the shadow NAME so far, at `topolog view`.

    The exit code is 0 whether decisions differ or not: `topolog replay` is the gate.
    """
    reply = api_client.view(config, options).document(_path(name))
    question_options.show(output, reply, _table, _names)


def _path(name: str) -> str:
    return f"/apis/v1/shadows/{name}"


def _names(reply: question_options.Document) -> list[str]:
    return [reply["name"]]


def _set(reply: question_options.Document) -> None:
    ends = f" until {reply['until']}" if reply["until"] else ""
    click.echo(f"shadow {reply['name']} is compared with decisions from offset {reply['since']} on{ends}")


def _table(reply: question_options.Document) -> None:
    note = f": {reply['note']}" if reply["note"] else ""
    click.echo(f"shadow {reply['name']}{note}, set by {reply['by']} at offset {reply['since']}")
    if reply["ended"]:
        click.echo(f"ended at {reply['until']}")
    found = reply["differences"]
    if found is None:
        click.echo("no decision was compared here yet: `topolog view` compares, an extender does not")
        return
    differences.show_numbers(found)
    if found["problem"]:
        click.echo(f"note: decisions cannot be compared: {found['problem']}", err=True)
    if found["gap"]:
        click.echo("note: records may have been trimmed before they were compared", err=True)
    if found["behindSeconds"]:
        click.echo(f"note: {found['behindSeconds']:.0f} s behind the latest record", err=True)
    differences.show_items(found)
    question_options.show_limits(found)
