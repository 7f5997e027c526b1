"""Counts the requests to the REST API of a process by route and status."""

import types
import wsgiref.types
from collections.abc import Callable, Iterable
from typing import Final

from app.telemetry import metrics

ROUTES: Final = (
    *("__services__", "bisect", "cluster", "consistency", "decisions", "diff", "events", "export", "fit"),
    *("flags", "frames", "lag", "map", "moments", "nodes", "overrides", "pending", "plugins", "pods"),
    *("replay", "series", "settings", "shadows", "simulate", "status", "store", "topology", "transformers"),
    "watch",
)
"""What follows ``/apis/v1/`` in a path of the REST API."""
_API: Final = "/apis/v1/"
_Error = tuple[type[BaseException], BaseException, types.TracebackType] | tuple[None, None, None] | None


def counted(application: wsgiref.types.WSGIApplication) -> wsgiref.types.WSGIApplication:
    """The application, whose requests are counted once their status is known."""

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        route = route_of(environ["PATH_INFO"])

        def begin(
            status: str, headers: list[tuple[str, str]], error: _Error = None, /
        ) -> Callable[[bytes], object]:
            metrics.HTTP_REQUESTS.labels(route, status[:3]).inc()
            return start(status, headers, error)

        return application(environ, begin)

    return answer


def route_of(path: str) -> str:
    """The label of a path in metrics: from a closed list, because any caller chooses paths."""
    found = path.removeprefix(_API).partition("/")[0] if path.startswith(_API) else ""
    return found if found in ROUTES else metrics.OTHER
