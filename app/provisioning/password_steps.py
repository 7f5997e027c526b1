"""The passwords of the bundled store, replaced in three steps.

The server makes its access list when it starts, and a process reads its URL when it starts. So that none of
them is refused meanwhile, the server accepts two passwords of each user between the first and the last step:

1. Following passwords are made; after a restart of the store its server accepts both.
2. They take over in the URLs; each process uses them after a restart.
3. The former ones are dropped; after a restart of the store its server refuses them.

The Secret of the URLs holds what a step needs of the one before, so a run that is killed may be repeated.
"""

import enum
import urllib.parse
from collections.abc import Mapping
from typing import Final, Protocol

from app.kube.writes import secrets
from app.provisioning import certificates, decisions, store_access
from app.provisioning.decisions import Outcome, SecretDecision
from app.store import errors
from app.store.server import logins

_NEXT: Final = store_access.NEXT
_FORMER: Final = store_access.FORMER


class PasswordStep(enum.StrEnum):
    """A step of the replacement."""

    ANNOUNCE = "announce"
    """Make the following passwords."""
    TAKE_OVER = "take-over"
    """Write them into the URLs."""
    DROP = "drop"
    """Let the server refuse the former ones."""


class Access(Protocol):
    """Where Secrets are read."""

    def read(self, name: str) -> secrets.Secret | None:
        """The Secret; None if it does not exist."""
        ...


def decide(current: secrets.Secret | None, step: PasswordStep, access: Access) -> SecretDecision:
    """What a step does to the Secret of the URLs. ``access``: for the CA of the store."""
    if current is None:
        return decisions.refused("is missing: topolog bootstrap --store-url creates it")
    if not decisions.made_here(current):
        return decisions.refused(
            "was not made by topolog bootstrap, which replaces no passwords of others: give each user of"
            " the server a second one, then replace the URLs here"
        )
    match step:
        case PasswordStep.ANNOUNCE:
            return _announced(current)
        case PasswordStep.TAKE_OVER:
            return _taken_over(current, access)
        case PasswordStep.DROP:
            return _dropped(current)


def _announced(current: secrets.Secret) -> SecretDecision:
    if _with(current, _FORMER):
        return decisions.refused("still holds former passwords: drop them before you announce others")
    users = [role for role in store_access.KEYS if store_access.password(current, role)]
    made = {_NEXT[role]: store_access.new_password() for role in users if not current.data.get(_NEXT[role])}
    detail = "following passwords: restart the store, then let them take over"
    if not made:
        return SecretDecision(Outcome.KEPT, detail)
    return SecretDecision(Outcome.UPDATED, detail, {**current.data, **made})


def _taken_over(current: secrets.Secret, access: Access) -> SecretDecision:
    following = {
        role: _url(current.data[store_access.KEYS[role]], password)
        for role, password in _with(current, _NEXT).items()
        if store_access.password(current, role)
    }
    detail = "the following passwords have taken over: restart the processes, then drop the former ones"
    if not following:
        if _with(current, _FORMER):
            return SecretDecision(Outcome.KEPT, detail)
        return decisions.refused("has no following passwords that could take over: announce them first")
    try:
        _try_logins(following, access)
    except errors.StoreAway as away:
        detail += f" (not tried: {errors.cause(away)})"
    except errors.StoreError as error:
        return decisions.refused(f"holds following passwords that the store refuses: restart it ({error})")
    former = {_FORMER[role]: store_access.digest(store_access.password(current, role)) for role in following}
    urls = {store_access.KEYS[role]: url for role, url in following.items()}
    kept = {key: each for key, each in current.data.items() if key not in _NEXT.values()}
    return SecretDecision(Outcome.UPDATED, detail, {**kept, **urls, **former})


def _dropped(current: secrets.Secret) -> SecretDecision:
    if not _with(current, _FORMER):
        return SecretDecision(
            Outcome.KEPT, "no former passwords; one dropped before ends with a restart of the store"
        )
    kept = {key: each for key, each in current.data.items() if key not in _FORMER.values()}
    return SecretDecision(
        Outcome.UPDATED, "former passwords are dropped: restart the store, which then refuses them", kept
    )


def _with(current: secrets.Secret, keys: Mapping[str, str]) -> dict[str, bytes]:
    """Role -> what the Secret has under its key."""
    return {role: current.data[key] for role, key in keys.items() if current.data.get(key)}


def _try_logins(urls: Mapping[str, bytes], access: Access) -> None:
    held = access.read(certificates.STORE)
    authorities = held.data.get(certificates.TRUST, b"").decode() if held is not None else ""
    for url in urls.values():
        logins.try_login(url.decode(), authorities)


def _url(url: bytes, password: bytes) -> bytes:
    """The URL with another password."""
    parts = urllib.parse.urlsplit(url.decode())
    user, _, place = parts.netloc.rpartition("@")
    spelled = urllib.parse.quote(password, safe="")
    return urllib.parse.urlunsplit(
        parts._replace(netloc=f"{user.partition(':')[0]}:{spelled}@{place}")
    ).encode()
