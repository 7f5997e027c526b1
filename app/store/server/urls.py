"""Parses a store's URL: one server, sentinels that find it, or nodes of a cluster.

``redis://HOST:PORT/DB``, ``unix:///PATH``, ``redis+sentinel://HOST,HOST,HOST/MASTER`` and
``redis+cluster://HOST,HOST``; with ``rediss`` all of it is over TLS. Parameters are redis-py's, such
as ``?ssl_ca_certs=FILE``; ``sentinel_username`` and ``sentinel_password`` are shown to sentinels,
which have other users than the servers that they watch.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from redis import connection

from app.settings import store_urls
from app.store import errors

Address = tuple[str, int]
"""Host and port."""

_parse: Callable[[str], dict[str, Any]] = connection.parse_url
_PORTS = {"": 6379, "cluster": 6379, "sentinel": 26379}
_SENTINEL_ONLY = ("sentinel_username", "sentinel_password")
VERIFICATION: Mapping[str, Any] = {"ssl_include_verify_flags": [ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN]}
"""Arguments of redis-py's connections over TLS: a CA that was given is trusted without its root."""
_CREDENTIALS = ("username", "password", "db")


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a store, and the options of its connections."""

    kind: str
    """Empty, unix, sentinel or cluster."""
    addresses: tuple[Address, ...]
    """The server, the sentinels, or nodes of the cluster; none for unix."""
    options: Mapping[str, Any]
    """Arguments of redis-py's connections: credentials, files for TLS, path."""
    master: str = ""
    """The name of the master in the sentinels."""
    tls: bool = False
    sentinel_options: Mapping[str, Any] | None = None
    """Arguments of connections to sentinels."""


def parse(url: str) -> Target:
    """Parse the URL; raises StoreError, without the URL, which may contain a password."""
    flaw = store_urls.flaw(url)
    if flaw:
        raise errors.StoreError(f"store.url {flaw}")
    found = store_urls.PARTS.fullmatch(url)
    if found is None:
        return Target("unix", (), _options(url))
    kind, user = found["kind"] or "", f"{found['user']}@" if found["user"] is not None else ""
    addresses = store_urls.addresses(found["hosts"], _PORTS[kind])
    path, query = found["path"] or "", f"?{found['query']}" if found["query"] else ""
    tls = found["scheme"] == "rediss"
    if kind != "sentinel":
        return Target(kind, addresses, _options(f"{found['scheme']}://{user}store/{path}{query}"), tls=tls)
    options = _options(f"{found['scheme']}://{user}store/{query}")
    given = {name: options.pop(name) for name in _SENTINEL_ONLY if name in options}
    shared = {name: value for name, value in options.items() if name not in _CREDENTIALS}
    shown = {name.removeprefix("sentinel_"): value for name, value in given.items()}
    return Target(kind, addresses, options, path, tls, shared | shown)


def _options(url: str) -> dict[str, Any]:
    try:
        options = dict(_parse(url))
    except (ValueError, redis.RedisError):
        # Without the message of the library, which shows parts of the URL.
        raise errors.StoreError(f"store.url cannot be understood: it must be {store_urls.FORMS}") from None
    for name in ("connection_class", "host", "port"):
        options.pop(name, None)
    return {**options, **(VERIFICATION if url.startswith("rediss:") else {})}
