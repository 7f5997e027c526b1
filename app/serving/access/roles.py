"""Roles of callers and the routes that each role may call.

A caller is identified only by the subject alternative names of its client certificate, verified in the TLS
handshake; the common name and request headers are ignored. `TABLE` assigns a role to each route; other
routes are refused. An operator has all permissions of a viewer.
"""

import dataclasses
import re
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from app.serving.tls import role_names, sockets
from app.serving.tls.role_names import OPERATOR, ROLES, SCHEDULER, VIEWER

INCLUDED: Final = types.MappingProxyType({OPERATOR: frozenset({OPERATOR, VIEWER})})
"""Role -> roles that it includes; other roles include only themselves."""

READING: Final = frozenset({"GET", "HEAD"})
POSTING: Final = frozenset({"POST"})
ASKING: Final = READING | POSTING
SETTING: Final = frozenset({"GET", "HEAD", "PUT", "POST"})
_OWN: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site with which a page may do more than read: a browser presents its client certificate
for the pages of others too."""
_LOOPBACK: Final = re.compile(r"(?i:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?")
"""Values of Host that a call without TLS may have. To a browser, a page whose own name leads to the loopback
(DNS rebinding) is of the same origin, and its calls have that name."""
REPLACING: Final = frozenset({"PUT", "DELETE"})


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A route with its allowed methods and required role.

    A path that ends in /* matches all paths below it. Rules of one path have different methods; the first is
    the one that requires least.
    """

    methods: frozenset[str]
    path: str
    role: str


VERBS: Final = ("filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt")

VERB_PATHS: Final = frozenset(f"{prefix}/{verb}" for prefix in ("", "/api") for verb in VERBS)

QUESTIONS: Final = frozenset(
    f"/apis/v1/{question}" for question in ("simulate", "fit", "diff", "replay", "bisect")
)
"""Hypothetical questions: POST because they have a body; none of them writes."""
_LISTED: Final = frozenset({"/apis/v1/diff"})
"""Those that can be asked by GET as well."""
SHADOWS: Final = "/apis/v1/shadows/"
"""Changes below this path append to the log, which only an extender does."""

TABLE: Final[tuple[Rule, ...]] = (
    *(Rule(POSTING, path, SCHEDULER) for path in sorted(VERB_PATHS)),
    *(Rule(ASKING if path in _LISTED else POSTING, path, VIEWER) for path in sorted(QUESTIONS)),
    Rule(READING, f"{SHADOWS}*", VIEWER),
    Rule(REPLACING, f"{SHADOWS}*", OPERATOR),
    Rule(READING, "/apis/v1/*", VIEWER),
    Rule(READING, "/openapi.json", VIEWER),
    Rule(READING, "/docs", VIEWER),
    Rule(READING, "/docs/*", VIEWER),
    Rule(READING, "/", VIEWER),
    Rule(READING, "/dashboard", VIEWER),
    Rule(READING, "/dashboard/", VIEWER),
    Rule(READING, "/dashboard/*", VIEWER),
    Rule(SETTING, "/debug/flags", OPERATOR),
    Rule(SETTING, "/debug/flags/*", OPERATOR),
)


def rules_of(base: str, routes: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules of routes below `base` that need more than a viewer; none if a viewer may call them
    all.

    `routes` maps paths to roles; a segment in angle brackets is a parameter. Any other path below `base` then
    requires an operator, so that no spelling of a path avoids its rule.
    """
    if set(routes.values()) <= {VIEWER}:
        return ()
    return (
        *(Rule(READING, f"{base}/{path}", role) for path, role in routes.items()),
        Rule(READING, f"{base}/*", OPERATOR),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A caller: its name in logs, its roles, and its certificate's serial number."""

    name: str
    roles: frozenset[str]
    serial: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Denied:
    """A refused call.

    401 without a verified identity; 405 if the caller may use the path with the methods in `allow` only; 403
    otherwise.
    """

    status: int
    message: str
    reason_code: str
    identity: Identity | None = None
    allow: tuple[str, ...] = ()


def changes_shadow(environ: Mapping[str, Any]) -> bool:
    """Return whether a request of this WSGI environment sets or deletes a shadow."""
    return environ["PATH_INFO"].startswith(SHADOWS) and environ["REQUEST_METHOD"] in REPLACING


class RoleBindings:
    """Maps subject alternative names to roles.

    `names` adds SANs per role to those of `role_names.uri`, such as
    `spiffe://cluster.local/ns/kube-system/sa/kube-scheduler` or a DNS name, optionally prefixed with `URI:`
    or `DNS:`. `anonymous` are the roles of callers without TLS, for plain HTTP on the loopback only.
    `rules` are more specific than those of `TABLE` and take precedence.
    """

    def __init__(
        self,
        names: Mapping[str, Collection[str]] | None = None,
        *,
        anonymous: Collection[str] = (),
        rules: Collection[Rule] = (),
    ) -> None:
        roles: dict[tuple[str, str], set[str]] = {}
        for role in ROLES:
            for name in (role_names.uri(role), *(names or {}).get(role, ())):
                roles.setdefault(_kind_and_name(name), set()).update(INCLUDED.get(role, {role}))
        self._roles = roles
        held = frozenset(each for role in anonymous for each in INCLUDED.get(role, {role}))
        self._anonymous = Identity("anonymous", held) if held else None
        table = (*rules, *TABLE)
        by_path: dict[str, list[Rule]] = {}
        for rule in table:
            by_path.setdefault(rule.path, []).append(rule)
        self._exact = {path: found for path, found in by_path.items() if not path.endswith("/*")}
        self._patterns = tuple((path.split("/"), found) for path, found in by_path.items() if "<" in path)
        self._below = tuple((path[:-1], found) for path, found in by_path.items() if path.endswith("/*"))

    def authorize(self, environ: Mapping[str, Any], method: str, path: str) -> Identity | Denied:
        """Return the caller if the call is allowed, else the refusal. `environ` is the WSGI environment."""
        identity = self.identify(environ)
        if identity is None:
            return Denied(401, "this call requires a client certificate", "Unauthorized")
        if identity is self._anonymous and not _LOOPBACK.fullmatch(environ.get("HTTP_HOST", "localhost")):
            message = f"without TLS, {method} {path} requires localhost or a loopback address as Host"
            return Denied(403, message, "Forbidden", identity)
        rules = self._rules(path)
        if not rules:
            return Denied(403, f"no role may call {method} {path}", "Forbidden", identity)
        rule = next((one for one in rules if method in one.methods), rules[0])
        if rule.role not in identity.roles:
            held = ", ".join(sorted(identity.roles)) or "none"
            message = f"{method} {path} requires the role {rule.role}; {identity.name} has: {held}"
            return Denied(403, message, "Forbidden", identity)
        if method not in rule.methods:
            allow = tuple(sorted(frozenset().union(*(one.methods for one in rules))))
            message = f"{path} allows {', '.join(allow)}, not {method}"
            return Denied(405, message, "MethodNotAllowed", identity, allow)
        if method not in READING and environ.get("HTTP_SEC_FETCH_SITE", "none") not in _OWN:
            message = f"{method} {path} is not accepted from a page of another origin (Sec-Fetch-Site)"
            return Denied(403, message, "Forbidden", identity)
        return identity

    def identify(self, environ: Mapping[str, Any]) -> Identity | None:
        """Return the caller of the connection; decoded once per connection."""
        connection = environ.get("gunicorn.socket")
        if not isinstance(connection, sockets.TlsSocket):
            return self._anonymous
        known = connection.identity
        if not isinstance(known, Identity):
            known = self.identity_of(connection.getpeercert() or {})
            connection.identity = known
        return known

    def identity_of(self, peer: Mapping[str, Any]) -> Identity:
        """Return the identity of a certificate in the form of `ssl.SSLSocket.getpeercert`."""
        names = [(kind, name) for kind, name in peer.get("subjectAltName", ()) if kind in {"URI", "DNS"}]
        listed = [name for kind, name in names if _normal(kind, name) in self._roles]
        roles: set[str] = set()
        for kind, name in names:
            roles |= self._roles.get(_normal(kind, name), set())
        shown = listed or [name for _, name in names] or ["a certificate without URI or DNS names"]
        return Identity(shown[0], frozenset(roles), str(peer.get("serialNumber", "")))

    def _rules(self, path: str) -> Sequence[Rule]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        for pattern, rules in self._patterns:
            if _matches(pattern, path.split("/")):
                return rules
        return next(
            (rules for prefix, rules in self._below if path.startswith(prefix) and path != prefix), ()
        )


def _matches(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    return len(pattern) == len(segments) and all(
        segment and (expected.startswith("<") or expected == segment)
        for expected, segment in zip(pattern[1:], segments[1:], strict=True)
    )


def _kind_and_name(name: str) -> tuple[str, str]:
    kind, found, rest = name.partition(":")
    if found and kind in {"URI", "DNS"}:
        return _normal(kind, rest)
    return _normal("URI" if "://" in name else "DNS", name)


def _normal(kind: str, name: str) -> tuple[str, str]:
    # DNS names are compared without case; URIs are not (RFC 5280, 7.2 and 7.4).
    return (kind, name.lower() if kind == "DNS" else name)
