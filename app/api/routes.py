"""Mounts the introspection API on the Flask app.

The scheduler's verbs are mounted elsewhere (extender.mount). Hooks before and after a view belong to these
blueprints, so that a verb pays for none of them.
"""

from collections.abc import Iterable
from typing import Any

import flask

from app.api import errors
from app.api.dashboard import pages
from app.api.introspection import (
    blueprints,
    json_responses,
    moments,
    openapi,
    question_metrics,
    schemas,
    services,
)
from app.api.v1 import (
    consistency,
    debug,
    decisions,
    events,
    explanations,
    flags,
    nodes,
    pending_pods,
    plugins,
    pods,
    preemptions,
    processes,
    topologies,
)
from app.api.v1.exports import exports
from app.api.v1.pictures import chronicle, clusters, facets, frames, lives, maps, reasons, series, watches
from app.api.v1.questions import bisections, diffs, documents, fits, replays, shadows, simulations

FIRST = (processes.routes, nodes.routes)
REST = (
    explanations.routes,
    preemptions.routes,
    pending_pods.routes,
    topologies.routes,
    decisions.routes,
    events.routes,
    flags.routes,
    consistency.routes,
    debug.routes,
    simulations.routes,
    fits.routes,
    diffs.routes,
    replays.routes,
    bisections.routes,
    shadows.routes,
    clusters.routes,
    maps.routes,
    lives.routes,
    reasons.routes,
    facets.routes,
)
VIEWED = (frames.routes, series.routes, chronicle.routes, watches.routes, exports.routes)
"""Heavy routes and streams, which an extender does not have."""
_VIEWED_PATHS = ("frames", "series", "moments", "watch", "export")


def register(app: flask.Flask, given: services.Services, *, viewed: bool = True) -> None:
    """Mount the introspection API, the debug flags, the OpenAPI document and the error handlers.

    ``viewed``: also the heavy routes and streams of ``topolog view``; an extender names it instead.
    """
    services.install(app, given)
    app.json = json_responses.Json(app)
    # A path with doubled slashes is a 404 in our form, not a redirect.
    app.url_map.merge_slashes = False
    mounted = (
        *FIRST,
        pods.blueprint(given.registry),
        *REST,
        *(VIEWED if viewed else ()),
        plugins.blueprint(given.registry),
    )
    for blueprint in mounted:
        blueprint.register(app, {})
    if viewed:
        question_metrics.install(app)
        app.register_blueprint(pages.routes)
    else:
        for path in _VIEWED_PATHS:
            app.add_url_rule(f"/apis/v1/{path}", f"viewed-{path}", _elsewhere)
    app.register_blueprint(openapi.routes)
    openapi.install(app, lambda: _document(given, mounted))
    errors.register(app, stamp=moments.stamp)


def _elsewhere() -> flask.Response:
    path = flask.request.path
    text = f"{path} is answered by `topolog view` (view.port), not by an extender"
    raise errors.Problem(404, "NotFound", text)


def _document(given: services.Services, mounted: Iterable[blueprints.Blueprint]) -> dict[str, Any]:
    shapes = [field.shape for shown in given.registry.shown.values() for field in shown.pod_fields]
    return openapi.compose(
        mounted,
        questions=documents.components(given.registry),
        shapes=schemas.components(shapes),
        version=given.version,
    )
