"""The one page of the dashboard, its files and its headers.

The page holds no data: what it shows, its modules ask for. The policy allows no inline script or style, no
other origin, and HTML from text only through the policy of lit-html.
"""

from typing import Final

import flask

from app.api import errors
from app.api.dashboard import assets
from app.api.introspection import moments, services

routes = flask.Blueprint("dashboard", __name__)
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types lit-html"
)
HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_VIEWS: Final = ("pending", "pods", "workloads", "decisions", "compare", "health")
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="topolog-version" content="{version}">
<title>Topolog</title>
<link rel="icon" href="{base}/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{base}/vendor/uplot-1.6.32/uPlot.min.css">
<link rel="stylesheet" href="{base}/static/style.css">
<script src="{base}/vendor/uplot-1.6.32/uPlot.iife.min.js" defer></script>
<script type="module" src="{base}/static/main.js"></script>
</head>
<body>
<div id="app"><p class="starting">Loading the dashboard &hellip;</p></div>
<p id="announced" class="reader" role="status"></p>
<noscript><p class="starting">This page needs JavaScript; <code>topolog get</code> does not.</p></noscript>
</body>
</html>
"""


@routes.after_request
def _headers(response: flask.Response) -> flask.Response:
    for name, value in HEADERS:
        response.headers[name] = value
    return moments.stamp(response) if response.status_code >= 400 else response


@routes.get("/")
@routes.get("/dashboard")
def _home() -> flask.Response:
    response = flask.Response(status=302)
    response.headers["Location"] = "/dashboard/"
    return response


@routes.get("/dashboard/")
@routes.get("/dashboard/<path:view>")
def _page(view: str = "") -> flask.Response:
    if view and view.partition("/")[0] not in _VIEWS:
        raise errors.missing("view", view[:80])
    base = f"/dashboard/static/{assets.read().digest}"
    page = _PAGE.format(base=base, version=services.current().version)
    response = flask.Response(page, mimetype="text/html")
    response.headers["Cache-Control"] = "no-cache"
    return response


@routes.get("/dashboard/static/<digest>/<path:name>")
def _file(digest: str, name: str) -> flask.Response:
    held = assets.read()
    found = held.files.get(name)
    if found is None or digest != held.digest:
        raise errors.missing("file", name[:80])
    zipped = "gzip" in flask.request.headers.get("Accept-Encoding", "")
    response = flask.Response(found.gzipped if zipped else found.content, content_type=found.type)
    if zipped:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response
