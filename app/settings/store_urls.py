"""The forms of ``store.url``, and the options that it may have.

redis-py passes every option of a URL on to its connections, where an unknown one ends in a TypeError, and a
wrong value in an error of the first connection or in another meaning. Only options whose effect is known
are accepted here, each with its values.
"""

import difflib
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

FORMS: Final = (
    "redis://HOST:PORT/DB, unix:///PATH, redis+sentinel://HOST,HOST,HOST/MASTER or redis+cluster://HOST,HOST"
    " (rediss for TLS)"
)
PARTS: Final = re.compile(
    r"(?P<scheme>rediss?)(?:\+(?P<kind>sentinel|cluster))?://"
    r"(?:(?P<user>[^@/?]*)@)?(?P<hosts>[^@/?]*)(?:/(?P<path>[^?]*))?(?:\?(?P<query>.*))?"
)
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_UNIX = re.compile(r"unix://(?:[^@/?]*@)?(?P<path>/[^?]*)(?:\?(?P<query>.*))?")
_PLAIN = re.compile(r"[^@/?#]*://(?:[^@/?#]*@)?[^@#]*|[^@#]*")
"""At most one user-info, before the host: a part of a password must not be parsed as a host or a path."""
_ONE: Final = ""
_UNIX_SOCKET: Final = "unix"
_SENTINEL: Final = "sentinel"
_CLUSTER: Final = "cluster"
_ALL: Final = (_ONE, _UNIX_SOCKET, _SENTINEL, _CLUSTER)
_BY_NETWORK: Final = (_ONE, _SENTINEL, _CLUSTER)


def _ciphers(value: str) -> bool:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(value)
    except ssl.SSLError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Option:
    allowed: str = "a text"
    """The values in words."""
    pattern: str = r".+"
    kinds: tuple[str, ...] = _ALL
    """Kinds of URLs that may have it."""
    tls: bool = False
    """Only with rediss."""
    accepts: Callable[[str], bool] = bool


def _of_tls(allowed: str = "a file", pattern: str = r".+", accepts: Callable[[str], bool] = bool) -> _Option:
    return _Option(allowed, pattern, _BY_NETWORK, True, accepts)


_OPTIONS: Final[Mapping[str, _Option]] = {
    "username": _Option(),
    "password": _Option(),
    "db": _Option("the number of a database", r"[0-9]{1,9}", (_ONE, _UNIX_SOCKET, _SENTINEL)),
    "client_name": _Option("a text without spaces", r"[!-~]+"),
    "socket_keepalive": _Option("true or false", r"true|false", _BY_NETWORK),
    "sentinel_username": _Option(kinds=(_SENTINEL,)),
    "sentinel_password": _Option(kinds=(_SENTINEL,)),
    "ssl_ca_certs": _of_tls(),
    "ssl_ca_path": _of_tls("a directory"),
    "ssl_certfile": _of_tls(),
    "ssl_keyfile": _of_tls(),
    "ssl_password": _of_tls("the password of ssl_keyfile"),
    "ssl_check_hostname": _of_tls("true or false", r"true|false"),
    "ssl_cert_reqs": _of_tls("required, optional or none", r"required|optional|none"),
    "ssl_min_version": _of_tls("771 (TLS 1.2) or 772 (TLS 1.3)", r"771|772"),
    "ssl_ciphers": _of_tls("a list of ciphers that OpenSSL has", accepts=_ciphers),
}
_SETTINGS: Final[Mapping[str, str]] = {
    "timeout": "store.socket_timeout",
    "socket_timeout": "store.socket_timeout",
    "socket_connect_timeout": "store.socket_timeout",
}
"""Options of redis-py that are settings here."""
FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Options that name a file."""


def flaw(url: str) -> str:
    """What is wrong with a URL, and what is right; empty if nothing is. Shows no value of the URL."""
    if _PLAIN.fullmatch(url) is None:
        return (
            "cannot be understood: #, / and @ in a user, password or option must be written as"
            f" %23, %2F and %40; it must be {FORMS}"
        )
    found, local = PARTS.fullmatch(url), _UNIX.fullmatch(url)
    if local is not None:
        return next(_flaws_of_options(local["query"] or "", _UNIX_SOCKET, tls=False), "")
    if found is None:
        return f"cannot be understood: it must be {FORMS}"
    kind = found["kind"] or ""
    wrong = _flaw_of_address(kind, found["hosts"], found["path"] or "")
    return wrong or next(_flaws_of_options(found["query"] or "", kind, tls=found["scheme"] == "rediss"), "")


def addresses(hosts: str, port: int) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of ``HOST:PORT,HOST``; ``port``: where none is given. Raises ValueError."""
    made = []
    for each in (hosts or "localhost").split(","):
        found = _HOST.fullmatch(each)
        if found is None or not 0 < int(found["port"] or port) < 65_536:
            raise ValueError("names a host that is not HOST or HOST:PORT")
        made.append((found["host"].strip("[]"), int(found["port"] or port)))
    return tuple(made)


def _flaw_of_address(kind: str, hosts: str, path: str) -> str:
    try:
        named = addresses(hosts, 1)
    except ValueError as problem:
        return str(problem)
    if kind == _ONE and len(named) > 1:
        return "names several hosts: that needs redis+sentinel:// or redis+cluster://"
    if kind == _SENTINEL:
        right = bool(path) and "/" not in path
        return (
            ""
            if right
            else "must name the master as the sentinels do: redis+sentinel://HOST,HOST,HOST/MASTER"
        )
    if re.fullmatch(r"[0-9]{0,9}", path) is None:
        return "has a path that is not the number of a database: redis://HOST:PORT/DB"
    if kind == _CLUSTER and int(path or 0):
        return "names a database: a Redis Cluster has only database 0"
    return ""


def _flaws_of_options(query: str, kind: str, *, tls: bool) -> Iterator[str]:
    given: set[str] = set()
    for number, one in enumerate(query.split("&") if query else (), 1):
        name, _, encoded = one.partition("=")
        # Any other name could be part of a password that has an unescaped &.
        shown = f"option {name}" if name in _OPTIONS or name in _SETTINGS else f"option number {number}"
        value = urllib.parse.unquote_plus(encoded)
        option = _OPTIONS.get(name)
        if option is None:
            yield f"has {shown}, {_instead(name, kind, tls=tls)}"
        elif name in given:
            yield f"has {shown} twice: leave one out"
        elif kind not in option.kinds:
            where = " and ".join(_scheme(each) for each in option.kinds)
            yield f"has {shown}, which only {where} may have: leave it out"
        elif option.tls and not tls:
            yield f"has {shown} without TLS: write rediss in place of redis, or leave it out"
        elif not re.fullmatch(option.pattern, value, re.DOTALL) or not option.accepts(value):
            yield f"has {shown} with a wrong value: it must be {option.allowed}"
        given.add(name)
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        yield "has option ssl_keyfile without ssl_certfile: name the file of the certificate, too"


def _instead(name: str, kind: str, *, tls: bool) -> str:
    if name in _SETTINGS:
        return f"which is a setting of its own here: {_SETTINGS[name]}"
    possible = [each for each, one in _OPTIONS.items() if kind in one.kinds and (tls or not one.tls)]
    near = difflib.get_close_matches(name, _OPTIONS, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"which does not exist: {hint}possible are {', '.join(possible)}"


def _scheme(kind: str) -> str:
    return "unix://" if kind == _UNIX_SOCKET else f"redis{'+' if kind else ''}{kind}://"
