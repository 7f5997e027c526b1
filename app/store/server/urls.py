"""Parses a store's URL: one server, sentinels that find it, or nodes of a cluster.

``redis://HOST:PORT/DB``, ``unix:///PATH``, ``redis+sentinel://HOST,HOST,HOST/MASTER`` and
``redis+cluster://HOST,HOST``; with ``rediss`` all of it is over TLS. Parameters are redis-py's, such
as ``?ssl_ca_certs=FILE``; ``sentinel_username`` and ``sentinel_password`` are shown to sentinels,
which do not know the users of the servers that they watch.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis
from redis import connection

from app.store import errors

Address = tuple[str, int]
"""Host and port."""

FORMS = (
    "redis://HOST:PORT/DB, unix:///PATH, redis+sentinel://HOST,HOST,HOST/MASTER or redis+cluster://HOST,HOST"
    " (rediss for TLS)"
)

_parse: Callable[[str], dict[str, Any]] = connection.parse_url
_PORTS = {"": 6379, "cluster": 6379, "sentinel": 26379}
_SENTINEL_ONLY = ("sentinel_username", "sentinel_password")
_CREDENTIALS = ("username", "password", "db")

_PARTS = re.compile(
    r"(?P<scheme>rediss?)(?:\+(?P<kind>sentinel|cluster))?://"
    r"(?:(?P<user>[^@/?]*)@)?(?P<hosts>[^@/?]*)(?:/(?P<path>[^?]*))?(?:\?(?P<query>.*))?"
)
_PLAIN = re.compile(r"[^@/?#]*://(?:[^@/?#]*@)?[^@#]*|[^@#]*")
"""At most one user-info, before the host: a part of a password must not be parsed as a host or a path."""
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


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
    found = _PARTS.fullmatch(url)
    if _PLAIN.fullmatch(url) is None:
        raise errors.StoreError(
            "store.url cannot be understood: #, / and @ in a user, password or parameter must be written as"
            f" %23, %2F and %40; it must be {FORMS}"
        )
    if url.startswith("unix://"):
        return Target("unix", (), _options(url))
    if found is None:
        raise errors.StoreError(f"store.url cannot be understood: it must be {FORMS}")
    kind, user = found["kind"] or "", f"{found['user']}@" if found["user"] is not None else ""
    addresses = tuple(_address(host, _PORTS[kind]) for host in (found["hosts"] or "localhost").split(","))
    path, query = found["path"] or "", f"?{found['query']}" if found["query"] else ""
    if kind != "sentinel" and len(addresses) > 1 and not kind:
        raise errors.StoreError(
            "store.url names several hosts: that needs redis+sentinel:// or redis+cluster://"
        )
    database = path if kind != "sentinel" else ""
    options = _options(f"{found['scheme']}://{user}store/{database}{query}")
    given = {name: options.pop(name) for name in _SENTINEL_ONLY if name in options}
    if kind != "sentinel":
        if kind == "cluster" and options.get("db"):
            raise errors.StoreError("store.url names a database: a Redis Cluster has only database 0")
        return Target(kind, addresses, options, tls=found["scheme"] == "rediss")
    if not path or "/" in path:
        raise errors.StoreError(
            "store.url must name the master as the sentinels do: redis+sentinel://HOST,HOST,HOST/MASTER"
        )
    shared = {name: value for name, value in options.items() if name not in _CREDENTIALS}
    shown = {name.removeprefix("sentinel_"): value for name, value in given.items()}
    return Target(kind, addresses, options, path, found["scheme"] == "rediss", shared | shown)


def _options(url: str) -> dict[str, Any]:
    try:
        options = dict(_parse(url))
    except (ValueError, redis.RedisError):
        # Without the message of the library, which shows parts of the URL.
        raise errors.StoreError(
            f"store.url cannot be understood: a parameter of it is wrong; {FORMS}"
        ) from None
    for name in ("connection_class", "host", "port"):
        options.pop(name, None)
    return options


def _address(text: str, port: int) -> Address:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or port) < 65536:
        raise errors.StoreError("store.url names a host that is not HOST or HOST:PORT")
    return found["host"].strip("[]"), int(found["port"] or port)
