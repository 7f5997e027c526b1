"""``topolog diff``: what differs between two moments, or two situations."""

import functools
import json

import click

from app import exit_codes
from app.cli.client import api_client, moment_option
from app.cli.completion import items
from app.cli.output import tables
from app.cli.questions import declared_overrides, question_options


@click.command("diff", cls=declared_overrides.Question)
@click.argument("from_", metavar="[FROM]", required=False, type=moment_option.MOMENT)
@click.argument("to", required=False, metavar="[TO]", type=moment_option.MOMENT)
@click.option("--from-situation", metavar="FILE", help="The first situation as JSON or YAML (- for stdin).")
@click.option("--situation", metavar="FILE", help="The second situation (- for stdin).")
@question_options.override_options
@question_options.save_option("the second situation")
@click.option("--only", metavar="SECTION,...", help="nodes, pods, objects, counts, placements, pending.")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="Only what is in this namespace, which no node is; also that of objects of a file that name none.",
)
@click.option("--measure", metavar="pods|resource:NAME", help="Also the nodes that have more or less of it.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Rows of each section."
)
@api_client.server_options
@question_options.unnamed_output_option
@click.pass_obj
def diff_command(
    config: str | None,
    /,
    from_: str | None,
    to: str | None,
    from_situation: str | None,
    only: str | None,
    namespace: str | None,
    measure: str | None,
    limit: int,
    output: str,
    **options: question_options.Value,
) -> None:
    """Show what differs between the moments FROM and TO (now, if they are left out).

    A moment is an offset of the log, a position, an RFC 3339 time, a clock time of today in UTC
    (12:00), now, or how long ago: 90s, 24h, 7d.
    Overrides are those of TO, so that without moments their effect is shown.

    \b
    topolog diff 41000 42000
    topolog diff 24h
    topolog diff --cordon n7 --only nodes,pending
    topolog diff --from-situation one.json --situation other.json

    Exit code 0 if nothing differs, 1 if something does.
    """
    if from_ is not None and from_situation is not None:
        raise click.UsageError("FROM and --from-situation exclude each other")
    first = question_options.situation_in(from_situation, "--from-situation") if from_situation else {}
    second = question_options.situation(options, namespace)
    if to is not None:
        second["at"] = to
    if from_ is not None:
        first["at"] = from_
    if not (first or second):
        raise click.UsageError("name a moment or a situation: topolog diff --help")
    question_options.save(options, second)
    if first.keys() | second.keys() <= {"at"}:
        extender = api_client.extender(config, options)
        query = {
            "from": first.get("at") or None,
            "to": second.get("at") or None,
            "only": only,
            "limit": limit,
            "namespace": namespace,
            "measure": measure,
        }
        reply = extender.get("/apis/v1/diff", query, timeout=question_options.MAX_WAIT)
        if isinstance(reply, str):
            raise click.ClickException(reply)
    else:
        question = {"from": first, "to": second, "limit": limit}
        more: question_options.Document = {"only": only.split(",")} if only else {}
        more |= {name: given for name, given in (("measure", measure), ("namespace", namespace)) if given}
        reply = question_options.answer(config, options, "diff", {**question, **more})
    question_options.show(output, reply, _table, wide=functools.partial(_table, wide=True))
    if not reply["same"]:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _table(reply: question_options.Document, *, wide: bool = False) -> None:
    rows = []
    for section, found in reply["sections"].items():
        for row in found["rows"]:
            all_of = wide or row["change"] == "changed" or section == "counts"
            shown = row["fields"] if all_of else []
            changes = [f"{one['field']}: {_value(one['before'])} -> {_value(one['after'])}" for one in shown]
            rows.append((section, row["change"], row["name"], "; ".join(changes)))
    tables.show(["SECTION", "CHANGE", "NAME", "FIELDS"], rows, empty="nothing differs")
    if reply["map"] is not None:
        click.echo()
        classes = [(one["label"], one["count"]) for one in reply["map"]["classes"]]
        tables.show([reply["map"]["color"].upper(), "NODES"], classes)
    for situation, of in zip(reply.get("situations", ()), (" of the first situation", ""), strict=False):
        question_options.show_idle(situation, of)
    for section, found in reply["sections"].items():
        if found["more"]:
            click.echo(f"... and {found['more']} more {section} (--limit)", err=True)


def _value(value: object) -> str:
    return (
        "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
