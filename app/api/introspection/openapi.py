"""Serves /openapi.json, and a page for people that loads nothing from other servers."""

from collections.abc import Mapping
from typing import Any

import flask

from app.api.introspection import moments

routes = flask.Blueprint("documents", __name__)
routes.after_request(moments.stamp)
_SPEC = "topolog.openapi"


def install(app: flask.Flask, spec: Mapping[str, Any]) -> None:
    """Set the finished document; nothing is mounted later."""
    app.extensions[_SPEC] = spec


@routes.get("/openapi.json")
def document() -> flask.Response:
    """The OpenAPI document."""
    return flask.jsonify(flask.current_app.extensions[_SPEC])


@routes.get("/docs")
def page() -> flask.Response:
    """The OpenAPI document for people."""
    spec = flask.current_app.extensions[_SPEC]
    response = flask.Response(flask.render_template_string(_PAGE, spec=spec, methods=_METHODS))
    response.headers["Content-Security-Policy"] = _POLICY
    return response


@routes.get("/docs/style.css")
def style() -> flask.Response:
    """The style of the page: a file, because the policy allows no inline style."""
    return flask.Response(_STYLE, mimetype="text/css", headers={"Content-Security-Policy": _POLICY})


_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_METHODS = ("get", "put", "post")
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
{% for path, item in spec.paths.items() %}{% for method in methods %}
{% set operation = item.get(method) %}
{% if operation and tag.name in operation.tags %}
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
