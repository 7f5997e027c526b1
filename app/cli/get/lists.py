"""Lists of ``topolog get``: read page by page where the API cannot select or sort by itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client
from app.cli.get import resources
from app.cli.output import notes, paths, progress, tables
from app.domain import model, selectors

_PAGE = 500
"""Items of one request; the API allows 1,000."""
_MOST = 20_000
"""Items that are read for one list with a limit. For a name all are, because one that exists has to be
found."""
_OFFSET: Final = re.compile(r"[1-9][0-9]{0,17}")


_ALL: Final = model.Selector()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items of a list are shown, and in which order."""

    limit: int | None
    """None: all."""
    namespace: str = ""
    sort: str = ""
    """A path (app.cli.output.paths); empty: as the API has them."""
    labels: model.Selector = _ALL
    """Only items with these labels."""
    name: str = ""
    """Only the item with this name (resources.is_named)."""


def read(
    client: api_client.ExtenderClient,
    kind: str,
    query: Mapping[str, object],
    selection: Selection,
) -> dict[str, Any]:
    """The list, as one page of the API would have it. Raises Failed; BadParameter for a path of nothing."""
    resource = resources.RESOURCES[kind]
    path = f"/apis/v1/{resource.path}"
    whole = bool(selection.sort) and not resource.endless
    if selection.namespace and resource.select:
        query = selecting(query, resource.select.format(selection.namespace))
        selection = replace(selection, namespace="")
    if selection.name and resource.select_name:
        if not _OFFSET.fullmatch(selection.name):
            return {"items": []}
        query = {**query, **dict.fromkeys(resource.select_name, selection.name)}
    if not (whole or selection.namespace or selection.labels.expressions or selection.name):
        reply = _filled(client, path, query, selection.limit)
        return {**reply, "items": _sorted(reply["items"], selection.sort)}
    items: list[Mapping[str, Any]] = []
    seen = 0
    limit = selection.limit
    bounded = limit is not None and not selection.name
    asked: dict[str, object] = {**query, "limit": _PAGE}
    while True:
        reply = _page(client, path, asked)
        seen += len(reply["items"])
        items += (one for one in reply["items"] if _is_selected(resource, one, selection))
        following = (reply.get("metadata") or {}).get("continue")
        found = limit is not None and len(items) >= limit and not whole
        if not following or found or (seen >= _MOST and bounded):
            break
        asked["continue"] = following
    if following and not found:
        notes.once(f"{kind} read", f"only the first {seen} {kind} were read")
    shown = _sorted(items, selection.sort)[:limit]
    left = len(items) - len(shown)
    # Where the API has more, the number of those that are selected is not known.
    metadata = {**(reply.get("metadata") or {}), "remaining": None if following else left}
    return {**reply, "items": shown, "metadata": metadata}


def _filled(
    client: api_client.ExtenderClient, path: str, query: Mapping[str, object], limit: int | None
) -> dict[str, Any]:
    """The list up to the limit; a page of the API may be short, because it covers a part of the log."""
    items: list[Mapping[str, Any]] = []
    asked: Mapping[str, object] = query
    with progress.shown(f"reading {path}") as line:
        while True:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(items))
            reply = _page(client, path, {**asked, "limit": wanted})
            items += reply["items"]
            following = (reply.get("metadata") or {}).get("continue")
            enough = limit is not None and len(items) >= limit
            if not following or following == asked.get("continue") or enough:
                return {**reply, "items": items}
            most = "" if limit is None else f" of at most {limit}"
            line.text = f"reading {path}: {len(items)}{most} found"
            asked = {**query, "continue": following}


def left(reply: Mapping[str, Any]) -> int | None:
    """How many items of the list are not in the reply; None if that is unknown."""
    metadata = reply.get("metadata") or {}
    return metadata.get("remaining") or (None if metadata.get("continue") else 0)


def selecting(query: Mapping[str, object], condition: str) -> Mapping[str, object]:
    """The query with a parameter more; a condition is added to those that it has."""
    name, _, value = condition.partition("=")
    held = query.get(name)
    return {**query, name: f"{held},{value}" if held else value}


def _page(client: api_client.ExtenderClient, path: str, query: Mapping[str, object]) -> dict[str, Any]:
    reply = client.get(path, query)
    if isinstance(reply, str) or not isinstance(reply.get("items"), list):
        raise exits.Failed(
            exit_codes.UNREACHABLE, f"{client.client.url} is not an extender: {path} has no list of items"
        )
    return reply


def _is_selected(resource: resources.Resource, item: Mapping[str, Any], selection: Selection) -> bool:
    """Whether the item is in the namespace, which a path may name as NAMESPACE/NAME, and has the labels."""
    if selection.labels.expressions and not selectors.matches(selection.labels, item["labels"]):
        return False
    if selection.name and not resources.is_named(resource, item, selection.name):
        return False
    if not selection.namespace:
        return True
    found = str(tables.pick(item, resource.namespace))
    return found == selection.namespace or found.startswith(f"{selection.namespace}/")


def _sorted(items: list[Mapping[str, Any]], path: str) -> list[Mapping[str, Any]]:
    if not path:
        return items
    try:
        return paths.ordered(items, path)
    except paths.Wrong as wrong:
        raise click.BadParameter(str(wrong), param_hint="--sort-by") from wrong
