"""Everything that operators and programs can ask: put together and mounted on the Flask app.

The scheduler's verbs are mounted elsewhere and share nothing with this but the app: whatever is done
before or after a view here hangs on these blueprints, so that a verb pays for none of it.
"""

from typing import Any

import flask
import flask_smorest

from app.api import debug, documents, errors, moments, rendering, services
from app.api.v1 import (
    consistency,
    decisions,
    events,
    explanations,
    flags,
    nodes,
    pending,
    plugins,
    pods,
    processes,
    topologies,
)

BLUEPRINTS = (
    processes.routes,
    nodes.routes,
    pods.routes,
    explanations.routes,
    pending.routes,
    topologies.routes,
    decisions.routes,
    events.routes,
    flags.routes,
    consistency.routes,
    debug.routes,
)
_DESCRIPTION = (
    "What Topolog knows, at any moment that the log still reaches, and why it decided so."
    " Every reply says which position it shows (X-Topolog-Position) and how old that is in seconds"
    " (X-Topolog-Age). Lists have at most 1000 items a page."
)


def register(app: flask.Flask, given: services.Services) -> None:
    """Mount the introspection API, the debug flags, the document and the one error shape on the app."""
    services.install(app, given)
    app.json = rendering.Json(app)
    # A path that is spelled otherwise is answered as an error like all others, not by a redirection.
    app.url_map.merge_slashes = False
    app.config.update(OPENAPI_VERSION="3.1.0", OPENAPI_URL_PREFIX=None)
    api = flask_smorest.Api(
        app,
        spec_kwargs={
            "title": "Topolog",
            "version": given.version,
            "info": {
                "description": _DESCRIPTION,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
        },
    )
    api.DEFAULT_ERROR_RESPONSE_NAME = None
    for blueprint in (*BLUEPRINTS, plugins.blueprint(given.registry)):
        api.register_blueprint(blueprint)
    app.register_blueprint(documents.routes)
    documents.install(app, _document(api))
    errors.register(app, stamp=moments.stamp)


def _document(api: flask_smorest.Api) -> dict[str, Any]:
    """The OpenAPI document: what flask-smorest would answer by itself is not in it."""
    document: dict[str, Any] = api.spec.to_dict()
    components = document["components"]
    for unused in ("responses", "parameters", "headers"):
        components.pop(unused, None)
    for unused in ("Error", "PaginationMetadata"):
        components["schemas"].pop(unused, None)
    components["securitySchemes"] = {
        "certificate": {"type": "mutualTLS", "description": "A client certificate; its SAN gives the role."}
    }
    document["security"] = [{"certificate": []}]
    return document
