"""``topolog get``: shows the cluster state known to an extender as tables."""

import operator
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from app import plugins
from app.cli import tables
from app.cli.client import api_client
from app.framework import configuring


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the introspection API."""

    path: str
    """Below /apis/v1."""
    about: str
    columns: Mapping[str, str]
    """Heading -> path of the value (tables.pick)."""
    listed: bool = True
    """The path returns a list."""
    named: bool = False
    """One item can be requested by name."""


_CORE: Mapping[str, Resource] = {
    "nodes": Resource(
        "nodes",
        "nodes and their remaining capacity",
        {"NAME": "name", "READY": "ready", "CORDONED": "unschedulable", "PODS": "pods", "LEFT": "remaining"},
        named=True,
    ),
    "pods": Resource(
        "pods",
        "one pod: NAMESPACE/NAME",
        {},
        listed=False,
        named=True,
    ),
    "pending": Resource(
        "pending",
        "pending pods and the changes that would let them fit",
        {
            "POD": "namespace+name",
            "AGE (s)": "age",
            "ATTEMPTS": "attempts",
            "REASON": "reason",
            "SMALLEST CHANGE": "change.0",
        },
    ),
    "topology": Resource(
        "topology",
        "node domains with counts",
        {"KEY": "key", "VALUE": "value", "NODES": "nodes", "READY": "ready", "PODS": "pods"},
    ),
    "decisions": Resource(
        "decisions",
        "replies to kube-scheduler, newest first",
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
    "events": Resource(
        "events",
        "entries of the log",
        {"OFFSET": "offset", "AT": "at", "TYPE": "type", "OBJECT": "name"},
    ),
    "flags": Resource(
        "flags",
        "debug flags",
        {"FLAG": "name", "TITLE": "title", "VALUE": "value", "POD": "pod", "UNTIL": "until"},
    ),
    "consistency": Resource("consistency", "consistency report (counts vs. log vs. API server)", {}),
    "lag": Resource("lag", "how far the extender lags behind the log", {}),
}


def _of_plugins() -> Iterator[tuple[str, Resource]]:
    """The tables that installed plugins declare, by name."""
    for plugin, table in configuring.tables_of(plugins.catalog().classes):
        path = f"plugins/{plugin}/{table.path}"
        yield table.name, Resource(path, table.about, table.columns, named=table.named)


RESOURCES: Mapping[str, Resource] = {
    **_CORE,
    **{name: found for name, found in sorted(_of_plugins(), key=operator.itemgetter(0)) if name not in _CORE},
}

_NAMES = ("domain", "name", "pod", "policy")
"""Fields that identify a row."""


def _listing() -> str:
    return "\n".join(f"  {name:<11} {kind.about}" for name, kind in RESOURCES.items())


@click.command(
    "get",
    help="Show cluster state known to an extender.\n\n\b\n" + _listing() + "\n\n"
    "NAME selects one item (NAMESPACE/NAME if it is namespaced). Lists are limited by --limit.\n\n"
    "The extender and the certificates are set by client.*; after `topolog up` on this machine the"
    " defaults work.",
    short_help="Show cluster state known to an extender.",
)
@click.argument("kind", type=click.Choice(list(RESOURCES)), metavar="[KIND]", required=False)
@click.argument("name", required=False)
@click.option("--raw", metavar="PATH", help="Print what `topolog view` answers at a path of the API.")
@click.option(
    "--at", metavar="OFFSET|TIME", help="Show the state at this position instead of the current one."
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum number of items."
)
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE", help="Filter the items: pod=ns/name, outcome=refused ..."
)
@api_client.server_options
@tables.output_option
@click.pass_obj
def get_command(
    config: str | None,
    /,
    kind: str | None,
    name: str | None,
    raw: str | None,
    at: str | None,
    limit: int,
    where: tuple[str, ...],
    output: str,
    **options: str | None,
) -> None:
    """Request a resource and print it."""
    if raw is not None:
        if kind is not None:
            raise click.UsageError("--raw takes a path instead of KIND and NAME")
        tables.show_json(_raw(api_client.view(config, options), raw))
        return
    if kind is None:
        raise click.UsageError("KIND or --raw is required; topolog get --help lists the kinds")
    resource = RESOURCES[kind]
    if name is None and not resource.listed:
        raise click.UsageError(f"{kind} requires a name: topolog get {kind} NAMESPACE/NAME")
    if name is not None and not resource.named:
        raise click.UsageError(f"{kind} does not take a name")
    query: dict[str, object] = {"at": at}
    if name is None and resource.columns:
        query["limit"] = limit
    for condition in where:
        field, equals, value = condition.partition("=")
        if not equals:
            raise click.BadParameter(f"{condition} is not FIELD=VALUE", param_hint="--where")
        query[field] = value
    path = f"/apis/v1/{resource.path}" + (f"/{name}" if name else "")
    reply = api_client.extender(config, options).get(path, query)
    if isinstance(reply, str) or output == tables.JSON:
        tables.show_json(reply)
    elif "items" in reply:
        _show_list(resource, reply)
    else:
        _show_one(reply)


def _raw(client: api_client.ExtenderClient, path: str) -> Mapping[str, Any] | str:
    route, _, query = path.partition("?")
    if not route.startswith("/"):
        raise click.BadParameter(f"{path} does not begin with a slash", param_hint="--raw")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return client.get(urllib.parse.unquote(route), dict(pairs))


def _show_list(resource: Resource, reply: Mapping[str, Any]) -> None:
    rows = [[tables.pick(item, path) for path in resource.columns.values()] for item in reply["items"]]
    tables.show(list(resource.columns), rows)
    metadata = reply.get("metadata", {})
    if metadata.get("remaining") or metadata.get("continue"):
        click.echo(f"... and {metadata.get('remaining') or 'maybe'} more (--limit)", err=True)


def _show_one(reply: Mapping[str, Any]) -> None:
    """Show one object: scalar fields as lines, lists of objects as tables."""
    lists = {key: value for key, value in reply.items() if _is_table(value)}
    tables.show(["FIELD", "VALUE"], [(key, value) for key, value in reply.items() if key not in lists])
    for key, items in lists.items():
        click.echo(f"\n{key}:")
        # The fields that identify a row come first.
        headings = sorted(items[0], key=lambda heading: heading not in _NAMES)
        tables.show(
            [heading.upper() for heading in headings], [[item[h] for h in headings] for item in items]
        )


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
