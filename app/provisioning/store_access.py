"""The passwords of the store's users: a URL per role for the processes, and their hashes for the server.

The server never gets a password, only its SHA-256. It makes its access list of the hashes when it starts
(`topolog doctor users --hashes`), so that the list is always that of the installed version.
"""

import hashlib
import secrets as random
import urllib.parse
from typing import Final

from app.kube.writes import secrets
from app.provisioning import decisions
from app.provisioning.decisions import Outcome, SecretDecision
from app.store.server import acl

URLS: Final = "topolog-store"
HASHES: Final = "topolog-valkey-acl"
KEYS: Final = {role.name: f"{role.name}-url" for role in (*acl.ROLES, acl.CERTIFICATES)}
"""Role -> key of its URL in the Secret."""
CERTIFICATES_URL: Final = KEYS[acl.CERTIFICATES.name]
NEXT: Final = {role: f"{role}-next" for role in KEYS}
"""Role -> key of the password that follows, while passwords are replaced (password_steps)."""
FORMER: Final = {role: f"{role}-former" for role in KEYS}
"""Role -> key of the SHA-256 of the password before."""
AUTHORITIES: Final = "/etc/topolog/store/ca.crt"
"""Where every process has the CAs of the bundled store, if it is reached by TLS."""


def urls(current: secrets.Secret | None, server: str, cluster: str, *, tls: bool = False) -> SecretDecision:
    """What is done with the URLs. ``server``: the URL of the server without a user."""
    if tls:
        server = f"rediss://{server.partition('://')[2]}?ssl_ca_certs={AUTHORITIES}"
    users = _users(tls=tls)
    if current is None:
        data = {KEYS[role.name]: _url(server, role.user(cluster), new_password()) for role in users}
        return SecretDecision(Outcome.CREATED, f"users of cluster {cluster} at {server}", data)
    if not decisions.made_here(current):
        if lacking := decisions.lacking(current, tuple(KEYS[role.name] for role in acl.ROLES)):
            return decisions.refused(
                f"was not made by topolog bootstrap, and lacks {lacking}: add them, or delete it to get the"
                " users of the bundled store"
            )
        return SecretDecision(Outcome.KEPT, "not made by topolog bootstrap; used as it is")
    wanted = {
        KEYS[role.name]: _url(server, role.user(cluster), password(current, role.name) or new_password())
        for role in users
    }
    detail = f"users of cluster {cluster} at {server}"
    others = {key: each for key, each in current.data.items() if key not in KEYS.values()}
    if {**others, **wanted} == current.data:
        return SecretDecision(Outcome.KEPT, detail)
    return SecretDecision(Outcome.UPDATED, detail, {**others, **wanted})


def hashes(current: secrets.Secret | None, given: secrets.Secret | None) -> SecretDecision:
    """What is done with the hashes of the passwords. ``given``: the URLs, None if they could not be made."""
    if given is None or not decisions.made_here(given):
        return SecretDecision(Outcome.SKIPPED, f"the users of {URLS} were not made by topolog bootstrap")
    wanted = {role: _accepted(given, role) for role in KEYS if password(given, role)}
    detail = "SHA-256 of the passwords, for the access list of the server"
    if current is None:
        return SecretDecision(Outcome.CREATED, detail, wanted)
    if not decisions.made_here(current):
        return decisions.refused(
            f"was not made by topolog bootstrap, but {URLS} was: delete it, and it is made of those passwords"
        )
    if wanted == current.data:
        return SecretDecision(Outcome.KEPT, detail)
    # Here, not where the passwords are made: a run that was killed between both left that to this one.
    if new := [role for role, lines in wanted.items() if not _common(lines, current.data.get(role, b""))]:
        whose = "all of them" if new == list(wanted) else ", ".join(new)
        detail += f"; new passwords for {whose}: restart the store, then the processes that use them"
    return SecretDecision(Outcome.UPDATED, detail, wanted)


def password(secret: secrets.Secret, role: str) -> bytes:
    """The password in the URL of a role; empty if there is none."""
    url = secret.data.get(KEYS[role], b"").decode(errors="replace")
    try:
        return urllib.parse.unquote(urllib.parse.urlsplit(url).password or "").encode()
    except ValueError:
        return b""


def _users(*, tls: bool) -> tuple[acl.Role, ...]:
    return (*acl.ROLES, acl.CERTIFICATES) if tls else acl.ROLES


def new_password() -> bytes:
    """A random password of 256 bits."""
    return random.token_urlsafe(32).encode()


def digest(password: bytes) -> bytes:
    """What the server is given of a password."""
    return hashlib.sha256(password).hexdigest().encode()


def _accepted(given: secrets.Secret, role: str) -> bytes:
    """The digests of all passwords that a role may have now, a line each."""
    following = given.data.get(NEXT[role])
    known = (
        digest(password(given, role)),
        digest(following) if following else b"",
        given.data.get(FORMER[role]),
    )
    return b"\n".join(each for each in known if each)


def _common(lines: bytes, former: bytes) -> set[bytes]:
    """The digests that a running server accepts, too: it reads its list when it starts."""
    return set(lines.split(b"\n")) & set(former.split(b"\n"))


def _url(server: str, user: str, password: bytes) -> bytes:
    scheme, _, place = server.partition("://")
    return f"{scheme}://{user}:{urllib.parse.quote(password, safe='')}@{place}".encode()
