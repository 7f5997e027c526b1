"""Reading a request's body, or refusing it before it is read.

kube-scheduler always announces the length, sends JSON and never compresses. What does otherwise is refused
by its head alone: nothing is decompressed, and nothing beyond the limit is read.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from app.serving import deadlines

JSON = "application/json"
CHARSETS = frozenset({"utf-8", "utf8"})


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why a body is not taken: an HTTP status, a code for programs and a sentence for people."""

    status: int
    reason_code: str
    message: str


def read(environ: Mapping[str, Any], limit: int) -> bytes | Refusal:
    """Return the whole body of a call with a JSON body of at most `limit` bytes, or why not.

    411 without a length, 413 over the limit, 415 for another content type or any encoding, 408 if it does
    not come in time, 400 if it ends early or the length is no number. After a refusal the connection is
    closed.
    """
    length = _announced(environ, limit)
    if isinstance(length, Refusal):
        abandon(environ)
        return length
    if not length:
        return b""
    try:
        data: bytes = environ["wsgi.input"].read(length)
    except deadlines.Late:
        return Refusal(408, "Timeout", f"the body of {length} bytes did not arrive in time")
    except OSError:
        return Refusal(400, "BodyCut", f"the connection ended before the body of {length} bytes did")
    if len(data) != length:
        return Refusal(400, "BodyCut", f"the body has {len(data)} bytes, not {length} as announced")
    return data


def abandon(environ: Mapping[str, Any]) -> None:
    """Leave the body unread, which ends the connection after the answer."""
    body = environ["wsgi.input"]
    if isinstance(body, deadlines.Payload):
        body.abandon()


def _announced(environ: Mapping[str, Any], limit: int) -> int | Refusal:
    if "HTTP_TRANSFER_ENCODING" in environ:
        return Refusal(411, "LengthRequired", "chunked bodies are not taken: send a Content-Length")
    announced = environ.get("CONTENT_LENGTH", "")
    if not announced:
        return Refusal(411, "LengthRequired", "the call has no Content-Length")
    if not announced.isascii() or not announced.isdigit():
        return Refusal(400, "BadRequest", "Content-Length is not a number")
    encoding = environ.get("HTTP_CONTENT_ENCODING", "")
    if encoding and encoding.strip().lower() != "identity":
        return Refusal(
            415, "UnsupportedMediaType", "bodies are not decompressed: send it without Content-Encoding"
        )
    if not _is_json(environ.get("CONTENT_TYPE", "")):
        return Refusal(415, "UnsupportedMediaType", f"Content-Type has to be {JSON}")
    # A number of more digits than this is over any limit, and not worth converting.
    length = int(announced) if len(announced) < 19 else limit + 1
    if length > limit:
        return Refusal(413, "BodyTooLarge", f"the body has more than {limit} bytes")
    return length


def _is_json(content_type: str) -> bool:
    if content_type == JSON:
        return True
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media != JSON:
        return False
    named = (parameter.partition("=") for parameter in parameters)
    return all(name != "charset" or value.strip('"') in CHARSETS for name, _, value in named)


class Turnstile:
    """Lets few large bodies be worked on at a time: each takes several times its size in memory.

    `above` is the size in bytes from which a body needs one of the `places`; smaller ones always pass.
    """

    def __init__(self, places: int, *, above: int, patience: float = 2.0) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._above = above
        self._patience = patience

    @contextlib.contextmanager
    def passing(self, environ: Mapping[str, Any]) -> Iterator[Refusal | None]:
        """Hold a place while the call is worked on; yield a refusal (503) if none came free in time."""
        announced = environ.get("CONTENT_LENGTH", "")
        if not announced.isdigit() or len(announced) >= 19 or int(announced) <= self._above:
            yield None
        elif self._places.acquire(timeout=self._patience):
            try:
                yield None
            finally:
                self._places.release()
        else:
            abandon(environ)
            yield Refusal(503, "TooManyLargeBodies", "too many calls with whole nodes at once: try again")
