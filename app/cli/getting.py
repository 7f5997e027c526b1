"""``topolog get``: what an extender knows, as tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from app.cli import asking, tables


@dataclass(frozen=True, slots=True)
class Kind:
    """Something to ask for."""

    path: str
    """Below /apis/v1."""
    about: str
    columns: Mapping[str, str]
    """Heading -> where the value is (tables.pick)."""
    listed: bool = True
    """The path itself can be asked for."""
    named: bool = False
    """One of them can be asked for by name."""


KINDS: Mapping[str, Kind] = {
    "nodes": Kind(
        "nodes",
        "the nodes, and what is left on them",
        {"NAME": "name", "READY": "ready", "CORDONED": "unschedulable", "PODS": "pods", "LEFT": "remaining"},
        named=True,
    ),
    "pods": Kind(
        "pods",
        "one pod: NAMESPACE/NAME",
        {},
        listed=False,
        named=True,
    ),
    "pending": Kind(
        "pending",
        "the pods that wait, and what would let them fit",
        {
            "POD": "namespace+name",
            "AGE (s)": "age",
            "ATTEMPTS": "attempts",
            "REASON": "reason",
            "SMALLEST CHANGE": "change.0",
        },
    ),
    "policies": Kind(
        "plugins/WorkloadPolicy/policies",
        "the workload policies; with NAMESPACE/NAME the domains of one",
        {
            "POLICY": "namespace+name",
            "VALID": "valid",
            "TYPE": "allocationType",
            "METHOD": "allocationMethod",
            "KEY": "topologyKey",
            "PLACED": "count",
            "DESIRED": "desired",
            "WAITING": "waiting",
            "ERRORS": "errors",
        },
        named=True,
    ),
    "groups": Kind(
        "plugins/JobAffinity/groups",
        "the jobs whose pods are kept together",
        {
            "GROUP": "namespace+name",
            "SIZE": "size",
            "PLACED": "placed",
            "IN FLIGHT": "inFlight",
            "WAITING": "waiting",
        },
        named=True,
    ),
    "priorities": Kind(
        "plugins/NodeLabelPriority/nodes",
        "the nodes as their priority label puts them",
        {"NAME": "name", "ELIGIBLE": "eligible", "VALUE": "value", "SCORE": "score"},
    ),
    "topology": Kind(
        "topology",
        "the domains of nodes, with counts",
        {"KEY": "key", "VALUE": "value", "NODES": "nodes", "READY": "ready", "PODS": "pods"},
    ),
    "decisions": Kind(
        "decisions",
        "what was answered to kube-scheduler, newest first",
        {
            "ID": "id",
            "AT": "at",
            "VERB": "verb",
            "POD": "pod.namespace+pod.name",
            "OUTCOME": "outcome",
            "KEPT": "kept",
            "OF": "candidates",
            "MS": "milliseconds",
            "NODE": "node",
            "REASONS": "reasons#",
        },
        named=True,
    ),
    "events": Kind(
        "events",
        "the log itself",
        {"OFFSET": "offset", "AT": "at", "TYPE": "type", "OBJECT": "name"},
    ),
    "flags": Kind(
        "flags",
        "the debug flags",
        {"FLAG": "name", "TITLE": "title", "VALUE": "value", "POD": "pod", "UNTIL": "until"},
    ),
    "consistency": Kind("consistency", "whether counts, log and API server agree", {}),
    "lag": Kind("lag", "how far the extender is behind the log", {}),
}


_NAMES = ("domain", "name", "pod", "policy")
"""Fields that say what a row is about."""


def _listing() -> str:
    return "\n".join(f"  {name:<11} {kind.about}" for name, kind in KINDS.items())


@click.command(
    "get",
    help="Ask an extender for what it knows.\n\n\b\n" + _listing() + "\n\n"
    "A NAME picks one (NAMESPACE/NAME where it has a namespace). Lists are cut at --limit.\n\n"
    "The extender and the certificates are those of the settings (client.*); after `topolog up` on"
    " this machine they need not be named.",
)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.argument("name", required=False)
@click.option("--at", metavar="OFFSET|TIME", help="As it was then, instead of now.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Items at most.")
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE", help="Only those: pod=ns/name, outcome=refused ..."
)
@asking.server_options
@tables.output_option
@click.pass_obj
def get_command(
    config: str | None,
    /,
    kind: str,
    name: str | None,
    at: str | None,
    limit: int,
    where: tuple[str, ...],
    output: str,
    **options: str | None,
) -> None:
    """Ask an extender."""
    chosen = KINDS[kind]
    if name is None and not chosen.listed:
        raise click.UsageError(f"{kind} are asked for one by one: topolog get {kind} NAMESPACE/NAME")
    if name is not None and not chosen.named:
        raise click.UsageError(f"{kind} cannot be asked for by name")
    query: dict[str, object] = {"at": at}
    if name is None and chosen.columns:
        query["limit"] = limit
    for condition in where:
        field, equals, value = condition.partition("=")
        if not equals:
            raise click.BadParameter(f"{condition} is not FIELD=VALUE", param_hint="--where")
        query[field] = value
    path = f"/apis/v1/{chosen.path}" + (f"/{name}" if name else "")
    reply = asking.extender(config, options).get(path, query)
    if isinstance(reply, str) or output == tables.JSON:
        tables.show_json(reply)
    elif "items" in reply:
        _show_list(chosen, reply)
    else:
        _show_one(reply)


def _show_list(kind: Kind, reply: Mapping[str, Any]) -> None:
    rows = [[tables.pick(item, path) for path in kind.columns.values()] for item in reply["items"]]
    tables.show(list(kind.columns), rows)
    metadata = reply.get("metadata", {})
    if metadata.get("remaining") or metadata.get("continue"):
        click.echo(f"... and {metadata.get('remaining') or 'maybe'} more (--limit)", err=True)


def _show_one(reply: Mapping[str, Any]) -> None:
    """One object: its plain fields as lines, its lists of objects as tables."""
    lists = {key: value for key, value in reply.items() if _is_table(value)}
    tables.show(["FIELD", "VALUE"], [(key, value) for key, value in reply.items() if key not in lists])
    for key, items in lists.items():
        click.echo(f"\n{key}:")
        # What a row is about comes first.
        headings = sorted(items[0], key=lambda heading: heading not in _NAMES)
        tables.show(
            [heading.upper() for heading in headings], [[item[h] for h in headings] for item in items]
        )


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
