"""Validates request bodies by their headers and bounds the memory that they take.

kube-scheduler always sends JSON with a Content-Length and without compression. Any other request is refused
by its head: nothing is decompressed, and nothing beyond the limit is read.
"""

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any, Final

JSON = "application/json"
CHARSETS = frozenset({"utf-8", "utf8"})
SMALL: Final = 64 * 1024
"""Maximum body size in bytes of requests other than verbs and hypothetical questions."""
QUESTION: Final = 1024 * 1024
"""Maximum body size in bytes of a hypothetical question."""
OTHER_BUDGET: Final = 16 * QUESTION
"""Bytes that the bodies of requests other than verbs take together: no memory that the verbs need."""
RETRY_SECONDS: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class RequestRefusal:
    """A refused request: HTTP status, reason code, message and additional headers."""

    status: int
    reason_code: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


CHUNKED = RequestRefusal(411, "LengthRequired", "chunked bodies are not supported: send a Content-Length")
LATE = RequestRefusal(408, "Timeout", "the body did not arrive in time")
CUT = RequestRefusal(400, "BodyCut", "the connection was closed before the body was complete")
CROWDED = RequestRefusal(
    503,
    "TooManyLargeBodies",
    "too many concurrent calls with large bodies: retry later",
    (("Retry-After", str(RETRY_SECONDS)),),
)
THREADLESS = RequestRefusal(
    503,
    "Unavailable",
    "this process cannot start a thread for the stream: retry later",
    (("Retry-After", str(RETRY_SECONDS)),),
)
BUSY = RequestRefusal(
    429,
    "TooManyRequests",
    "too many concurrent requests: retry later",
    (("Retry-After", str(RETRY_SECONDS)),),
)


def of_json(environ: Mapping[str, Any], limit: int) -> int | RequestRefusal:
    """Return the size of a JSON body of at most `limit` bytes, or why it is refused.

    411 without a length, 413 over the limit, 415 for another content type or an encoding, 400 for an invalid
    length.
    """
    length = _content_length(environ, limit)
    if isinstance(length, RequestRefusal):
        return length
    if length is None:
        return RequestRefusal(411, "LengthRequired", "the request has no Content-Length")
    encoding = environ.get("HTTP_CONTENT_ENCODING", "")
    if encoding and encoding.strip().lower() != "identity":
        return RequestRefusal(
            415, "UnsupportedMediaType", "compressed bodies are not supported: send no Content-Encoding"
        )
    if not _is_json(environ.get("CONTENT_TYPE", "")):
        return RequestRefusal(415, "UnsupportedMediaType", f"Content-Type must be {JSON}")
    if length > limit:
        return RequestRefusal(413, "BodyTooLarge", f"the body is larger than {limit} bytes")
    return length


def of_any(environ: Mapping[str, Any], limit: int) -> int | RequestRefusal:
    """Return the size of a body of any type, 0 without one, or why it is refused."""
    length = _content_length(environ, limit)
    if isinstance(length, RequestRefusal):
        return length
    if length is not None and length > limit:
        return RequestRefusal(413, "BodyTooLarge", f"the body is larger than {limit} bytes")
    return length or 0


def _content_length(environ: Mapping[str, Any], limit: int) -> int | RequestRefusal | None:
    if "HTTP_TRANSFER_ENCODING" in environ:
        return CHUNKED
    declared = environ.get("CONTENT_LENGTH", "")
    if not declared:
        return None
    if not declared.isascii() or not declared.isdigit():
        return RequestRefusal(400, "BadRequest", "Content-Length is not a number")
    # A number with more digits exceeds any limit; do not convert it.
    return int(declared) if len(declared) < 19 else limit + 1


def _is_json(content_type: str) -> bool:
    if content_type == JSON:
        return True
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media != JSON:
        return False
    named = (parameter.partition("=") for parameter in parameters)
    return all(name != "charset" or value.strip('"') in CHARSETS for name, _, value in named)


class BodyLimiter:
    """Bounds the bodies in memory, each of which takes several times its size while it is processed.

    A body larger than `above` bytes needs one of the `slots`; smaller ones share `budget` bytes. Thread-safe
    and non-blocking.
    """

    def __init__(self, slots: int = 2, *, above: int = 4 * 1024**2, budget: int = 256 * 1024**2) -> None:
        self._above = above
        self._lock = threading.Lock()
        self._slots = slots
        self._budget = budget

    def acquire(self, length: int) -> bool:
        """Reserve memory for a body of `length` bytes; return whether it was available."""
        with self._lock:
            if length > self._above:
                if not self._slots:
                    return False
                self._slots -= 1
            elif length > self._budget:
                return False
            else:
                self._budget -= length
            return True

    def release(self, length: int) -> None:
        """Release the memory of a body of `length` bytes."""
        with self._lock:
            if length > self._above:
                self._slots += 1
            else:
                self._budget += length
