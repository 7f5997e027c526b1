"""An archive in an object store (S3, Google Cloud Storage, Azure), by the library obstore.

Needs the extra ``archive``. Errors of the library quote URLs and replies, which may contain signatures and
tokens: only their kind and the HTTP status are reported.
"""

import contextlib
import datetime
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

import obstore.store
from obstore import exceptions

from app.store import errors

_CONNECT: Final = datetime.timedelta(seconds=5)
_REQUEST: Final = datetime.timedelta(seconds=30)
"""For one request with its reply. A segment has about 1 MB; larger files are written in parts of 5 MB."""
_RETRIES: Final = 3
_RETRYING: Final = datetime.timedelta(seconds=60)
"""After the first attempt, during which failed ones are repeated."""
_PAGE: Final = 1_000
"""Names per reply of a listing."""

_KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (exceptions.PermissionDeniedError, "permission denied"),
    (exceptions.UnauthenticatedError, "the credentials are missing or wrong"),
    (exceptions.UnknownConfigurationKeyError, "a variable in the environment is not supported"),
)
_FACTS: Final[tuple[tuple[str, str], ...]] = (
    (r"(?i)account must be specified", "AZURE_STORAGE_ACCOUNT_NAME is not set"),
    (r"HTTP error", "no connection, or no reply in time"),
)
_METADATA = re.compile(r"//(?:169\.254\.\d+\.\d+|metadata\.)")
"""Where credentials are requested if the environment holds none."""
_STATUS = re.compile(
    r"\b(?:status|code|with|error)\b[^0-9A-Za-z]{1,3}(?P<status>[45][0-9]{2})\b", re.IGNORECASE
)


class Objects:
    """The objects below a prefix."""

    def __init__(self, store: obstore.store.ObjectStore, prefix: str, shown: str) -> None:
        """``shown``: the place for display."""
        self._store = store
        self._prefix = prefix
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def names(self) -> Iterator[str]:
        """All names directly below the prefix."""
        with self._translated():
            for page in self._store.list(f"{self._prefix}/", chunk_size=_PAGE):
                names = (one["path"].removeprefix(f"{self._prefix}/") for one in page)
                yield from (name for name in names if "/" not in name)

    def read(self, name: str, *, first: int | None = None) -> bytes:
        """The content, or its first bytes."""
        with self._translated(name):
            if first is None:
                return bytes(self._store.get(self._path(name)).bytes())
            try:
                return bytes(self._store.get_range(self._path(name), start=0, length=first))
            except exceptions.BaseError:
                # An empty object has no range; that is damage of the file, not an outage.
                if self._store.head(self._path(name))["size"]:
                    raise
                return b""

    def size(self, name: str) -> int:
        """Bytes of an object."""
        with self._translated(name):
            return self._store.head(self._path(name))["size"]

    def write(self, name: str, members: Iterable[bytes]) -> None:
        """Upload an object; it exists once the store has confirmed all of its parts."""
        content = b"".join(members)
        with self._translated(name):
            self._store.put(self._path(name), content)

    def remove(self, name: str) -> None:
        """Remove an object."""
        with contextlib.suppress(FileNotFoundError), self._translated(name):
            self._store.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    @contextlib.contextmanager
    def _translated(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(f"{self}/{name} does not exist") from None
        except (exceptions.BaseError, OSError, ValueError) as problem:
            raise OSError(f"{self}: {reason(problem)}") from None


def reason(problem: Exception) -> str:
    """An error of the library in words, without anything that it quotes."""
    text = str(problem).partition("Debug source")[0]
    found = _STATUS.search(text)
    status = f" (HTTP {found['status']})" if found is not None else ""
    for kind, words in _KINDS:
        if isinstance(problem, kind):
            return f"{words}{status}"
    if _METADATA.search(text):
        return "the environment holds no credentials, and the machine provides none"
    if status:
        return f"the object store refuses or fails{status}"
    return next((words for pattern, words in _FACTS if re.search(pattern, text)), type(problem).__name__)


def opened(url: str, cluster: str) -> Objects:
    """The objects below a URL; credentials are read from the environment. Raises StoreError."""
    url = url.rstrip("/")
    try:
        store = obstore.store.from_url(
            url,
            # They replace the options that the library reads from the environment.
            client_options={"connect_timeout": _CONNECT, "timeout": _REQUEST, "allow_http": _allows_http()},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRYING},
        )
    except (exceptions.BaseError, OSError, ValueError) as problem:
        raise errors.StoreError(f"compaction.archive cannot be used: {reason(problem)}") from None
    return Objects(store, cluster, f"{url}/{cluster}")


def _allows_http() -> bool:
    variables = ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "AZURE_ALLOW_HTTP")
    return any(os.environ.get(name, "").lower() in ("1", "true") for name in variables)
