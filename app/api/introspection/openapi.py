"""Composes and serves /openapi.json, and a page for people that loads nothing from other servers."""

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import flask
import flask_smorest

from app.api.introspection import blueprints, moments

routes = flask.Blueprint("documents", __name__)
routes.after_request(moments.stamp)
_SPEC = "topolog.openapi"
_DESCRIPTION = (
    "The cluster state at any moment that the log still covers, and the reasons of every decision."
    " Every response carries the log position that it shows (X-Topolog-Position) and its age in seconds"
    " (X-Topolog-Age). Lists have at most 1000 items and about 1 MiB per page: metadata.continue"
    " leads to the others. Answers about a window carry the oldest offset that can be shown"
    " (X-Topolog-Oldest); while the archive is away, it is that of the store."
)
Compose = Callable[[], Mapping[str, Any]]


def install(app: flask.Flask, composed: Compose) -> None:
    """Serve the document, composed by the first request for it.

    It describes every route and field, which takes longer than to mount them, and few processes are asked.
    """
    once, lock = functools.cache(composed), threading.Lock()

    def document() -> Mapping[str, Any]:
        with lock:
            return once()

    app.extensions[_SPEC] = document


def compose(
    mounted: Iterable[blueprints.Blueprint],
    *,
    questions: Mapping[str, Mapping[str, Any]],
    shapes: Mapping[str, Mapping[str, Any]],
    version: str,
) -> dict[str, Any]:
    """The OpenAPI document of these routes, without the answers of flask-smorest that are never sent.

    ``questions`` and ``shapes``: name -> schema, of what routes take and of what plugins add to answers.
    """
    # An application of its own: flask-smorest mounts what it describes.
    described = flask.Flask("topolog", static_folder=None)
    described.config.update(OPENAPI_VERSION="3.1.0", OPENAPI_URL_PREFIX=None)
    info = {
        "description": _DESCRIPTION,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }
    api = flask_smorest.Api(described, spec_kwargs={"title": "Topolog", "version": version, "info": info})
    api.DEFAULT_ERROR_RESPONSE_NAME = None
    for name, shape in questions.items():
        api.spec.components.schema(name, shape)
    for blueprint in mounted:
        api.register_blueprint(blueprint)
    for name, shape in shapes.items():
        api.spec.components.schema(name, shape)
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


@routes.get("/openapi.json")
def document() -> flask.Response:
    """The OpenAPI document."""
    return flask.jsonify(flask.current_app.extensions[_SPEC]())


@routes.get("/docs")
def page() -> flask.Response:
    """The OpenAPI document for people."""
    spec = flask.current_app.extensions[_SPEC]()
    response = flask.Response(flask.render_template_string(_PAGE, spec=spec))
    response.headers["Content-Security-Policy"] = _POLICY
    return response


@routes.get("/docs/style.css")
def style() -> flask.Response:
    """The style of the page: a file, because the policy allows no inline style."""
    return flask.Response(_STYLE, mimetype="text/css", headers={"Content-Security-Policy": _POLICY})


_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ spec.info.title }}</title>
<link rel="stylesheet" href="/docs/style.css">
<h1>{{ spec.info.title }} {{ spec.info.version }}</h1>
<p>{{ spec.info.description }} The document for programs: <a href="/openapi.json">/openapi.json</a>.</p>
{% for tag in spec.tags %}
<h2>{{ tag.name }}</h2>
<p>{{ tag.description }}</p>
{% for path, item in spec.paths.items() %}{% for method, operation in item.items() %}
{% if method != "parameters" and tag.name in operation.tags %}
<details>
<summary><b>{{ method.upper() }}</b> {% if method == "get" and "{" not in path
  %}<a href="{{ path }}"><code>{{ path }}</code></a>{% else %}<code>{{ path }}</code>{% endif %}
 {{ operation.summary }}</summary>
<div>
{% if operation.description %}<p>{{ operation.description }}</p>{% endif %}
<table>
{% for parameter in operation.get("parameters", []) + item.get("parameters", []) %}
<tr><td><code>{{ parameter.name }}</code></td><td>{{ parameter.in }}</td>
<td>{{ parameter.description or "" }}{% if parameter.schema.enum %}
 One of {{ parameter.schema.enum | join(", ") }}.{% endif %}</td></tr>
{% endfor %}
</table>
{% for status, answer in operation.responses.items() if status == "200" %}
{% for kind, body in answer.get("content", {}).items() %}
<p>{{ status }} <code>{{ kind }}</code>{% if body.schema and body.schema["$ref"] %}
 <a href="#{{ body.schema["$ref"].split("/") | last }}">{{ body.schema["$ref"].split("/") | last }}</a>
{% endif %}</p>
{% if body.example %}<pre>{{ body.example | tojson(indent=2) }}</pre>{% endif %}
{% endfor %}{% endfor %}
</div>
</details>
{% endif %}{% endfor %}{% endfor %}{% endfor %}
<h2>Answers</h2>
{% for name, schema in spec.components.schemas.items() %}
<details id="{{ name }}"><summary><b>{{ name }}</b></summary><div><table>
{% for field, shape in schema.get("properties", {}).items() %}
<tr><td><code>{{ field }}</code></td><td>{{ shape.type or "" }}</td>
<td>{{ shape.description or "" }}</td></tr>
{% endfor %}</table></div></details>
{% endfor %}
</html>
"""
_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
summary { cursor: pointer; padding: .35rem .5rem; border-left: 3px solid #4a7; background: #f5f7f6 }
summary b { font-family: ui-monospace, monospace } details { margin: .4rem 0 }
details > div { padding: .2rem 1rem } table { border-collapse: collapse }
td { padding: .15rem .8rem .15rem 0; vertical-align: top }
code, pre { font-family: ui-monospace, monospace; font-size: 13px }
pre { background: #f5f7f6; padding: .6rem; overflow: auto }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181a1b }
  summary, pre { background: #232627 } a { color: #8cf } }
"""
