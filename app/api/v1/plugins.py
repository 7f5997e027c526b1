"""The plugins' own views, mounted below /apis/v1/plugins/NAME/ as they describe them.

A plugin knows no HTTP: it gives a path, a sentence, an example and a pure function of the snapshot.
Everything else (moments, pages, the 404 rule, the document) is the same for all of them.
"""

from collections.abc import Callable

import msgspec
from marshmallow import Schema, fields

from app.api import blueprints, errors, moments, pages, queries, schemas
from app.framework import capabilities, registry


class PluginView(Schema):
    """Whatever the plugin shows: see the example."""

    class Meta:
        """Fields are the plugin's."""

        unknown = "include"


class PluginList(Schema):
    """A list of what the plugin shows: see the example."""

    items = fields.List(fields.Raw(), required=True)
    metadata = fields.Nested(schemas.ListMetadata, required=True)


def blueprint(plugins: registry.Registry) -> blueprints.Blueprint:
    """The routes of all plugins that show something."""
    routes = blueprints.create("plugins", "/apis/v1/plugins", "What the plugins show of their state.")
    for plugin in plugins.serves:
        for at, endpoint in enumerate(plugin.endpoints()):
            _mount(routes, plugin.name, endpoint, f"{plugin.name}-{at}")
    return routes


def _mount(
    routes: blueprints.Blueprint, plugin: str, endpoint: capabilities.Endpoint, identifier: str
) -> None:
    listed = isinstance(endpoint.example, list)
    view = _view(endpoint)
    view.__doc__ = endpoint.summary
    view.__name__ = identifier
    blueprints.get(
        routes,
        f"/{plugin}/{endpoint.path}",
        PluginList if listed else PluginView,
        query=queries.Page if listed else queries.Moment,
        example=_example(endpoint.example) if listed else endpoint.example,
        endpoint=identifier,
        dumped=False,
    )(view)


def _view(endpoint: capabilities.Endpoint) -> Callable[..., object]:
    def view(query: pages.Query, **parameters: str) -> object:
        shown = pages.moment(query) if "limit" in query else moments.take(query.get("at") or moments.NOW)
        answer = endpoint.handle(shown.snapshot, parameters)
        if answer is None:
            raise errors.missing(endpoint.path.partition("/")[0], "/".join(parameters.values()))
        if isinstance(answer, capabilities.Listed):
            paged = query if "limit" in query else {**query, "limit": pages.MOST}
            keys, metadata = pages.cut(answer.keys, paged, shown)
            return {"items": [msgspec.to_builtins(answer.item(key)) for key in keys], "metadata": metadata}
        return msgspec.to_builtins(answer)

    return view


def _example(items: object) -> pages.Body:
    metadata = {"position": "3f2a/1042", "asOf": "2026-07-01T12:00:00.000Z", "continue": None, "remaining": 0}
    return {"items": items, "metadata": metadata}
