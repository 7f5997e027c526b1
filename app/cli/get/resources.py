"""The kinds of ``topolog get``, and which of them the arguments ask for."""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
from click import shell_completion

from app import misspellings, plugins
from app.cli.completion import items
from app.framework import registry, views


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the introspection API."""

    path: str
    """Below /apis/v1."""
    about: str
    columns: Mapping[str, str]
    """Heading -> path of the value (tables.pick)."""
    named: bool = False
    """The API has one item by name; else it is the one of the list."""
    namespace: str = ""
    """Path of the namespace, or of NAMESPACE/NAME, in an item (tables.pick); empty if items have none."""
    identity: str = ""
    """Field with the name of an item, where its namespace and name are not unique."""
    select: str = ""
    """The query by which the API itself selects a namespace, such as ``namespace={}``."""
    select_name: tuple[str, ...] = ()
    """The parameters by which the API itself selects the item of a name, which is a number: each has it."""
    other_names: tuple[str, ...] = ()
    """Fields by which an item may be named, too."""
    conditions: tuple[str, ...] = ()
    """The fields of --where=FIELD=VALUE: parameters of the API."""
    labelled: bool = False
    """Items have labels."""
    prefixed: bool = False
    """The API itself selects by what the name begins with."""
    endless: bool = False
    """A list of what happened, whose end is not read to sort it."""
    recorded: bool = True
    """Whether it changes only by events of the log."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Field of one object -> what its numbers are, where they would be read as counts."""

    @property
    def within_namespaces(self) -> bool:
        """Items are named within a namespace, and not by a number or an id."""
        return bool(self.namespace) and not self.endless


_CORE: Mapping[str, Resource] = {
    "nodes": Resource(
        "nodes",
        "nodes and their remaining capacity",
        {"NAME": "name", "READY": "ready", "CORDONED": "unschedulable", "PODS": "pods", "LEFT": "remaining"},
        named=True,
        labelled=True,
        prefixed=True,
    ),
    "pods": Resource(
        "pods",
        "all pods; with NAMESPACE/NAME also the placement of one",
        {
            "POD": "namespace+name",
            "STATE": "state",
            "NODE": "node",
            "PRIORITY": "priority",
            "OWNER": "owner",
            "CREATED": "created",
        },
        named=True,
        namespace="namespace",
        select="namespace={}",
        conditions=("namespace",),
        labelled=True,
        prefixed=True,
    ),
    "pending": Resource(
        "pending",
        "pending pods and the changes that would let them fit",
        {
            "POD": "namespace+name",
            "AGE": "age~",
            "ATTEMPTS": "attempts",
            "REASON": "reason!",
            "SMALLEST CHANGE": "change.0",
        },
        namespace="namespace",
        labelled=True,
    ),
    "topology": Resource(
        "topology",
        "node domains with counts",
        {"KEY": "key", "VALUE": "value", "NODES": "nodes", "READY": "ready", "PODS": "pods"},
        conditions=("levels", "within"),
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
        namespace="pod.namespace",
        select="where=namespace={}",
        conditions=(
            *("pod", "namespace", "node", "plugin", "reason", "object", "outcome", "verb", "since", "until"),
        ),
        endless=True,
        recorded=False,
    ),
    "events": Resource(
        "events",
        "entries of the log",
        {"OFFSET": "offset", "AT": "at", "TYPE": "type", "NAME": "name"},
        namespace="name",
        identity="offset",
        select_name=("from", "to"),
        conditions=("from", "to", "type", "object"),
        endless=True,
    ),
    "flags": Resource(
        "flags",
        "debug flags",
        {"FLAG": "name", "NAME": "title", "VALUE": "value", "POD": "pod", "UNTIL": "until"},
        other_names=("title",),
    ),
    "shadows": Resource(
        "shadows",
        "edits that every decision is compared with; differences at the URL of `topolog view`",
        {
            "SHADOW": "name",
            "SINCE": "since",
            "UNTIL": "until",
            "BY": "by",
            "COMPARED": "numbers.examined",
            "SAME": "numbers.same",
            "NOTE": "note",
        },
        named=True,
        recorded=False,
    ),
    "consistency": Resource(
        "consistency",
        "consistency report (counts vs. log vs. API server)",
        {},
        units={
            "oldest": "first offset of the log",
            "folded": "replayed from this offset",
            "proven": "replayed up to this offset",
            "versions": "offset when last compared",
            "checkpoints": "offset when last verified",
            "facts": "offset when last compared",
            "total": "open differences",
        },
    ),
    "lag": Resource(
        "lag",
        "how far the extender lags behind the log",
        {},
        units={
            "began": "offset",
            "head": "last offset of the log",
            "behind": "events",
            "listed": "resourceVersion of the latest list",
        },
    ),
}


def _of_plugins() -> Iterator[tuple[str, Resource]]:
    """The tables that installed plugins declare, by name. Raises ConfigurationRefused."""
    for plugin, table in plugins.catalog().tables:
        if table.name in _CORE or table.name in SHORT:
            raise registry.ConfigurationRefused(
                f"plugin {plugin} declares the table {table.name}, which exists without a plugin; give it"
                " another name, or uninstall the distribution of the plugin"
            )
        path = f"plugins/{plugin}/{table.path}"
        yield (
            table.name,
            Resource(
                path,
                table.about,
                table.columns,
                named=table.named,
                namespace=table.namespace,
                identity=table.identity,
            ),
        )


SHORT = {"no": "nodes", "po": "pods", "ev": "events"}
"""Short name, as kubectl's -> kind."""
RESOURCES: Mapping[str, Resource] = {**_CORE, **dict(sorted(_of_plugins(), key=operator.itemgetter(0)))}
_KINDS: Mapping[str, str] = {**{views.singular(kind): kind for kind in RESOURCES}, **SHORT}
"""Singular or short name -> kind."""

_IDENTIFYING = ("id", "name", "pod", "budget")
"""Fields that identify an item without a namespace, the first that it has."""


def listing() -> str:
    """A line about each kind, for the help."""
    return "\n".join(f"  {name:<11} {kind.about}" for name, kind in RESOURCES.items())


class KindArgument(click.ParamType[str]):
    """A kind, or KIND/NAME."""

    name = "kind"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """Kinds that begin like this; after KIND, names of that kind."""
        given = ctx.params.get("what") or ()
        kind_given, slash, _ = incomplete.partition("/")
        if slash and kind_given in {*RESOURCES, *_KINDS}:
            before = f"{kind_given}/"
            names = _names(ctx, kind_given, incomplete.removeprefix(before))
            return items.offered((before + name for name in names), incomplete)
        if not given:
            return [
                shell_completion.CompletionItem(name, help=kind.about)
                for name, kind in RESOURCES.items()
                if name.startswith(incomplete)
            ]
        return items.offered(_names(ctx, given[0], incomplete), incomplete) if len(given) == 1 else []


def _names(ctx: click.Context, given: str, incomplete: str) -> Iterator[str]:
    """Names of a kind, to complete one; without the namespace, if -n has it."""
    kind = RESOURCES.get(_KINDS.get(given, given))
    if kind is None or not kind.columns:
        return
    inside = items.within(ctx, incomplete) if kind.within_namespaces else ""
    found = items.listed(ctx, kind.path, prefix=inside + incomplete if kind.prefixed else "")
    for name in (named(kind, item) for item in found):
        if name.startswith(inside):
            yield name.removeprefix(inside)


def asked(what: tuple[str, ...], namespace: str = "") -> Iterator[tuple[str, str | None]]:
    """Kind and name of each request; ``namespace``: that of names without one. Raises UsageError."""
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
        full = _KINDS.get(kind, kind)
        if full not in RESOURCES:
            raise click.UsageError(_unknown(kind))
        if name is not None and not RESOURCES[full].columns:
            raise click.UsageError(f"{full} does not take a name")
        if name is not None and not _is_name(RESOURCES[full], name):
            raise click.UsageError(f"{name!r} is not the name of one of {full}")
        if name and "/" not in name and not namespace and RESOURCES[full].within_namespaces:
            raise click.UsageError(f"{full}/{name} needs a namespace: NAMESPACE/{name}, or -n NAMESPACE")
        yield full, _within(full, name, namespace) if namespace else name


def _is_name(kind: Resource, name: str) -> bool:
    """Whether an item may have the name; what the API finds by a path has its parts alone."""
    parts = name.split("/")
    most = 1 + kind.within_namespaces if kind.named and not kind.identity else len(parts)
    return len(parts) <= most and {"", ".", ".."}.isdisjoint(parts)


def _unknown(kind: str) -> str:
    meant = misspellings.meant(kind.lower(), [*RESOURCES, *_KINDS])
    return f"{kind!r} is not one of {', '.join(RESOURCES)}{meant}"


def _within(kind: str, name: str | None, namespace: str) -> str | None:
    """The name, with the namespace. Raises UsageError."""
    if not RESOURCES[kind].namespace:
        raise click.UsageError(f"leave out -n: no namespace contains {kind}")
    if name is None or RESOURCES[kind].endless:
        return name
    before, slash, _ = name.rpartition("/")
    if slash and before.rpartition("/")[2] != namespace:  # what comes before the namespace is a family
        raise click.UsageError(f"{kind}/{name} is not in the namespace {namespace} of -n")
    return name if slash else f"{namespace}/{name}"


def named(kind: Resource, item: Mapping[str, Any]) -> str:
    """The name by which an item is requested: NAMESPACE/NAME, or what identifies it alone."""
    if item.get(kind.identity):
        return str(item[kind.identity])
    # Some are known by their name alone, although their objects have a namespace.
    if kind.namespace and item.get("namespace") and item.get("name"):
        return f"{item['namespace']}/{item['name']}"
    found = next((item[field] for field in _IDENTIFYING if item.get(field) not in (None, "")), None)
    return f"{item['key']}={item['value']}" if found is None else str(found)


def is_named(kind: Resource, item: Mapping[str, Any], name: str) -> bool:
    """Whether the item is requested by this name."""
    return name in (named(kind, item), *(item[field] for field in kind.other_names))
