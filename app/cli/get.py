"""``topolog get``: shows the cluster state known to an extender as tables."""

import operator
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from click import shell_completion

from app import plugins
from app.cli import formats, tables
from app.cli.client import api_client
from app.cli.completion import names
from app.framework import configuring
from app.store.decisions import conditions


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
_IDENTIFYING = ("id", "name", "offset", "pod", "budget", "value")
"""Fields that identify an item without a namespace, the first that it has."""
_SHORT = {"no": "nodes", "po": "pods", "ev": "events"}
"""Short name, as kubectl's -> kind."""


def _listing() -> str:
    return "\n".join(f"  {name:<11} {kind.about}" for name, kind in RESOURCES.items())


class Kind(click.ParamType[str]):
    """A kind, or KIND/NAME."""

    name = "kind"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """Kinds that begin like this; after KIND, names of that kind."""
        given = ctx.params.get("what") or ()
        if not given:
            return [
                shell_completion.CompletionItem(name, help=kind.about)
                for name, kind in RESOURCES.items()
                if name.startswith(incomplete)
            ]
        kind = RESOURCES.get(_SHORT.get(given[0], given[0]))
        if kind is None or not kind.named or len(given) > 1:
            return []
        return [
            shell_completion.CompletionItem(name)
            for name in names.of_list(ctx, kind.path if kind.listed else "pending")
            if name.startswith(incomplete)
        ]


@click.command(
    "get",
    help="Show cluster state known to an extender.\n\n\b\n" + _listing() + "\n\n"
    "NAME selects one item (NAMESPACE/NAME if it is namespaced); several are named as KIND/NAME, as -o name"
    " writes them. Lists are limited by --limit. -o wide adds the columns that a table leaves out.\n\n"
    "The extender and the certificates are set by client.*; after `topolog up` on this machine the"
    " defaults work, and for a cluster those of the kubeconfig (--help of `topolog status`).",
    short_help="Show cluster state known to an extender.",
)
@click.argument("what", nargs=-1, type=Kind(), metavar="KIND [NAME] | KIND/NAME...")
@click.option("--raw", metavar="PATH", help="Print what `topolog view` answers at a path of the API.")
@click.option(
    "--at", metavar="OFFSET|TIME", help="Show the state at this position instead of the current one."
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum number of items."
)
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE", help="Filter the items: pod=ns/name, kept<3 ..."
)
@api_client.server_options
@formats.option(formats.TABLE, formats.WIDE, formats.NAME)
@click.pass_obj
def get_command(
    config: str | None,
    /,
    what: tuple[str, ...],
    raw: str | None,
    at: str | None,
    limit: int,
    where: tuple[str, ...],
    output: str,
    **options: str | None,
) -> None:
    """Request resources and print them."""
    if raw is not None:
        if what:
            raise click.UsageError("--raw takes a path instead of KIND and NAME")
        formats.show_document(_raw(api_client.view(config, options), raw), output)
        return
    if not what:
        raise click.UsageError("KIND or --raw is required; topolog get --help lists the kinds")
    asked = list(_asked(what))
    selected = _conditions(where, expressions=all(kind == "decisions" for kind, _ in asked))
    extender = api_client.extender(config, options)
    for kind, name in asked:
        resource = RESOURCES[kind]
        query = {"at": at, **({"limit": limit} if name is None and resource.columns else {}), **selected}
        path = f"/apis/v1/{resource.path}" + (f"/{name}" if name else "")
        reply = extender.get(path, query)
        if isinstance(reply, str) or formats.is_document(output):
            formats.show_document(reply, output)
        elif output == formats.NAME:
            for found in (name,) if name else map(named, reply.get("items", (reply,))):
                click.echo(f"{kind}/{found}")
        elif "items" in reply:
            _show_list(resource, reply, wide=output == formats.WIDE)
        else:
            _show_one(reply)


_SELECTING = ("pod", "node", "plugin", "reason", "outcome", "verb", "since", "until")
"""Parameters of decisions."""
_PLAIN = re.compile(r"(?P<field>[a-z]\w*)=(?!=)(?P<value>.*)\Z", re.DOTALL)


def _conditions(where: tuple[str, ...], *, expressions: bool) -> dict[str, object]:
    """Query parameters; a condition that is more than FIELD=VALUE is for decisions only."""
    found: dict[str, object] = {}
    others = []
    for condition in where:
        plain = _PLAIN.match(condition)
        if expressions and (plain is None or plain["field"] not in _SELECTING or _several(condition)):
            others.append(condition)
        elif plain is not None:
            found[plain["field"]] = plain["value"]
        else:
            raise click.BadParameter(f"{condition} is not FIELD=VALUE", param_hint="--where")
    return {**found, "where": ",".join(others)} if others else found


def _several(condition: str) -> bool:
    """Whether it is a list of conditions, and not a value with commas."""
    try:
        return len(conditions.parse(condition).requirements) > 1
    except conditions.Invalid:
        return False


def _asked(what: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    """Kind and name of each request. Raises UsageError."""
    if "/" in what[0]:
        pairs: list[tuple[str, str | None]] = []
        for each in what:
            kind, slash, rest = each.partition("/")
            if not slash:
                raise click.UsageError(f"{each} is not KIND/NAME, as the arguments before it are")
            pairs.append((kind, rest))
    elif len(what) > 2:
        raise click.UsageError("name several as KIND/NAME, such as nodes/a nodes/b")
    else:
        pairs = [(what[0], what[1] if len(what) == 2 else None)]
    for kind, name in pairs:
        full = _SHORT.get(kind, kind)
        if full not in RESOURCES:
            raise click.UsageError(f"{kind!r} is not one of {', '.join(RESOURCES)}")
        if name is None and not RESOURCES[full].listed:
            raise click.UsageError(f"{full} requires a name: topolog get {full} NAMESPACE/NAME")
        if name is not None and not RESOURCES[full].named:
            raise click.UsageError(f"{full} does not take a name")
        yield full, name


def named(item: Mapping[str, Any]) -> str:
    """The name by which an item is requested: NAMESPACE/NAME, or what identifies it alone."""
    if item.get("namespace") and item.get("name"):
        return f"{item['namespace']}/{item['name']}"
    return str(next((item[field] for field in _IDENTIFYING if item.get(field) not in (None, "")), "-"))


def _raw(client: api_client.ExtenderClient, path: str) -> Mapping[str, Any] | str:
    route, _, query = path.partition("?")
    if not route.startswith("/"):
        raise click.BadParameter(f"{path} does not begin with a slash", param_hint="--raw")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return client.get(urllib.parse.unquote(route), dict(pairs))


def _show_list(resource: Resource, reply: Mapping[str, Any], *, wide: bool) -> None:
    columns = dict(resource.columns)
    if wide:
        shown = {part for path in columns.values() for part in path.rstrip("#").split("+")}
        fields = dict.fromkeys(field for item in reply["items"] for field in item)
        columns |= {field.upper(): field for field in fields if field not in shown}
    rows = [[tables.pick(item, path) for path in columns.values()] for item in reply["items"]]
    tables.show(list(columns), rows)
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
