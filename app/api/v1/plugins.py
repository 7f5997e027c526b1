"""Mounts the views of plugins below /apis/v1/plugins/NAME/.

A plugin describes a view as data: a path, a summary, an example and a pure function of the snapshot. Moments,
pages, errors and the document are the same for all of them.
"""

from collections.abc import Callable

import msgspec
from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas
from app.framework import pipeline, registry, views

PREFIX = "/apis/v1/plugins"


class PluginView(Schema):
    """An object of the plugin: see the example."""

    class Meta:
        """The plugin defines the fields."""

        unknown = "include"


class PluginList(Schema):
    """A list of objects of the plugin: see the example."""

    items = fields.List(fields.Raw(), required=True)
    metadata = fields.Nested(schemas.ListMetadata, required=True)


def blueprint(plugins: registry.Registry) -> blueprints.Blueprint:
    """The routes of all plugins that have views."""
    routes = blueprints.create("plugins", PREFIX, "Views of the plugins on their state.")
    for name, shown in plugins.shown.items():
        for at, endpoint in enumerate(shown.endpoints):
            handle = endpoint.beside(pipeline.peers(plugins, name)) if endpoint.beside else endpoint.handle
            _mount(routes, name, endpoint, handle, f"{name}-{at}")
    return routes


def _mount(
    routes: blueprints.Blueprint,
    plugin: str,
    endpoint: views.Endpoint,
    handle: views.Handle,
    identifier: str,
) -> None:
    listed = isinstance(endpoint.example, list)
    view = _view(endpoint.path, handle)
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


def _view(path: str, handle: views.Handle) -> Callable[..., object]:
    def view(query: pages.Query, **parameters: str) -> object:
        shown = pages.moment(query) if "limit" in query else moments.take(query.get("at") or moments.NOW)
        answer = handle(shown.snapshot, parameters)
        if answer is None:
            raise errors.missing(views.singular(path.partition("/")[0]), "/".join(parameters.values()))
        if isinstance(answer, views.Listed):
            paged = query if "limit" in query else {**query, "limit": pages.MAX_LIMIT}
            item = answer.item
            return pages.listed(answer.keys, paged, shown, lambda key: msgspec.to_builtins(item(key)))
        return msgspec.to_builtins(answer)

    return view


def _example(items: object) -> pages.Body:
    metadata = {"position": "3f2a/1042", "asOf": "2026-07-01T12:00:00.000Z", "continue": None, "remaining": 0}
    return {"items": items, "metadata": metadata}
