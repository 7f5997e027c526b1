"""``topolog get``: shows the cluster state known to an extender as tables."""

import signal
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client, moment_option
from app.cli.completion import items
from app.cli.get import facets, list_watch, lists, printers, resources, selectors, where_options
from app.cli.output import formats, paths
from app.domain import model
from app.framework import views

_SHOWN = 100
"""Rows of a table without --limit."""
_TABLES = (formats.TABLE, formats.WIDE)
"""Formats for people; what programs read is complete."""


class Path(click.ParamType[str]):
    """A path in an item; a wrong one is a usage error, before any request."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path as it is."""
        try:
            paths.compiled(value)
        except paths.Wrong as wrong:
            self.fail(str(wrong), param, ctx)
        return value


@click.command(
    "get",
    help="Show cluster state known to an extender.\n\n\b\n" + resources.listing() + "\n\n"
    "NAME selects one item (NAMESPACE/NAME if it is namespaced); several are named as KIND/NAME, as -o name"
    " writes them: -o json then has a document on a line for each, and -o yaml one behind a separator. Lists"
    " are limited by --limit. -o wide adds the columns that a table leaves"
    " out, and cuts no line at the width of a terminal.\n\n"
    "With -w, the list is followed by each item that is new or changed, until Ctrl-C (exit code 130); an item"
    " that is gone is named on standard error, and -o json has a document on a line for each item.\n\n"
    "The extender and the certificates are set by client.*; after `topolog up` on this machine the"
    " defaults work, and for a cluster those of the kubeconfig (--help of `topolog status`).",
)
@click.argument("what", nargs=-1, type=resources.KindArgument(), metavar="KIND [NAME] | KIND/NAME...")
@click.option("--raw", metavar="PATH", help="Print what `topolog view` answers at a path of the API.")
@click.option(
    "--at", type=moment_option.MOMENT, help="Show the state at this position instead of the current one."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Maximum number of items. Default: 100 in a table, and all with -w or in another format; of"
    " decisions and events always 100.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Filter decisions, such as by pod=ns/name or kept<3, and others by FIELD=VALUE: "
    + where_options.listing()
    + ".",
)
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="Only items of this namespace; that of NAME.",
)
@click.option(
    "-l",
    "--selector",
    type=selectors.Selector(),
    metavar="SELECTOR",
    help="Only items with these labels: a=b,c!=d,e in (f,g),h,!i. Of nodes, pods and pending.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Items of all namespaces, which is the default.")
@click.option(
    "--sort-by",
    type=Path(),
    metavar="PATH",
    help="Sort lists by the value at a path of the items, such as .name or .remaining.cpu.",
)
@click.option(
    "--facet",
    "chosen",
    multiple=True,
    type=click.Choice(facets.NAMES),
    help="Of decisions: how many have each value of this property, instead of a list. --limit is for each.",
)
@click.option(
    "-w", "--watch", is_flag=True, help="Print changes, too. Asks `topolog view` (client.view_url)."
)
@click.option("--no-headers", is_flag=True, help="Print tables without headings.")
@api_client.server_options
@formats.option(formats.TABLE, formats.WIDE, formats.NAME)
@click.pass_obj
def get_command(
    config: str | None,
    /,
    what: tuple[str, ...],
    raw: str | None,
    at: str | None,
    limit: int | None,
    where: tuple[str, ...],
    namespace: str | None,
    selector: model.Selector | None,
    all_namespaces: bool,
    sort_by: str | None,
    chosen: tuple[str, ...],
    watch: bool,
    no_headers: bool,
    output: str,
    **options: str | None,
) -> None:
    """Request resources and print them."""
    if raw is not None:
        filters = (at, limit, where, namespace, selector, all_namespaces, sort_by, chosen)
        if any(each not in (None, (), False) for each in (what, *filters, watch, no_headers)):
            raise click.UsageError(
                "--raw takes a path with its parameters, such as '/apis/v1/nodes?at=5', instead of KIND, NAME"
                " and the options of lists, and is not watched"
            )
        formats.show_document(_raw(api_client.view(config, options), raw), output)
        return
    if namespace and all_namespaces:
        raise click.UsageError("-n and -A exclude each other: -A shows every namespace")
    at = at or None  # Empty for now.
    if not what:
        raise click.UsageError("KIND or --raw is required; topolog get --help lists the kinds")
    asked = list(resources.asked(what, namespace or ""))
    if selector is not None:
        _refuse_labels(asked)
    selected = where_options.query(where, [kind for kind, _ in asked])
    if namespace and "namespace" in selected:
        raise click.UsageError("-n and --where namespace=... exclude each other: both select one namespace")
    reports = [kind for kind, _ in asked if not resources.RESOURCES[kind].columns]
    if at is not None and reports:
        raise click.UsageError(f"{reports[0]} is a report on the present; leave out --at")
    if chosen:
        if watch or sort_by or asked != [("decisions", None)]:
            raise click.UsageError("--facet counts decisions: topolog get decisions --facet reason")
        within = f"where=namespace={namespace}" if namespace else ""
        wanted = lists.selecting({"at": at, **selected}, within) if within else {"at": at, **selected}
        client = api_client.extender(config, options)
        facets.show(client, wanted, facets.Chosen(chosen, limit or _SHOWN), output, heading=not no_headers)
        return
    if watch:
        if len(asked) > 1:
            raise click.UsageError("-w watches one kind, or one item: topolog get nodes -w")
        list_watch.refuse(asked[0][0], at=at)
    client = api_client.view(config, options) if watch else api_client.extender(config, options)
    documents = formats.Stream(output, heading=not no_headers)
    for kind, name in asked:
        whole = (watch or output not in _TABLES) and not resources.RESOURCES[kind].endless
        most = limit or (None if whole else _SHOWN)
        selection = lists.Selection(most, namespace or "", sort_by or "", selector or model.Selector())
        request = _Request(client, {"at": at, **selected}, selection, output, several=len(asked) > 1)
        rows = printers.Rows(kind, output, documents, heading=not no_headers, name=name or "")
        if watch:
            request.watch(rows, name)
        elif name is None and resources.RESOURCES[kind].columns:
            request.show_list(rows)
        else:
            request.show_one(rows, name)


def _refuse_labels(asked: Sequence[tuple[str, str | None]]) -> None:
    """Raise UsageError for what a selector cannot select."""
    for kind, name in asked:
        if name is not None:
            raise click.UsageError("-l selects items of a list; leave out the name, or -l")
        if not resources.RESOURCES[kind].labelled:
            raise click.UsageError(f"leave out -l: nothing of {kind} has labels")


@dataclass(frozen=True, slots=True)
class _Request:
    """What is requested of each kind."""

    client: api_client.ExtenderClient
    query: Mapping[str, object]
    selection: lists.Selection
    output: str
    several: bool
    """More than one item is named, so that each is a document of a stream."""

    def show_list(self, rows: printers.Rows) -> None:
        """Print a list as it is now."""
        reply = lists.read(self.client, rows.kind, self.query, self.selection)
        if formats.columns(self.output) is None and formats.is_document(self.output):
            formats.show_document(reply, self.output)
            printers.note_left(reply)
        else:
            printers.show_list(rows, reply)

    def show_one(self, rows: printers.Rows, name: str | None) -> None:
        """Print an item, or the report of a kind that has no items."""
        reply = self._one(rows.kind, name)
        if formats.is_document(self.output) and (self.several or formats.columns(self.output) is not None):
            rows.show([reply])
        elif formats.is_document(self.output):
            formats.show_document(reply, self.output)
        elif self.output == formats.NAME:
            click.echo(rows.kind if name is None else f"{rows.kind}/{name}")
        else:
            printers.show_one(reply, rows.kind, heading=rows.heading)

    def watch(self, rows: printers.Rows, name: str | None) -> None:
        """Print a list or an item and its changes, until the user interrupts."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if name is None:
            list_watch.follow(self.client, rows, lambda: self._listed(rows.kind))
        else:
            self._one(rows.kind, name)  # One that does not exist at first is an error.
            list_watch.follow(self.client, rows, lambda: list_watch.one(lambda: self._one(rows.kind, name)))

    def _listed(self, kind: str) -> list_watch.Read:
        reply = lists.read(self.client, kind, self.query, self.selection)
        return list_watch.Read(reply["items"], lists.left(reply))

    def _one(self, kind: str, name: str | None) -> dict[str, Any]:
        resource = resources.RESOURCES[kind]
        if name and not resource.named:
            return self._of_list(kind, name)
        path = f"/apis/v1/{resource.path}" + (f"/{name}" if name else "")
        reply = self.client.get(path, self.query)
        if isinstance(reply, str):
            raise exits.Failed(exit_codes.UNREACHABLE, f"the reply to {path} is not JSON")
        return reply

    def _of_list(self, kind: str, name: str) -> dict[str, Any]:
        reply = lists.read(self.client, kind, self.query, lists.Selection(1, name=name))
        if not reply["items"]:
            raise exits.Failed(exit_codes.NEGATIVE, f"cannot find {views.singular(kind)} {name}")
        return dict(reply["items"][0])


def _raw(client: api_client.ExtenderClient, path: str) -> Mapping[str, Any] | str:
    route, _, query = path.partition("?")
    if not route.startswith("/"):
        raise click.BadParameter(f"{path} does not begin with a slash", param_hint="--raw")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return client.get(urllib.parse.unquote(route), pairs)
