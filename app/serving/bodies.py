"""What a request's head says of its body: how much of it is read, or why nothing is.

kube-scheduler always announces the length, sends JSON and never compresses. What does otherwise is refused
by its head alone: nothing is decompressed, and nothing beyond the limit is read.
"""

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any, Final

JSON = "application/json"
CHARSETS = frozenset({"utf-8", "utf8"})
SMALL: Final = 64 * 1024
"""The largest body of a call that is no verb."""
RETRY_SECONDS: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not taken: an HTTP status, a code for programs, a sentence for people, more headers."""

    status: int
    reason_code: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


CHUNKED = Refusal(411, "LengthRequired", "chunked bodies are not taken: send a Content-Length")
LATE = Refusal(408, "Timeout", "the body did not arrive in time")
CUT = Refusal(400, "BodyCut", "the connection ended before the announced body did")
CROWDED = Refusal(
    503,
    "TooManyLargeBodies",
    "too many calls with large bodies at once: try again",
    (("Retry-After", str(RETRY_SECONDS)),),
)
BUSY = Refusal(
    429,
    "TooManyRequests",
    "too many questions at once: try again",
    (("Retry-After", str(RETRY_SECONDS)),),
)


def of_json(environ: Mapping[str, Any], limit: int) -> int | Refusal:
    """Return how many bytes a JSON body of at most `limit` bytes has, or why it is not taken.

    411 without a length, 413 over the limit, 415 for another content type or any encoding, 400 if the length
    is no number.
    """
    length = _announced(environ, limit)
    if isinstance(length, Refusal):
        return length
    if length is None:
        return Refusal(411, "LengthRequired", "the call has no Content-Length")
    encoding = environ.get("HTTP_CONTENT_ENCODING", "")
    if encoding and encoding.strip().lower() != "identity":
        return Refusal(
            415, "UnsupportedMediaType", "bodies are not decompressed: send it without Content-Encoding"
        )
    if not _is_json(environ.get("CONTENT_TYPE", "")):
        return Refusal(415, "UnsupportedMediaType", f"Content-Type has to be {JSON}")
    if length > limit:
        return Refusal(413, "BodyTooLarge", f"the body has more than {limit} bytes")
    return length


def of_any(environ: Mapping[str, Any]) -> int | Refusal:
    """Return how many bytes a small body of any kind has, 0 without one, or why it is not taken."""
    length = _announced(environ, SMALL)
    if isinstance(length, Refusal):
        return length
    if length is not None and length > SMALL:
        return Refusal(413, "BodyTooLarge", f"the body has more than {SMALL} bytes")
    return length or 0


def _announced(environ: Mapping[str, Any], limit: int) -> int | Refusal | None:
    if "HTTP_TRANSFER_ENCODING" in environ:
        return CHUNKED
    announced = environ.get("CONTENT_LENGTH", "")
    if not announced:
        return None
    if not announced.isascii() or not announced.isdigit():
        return Refusal(400, "BadRequest", "Content-Length is not a number")
    # A number of more digits than this is over any limit, and not worth converting.
    return int(announced) if len(announced) < 19 else limit + 1


def _is_json(content_type: str) -> bool:
    if content_type == JSON:
        return True
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media != JSON:
        return False
    named = (parameter.partition("=") for parameter in parameters)
    return all(name != "charset" or value.strip('"') in CHARSETS for name, _, value in named)


class Turnstile:
    """Bounds the bodies that are read and worked on at a time: each takes several times its size in memory.

    `above` is the size in bytes from which a body needs one of the `places`; smaller ones share `room` bytes.
    Any thread may use it; nobody waits in it.
    """

    def __init__(self, places: int = 2, *, above: int = 4 * 1024**2, room: int = 256 * 1024**2) -> None:
        self._above = above
        self._lock = threading.Lock()
        self._places = places
        self._room = room

    def enter(self, length: int) -> bool:
        """Take a place for a body of that many bytes; return whether there was one."""
        with self._lock:
            if length > self._above:
                if not self._places:
                    return False
                self._places -= 1
            elif length > self._room:
                return False
            else:
                self._room -= length
            return True

    def leave(self, length: int) -> None:
        """Give the place of such a body back."""
        with self._lock:
            if length > self._above:
                self._places += 1
            else:
                self._room += length
