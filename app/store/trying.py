"""Trying the users of the roles: the server is asked whether it would let them, and nothing is done."""

from collections.abc import Sequence
from typing import Any

import redis
from redis import exceptions

from app.store import connecting, findings, keys, permissions, urls


def users(
    client: redis.Redis, names: keys.Keys, target: urls.Target, *, placements: str
) -> list[findings.Finding]:
    """The default user and each role's. Raises NoPermissionError if they cannot be looked at."""
    roles = permissions.roles(placements)
    known = [role for role in roles if not _missing(client, role, names)]
    if not known:
        none = findings.Finding(
            "users of roles",
            "poor",
            "none",
            "every process runs with the rights of another, and may do more than it must",
            f"{permissions.INSTALL}, and name the users in store.url",
        )
        return [_default(client, target), none]
    return [_default(client, target), *(_role(client, names, role) for role in roles)]


def _missing(client: redis.Redis, role: permissions.Role, names: keys.Keys) -> bool:
    return _refusal(client, role.user(names.cluster), ["PING"]).startswith("ERR User")


def _default(client: redis.Redis, target: urls.Target) -> findings.Finding:
    """Whether somebody who has no password gets in."""
    user: Any = client.acl_getuser("default")
    flags = {connecting.text(flag) for flag in user["flags"]}
    if target.kind == "unix" or "off" in flags:
        return findings.Finding("user default", "good", "off" if "off" in flags else "behind a unix socket")
    return findings.Finding(
        "user default",
        "poor" if "nopass" not in flags else "bad",
        "on, without a password" if "nopass" in flags else "on",
        "whoever reaches the port may do anything" if "nopass" in flags else "one password opens everything",
        permissions.INSTALL,
    )


def _role(client: redis.Redis, names: keys.Keys, role: permissions.Role) -> findings.Finding:
    user = role.user(names.cluster)
    subject = f"user {user}"
    if _missing(client, role, names):
        return findings.Finding(
            subject,
            "poor",
            "there is none",
            f"the {role.name} runs with the rights of another",
            f"{permissions.INSTALL}, and name the user in store.url",
        )
    lacking = [one for one in role.needs(names) if _refusal(client, user, one)]
    excess = [one for one in role.must_not(names) if not _refusal(client, user, one)]
    if not lacking and not excess:
        return findings.Finding(subject, "good", "may what it must, and no more")
    found = [f"may not {_named(lacking)}"] if lacking else []
    found += [f"may {_named(excess)}"] if excess else []
    why = ["it fails at work"] if lacking else []
    why += ["whoever gets hold of its password can do harm with it"] if excess else []
    return findings.Finding(
        subject,
        "bad" if lacking else "poor",
        ", ".join(found),
        ", ".join(why),
        f"ACL SETUSER {user} {role.rules(names.cluster)}",
    )


def _refusal(client: redis.Redis, user: str, command: Sequence[str]) -> str:
    """Why the server would refuse the user this command; empty if it would not."""
    untyped: Any = client
    try:
        said = untyped.execute_command("ACL", "DRYRUN", user, *command)
    except exceptions.NoPermissionError:
        raise
    except redis.ResponseError as error:
        return f"ERR {error}" if not str(error).startswith("ERR") else str(error)
    words = connecting.text(said)
    return "" if words == "OK" else words


def _named(commands: Sequence[Sequence[str]]) -> str:
    return ", ".join(" ".join(command[:2]).lower() for command in commands)
