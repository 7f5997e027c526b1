"""Checks the users of the roles with ACL DRYRUN, which executes nothing."""

from collections.abc import Sequence
from typing import Any

import redis
from redis import exceptions

from app.store import keys
from app.store.health import checks
from app.store.server import acl, connections, urls


def users(
    client: redis.Redis, names: keys.Keys, target: urls.Target, *, placements: str
) -> list[checks.Finding]:
    """Findings about the default user and each role's user. Raises NoPermissionError."""
    roles = acl.roles(placements)
    known = [role for role in roles if not _missing(client, role, names)]
    if not known:
        none = checks.Finding(
            "users of roles",
            "poor",
            "none",
            "every process runs with the rights of another, and may do more than it must",
            f"{acl.INSTALL}, and name the users in store.url",
        )
        return [_default(client, names, target), none]
    return [_default(client, names, target), *(_role(client, names, role) for role in roles)]


def _missing(client: redis.Redis, role: acl.Role, names: keys.Keys) -> bool:
    return _refusal(client, role.user(names.cluster), ["PING"]).startswith("ERR User")


def _default(client: redis.Redis, names: keys.Keys, target: urls.Target) -> checks.Finding:
    """Whether a client without a password is let in, and the server may load what was appended."""
    user: Any = client.acl_getuser("default")
    flags = {connections.text(flag) for flag in user["flags"]}
    if _refusal(client, "default", ["XADD", names.log, "*", "field", "value"]):
        return checks.Finding(
            "user default",
            "bad",
            "may not write",
            "many releases load the append-only file with its rights, so that a restart loses the log",
            acl.INSTALL,
        )
    if target.kind == "unix" or "off" in flags:
        return checks.Finding("user default", "good", "off" if "off" in flags else "behind a unix socket")
    return checks.Finding(
        "user default",
        "poor" if "nopass" not in flags else "bad",
        "on, without a password" if "nopass" in flags else "on",
        "anyone who reaches the port may do anything"
        if "nopass" in flags
        else "one password opens everything",
        acl.INSTALL,
    )


def _role(client: redis.Redis, names: keys.Keys, role: acl.Role) -> checks.Finding:
    user = role.user(names.cluster)
    subject = f"user {user}"
    if _missing(client, role, names):
        return checks.Finding(
            subject,
            "poor",
            "missing",
            f"the {role.name} runs with the rights of another",
            f"{acl.INSTALL}, and name the user in store.url",
        )
    lacking = [one for one in role.needs(names) if _refusal(client, user, one)]
    excess = [one for one in role.must_not(names) if not _refusal(client, user, one)]
    if not lacking and not excess:
        return checks.Finding(subject, "good", "has the required permissions, and no others")
    found = [f"may not {_named(lacking)}"] if lacking else []
    found += [f"may {_named(excess)}"] if excess else []
    why = ["its process fails"] if lacking else []
    why += ["anyone with its password can do harm"] if excess else []
    return checks.Finding(
        subject,
        "bad" if lacking else "poor",
        ", ".join(found),
        ", ".join(why),
        f"ACL SETUSER {user} {role.rules(names.cluster)}; the bundled store: the store.placements"
        " of this process, and a restart (docs/how-to/install.md)",
    )


def _refusal(client: redis.Redis, user: str, command: Sequence[str]) -> str:
    """Why the server would refuse the command to the user; empty if it would not."""
    untyped: Any = client
    try:
        reply = untyped.execute_command("ACL", "DRYRUN", user, *command)
    except exceptions.NoPermissionError:
        raise
    except redis.ResponseError as error:
        return f"ERR {error}" if not str(error).startswith("ERR") else str(error)
    words = connections.text(reply)
    return "" if words == "OK" else words


def _named(commands: Sequence[Sequence[str]]) -> str:
    return ", ".join(" ".join(command[:2]).lower() for command in commands)
