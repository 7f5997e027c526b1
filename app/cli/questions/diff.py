"""``topolog diff``: what differs between two moments."""

import json

import click

from app import exit_codes
from app.cli import tables
from app.cli.client import api_client
from app.cli.questions import asking


@click.command("diff", short_help="Show what differs between two moments.")
@click.argument("from_", metavar="FROM")
@click.argument("to", required=False, metavar="[TO]")
@click.option("--only", metavar="SECTION,...", help="nodes, pods, objects, counts, placements, pending.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Rows of each section."
)
@api_client.server_options
@asking.output_option
@click.pass_obj
def diff_command(
    config: str | None,
    /,
    from_: str,
    to: str | None,
    only: str | None,
    limit: int,
    output: str,
    **options: str | None,
) -> None:
    """Show what differs between the moments FROM and TO (now, if it is left out).

    A moment is an offset of the log, a position, or an RFC 3339 time.

    Exit code 0 if nothing differs, 1 if something does.
    """
    extender = api_client.extender(config, options)
    reply = extender.get("/apis/v1/diff", {"from": from_, "to": to, "only": only, "limit": limit})
    if isinstance(reply, str):
        raise click.ClickException(reply)
    asking.show(output, reply, _table, _names)
    if not reply["same"]:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _names(reply: asking.Document) -> list[str]:
    return [
        f"{section}/{row['name']}" for section, found in reply["sections"].items() for row in found["rows"]
    ]


def _table(reply: asking.Document) -> None:
    rows = []
    for section, found in reply["sections"].items():
        for row in found["rows"]:
            shown = row["fields"] if row["change"] == "changed" or section == "counts" else []
            changes = [f"{one['field']}: {_value(one['before'])} -> {_value(one['after'])}" for one in shown]
            rows.append((section, row["change"], row["name"], "; ".join(changes)))
    tables.show(["SECTION", "CHANGE", "NAME", "FIELDS"], rows, empty="nothing differs")
    for section, found in reply["sections"].items():
        if found["more"]:
            click.echo(f"... and {found['more']} more {section} (--limit)", err=True)


def _value(value: object) -> str:
    return (
        "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
