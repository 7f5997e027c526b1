"""Redis ACLs per role: the access list to install, and the commands that ``topolog doctor`` checks.

A function runs with the rights of its caller, so a role has the commands inside its functions too. The key
pattern protects the keys of other clusters; commands that are not listed are refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.store import errors, keys

FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "append": ("get", "hdel", "hmget", "hset", "info", "set", "time", "xadd", "xrange"),
    "attend": ("hdel", "hset", "time"),
    "doubt": ("hmget", "hset", "xrange"),
    "read": ("hmget", "xrange"),
    "rewind": ("hdel", "hkeys", "hmget", "hset", "time", "unlink", "xadd", "xrevrange"),
    "trim": ("hdel", "hexists", "hgetall", "hmget", "time", "xtrim"),
}
"""Function of topolog.lua -> the commands that it runs."""

READING = frozenset({"read"})
"""Functions that are called by FCALL_RO."""

PREFIX = "topolog-"
_SHA256 = re.compile(r"[0-9a-f]{64}")

_ANYBODY = ("cluster|slots", "hget", "hgetall", "hmget", "info", "ping", "role")
_FOLLOWING = ("attend", "doubt", "read")
"""Functions of each role that keeps a snapshot at the head of the log."""
_FOLLOWS = ("get", "time", "xrange", "xread")
"""Commands of the same roles: the log, the first checkpoint, and the state of the store."""
_KEEPING = ("del", "exec", "exists", "hdel", "hset", "multi", "persist", "set", "unlink", "unwatch", "watch")
"""Commands that write checkpoints, remove them, and rebuild views."""
_AUDITING = ("exec", "hlen", "hscan", "multi", "set", "xinfo|stream", "xrevrange")
"""Commands that read all keys at one moment, and store the report."""
_WEIGHING = ("memory|usage", "xlen")
"""Commands that show the memory use of the log and the decision records; XTRIM trims both."""
_MENDING = ("exec", "multi", "unwatch", "watch", "xdel", "xinfo|stream", "xsetid")
"""Commands that make a log appendable again."""
_MIGRATING = (
    *("exec", "exists", "expire", "get", "hdel", "hset", "hsetnx", "multi", "persist", "rename", "unlink"),
    *("unwatch", "watch", "xrange"),
)
"""Commands of the steps of migrations."""

_EXAMPLES: Mapping[str, str] = {
    "acl|dryrun": "ACL DRYRUN default PING",
    "acl|getuser": "ACL GETUSER default",
    "acl|whoami": "ACL WHOAMI",
    "cluster|info": "CLUSTER INFO",
    "cluster|slots": "CLUSTER SLOTS",
    "config|get": "CONFIG GET appendonly",
    "del": "DEL KEY",
    "exec": "EXEC",
    "exists": "EXISTS KEY",
    "expire": "EXPIRE KEY 60",
    "function|list": "FUNCTION LIST",
    "function|load": "FUNCTION LOAD CODE",
    "get": "GET KEY",
    "hdel": "HDEL KEY field",
    "hexists": "HEXISTS KEY field",
    "hget": "HGET KEY field",
    "hgetall": "HGETALL KEY",
    "hkeys": "HKEYS KEY",
    "hlen": "HLEN KEY",
    "hmget": "HMGET KEY field",
    "hscan": "HSCAN KEY 0",
    "hset": "HSET KEY field value",
    "hsetnx": "HSETNX KEY field value",
    "info": "INFO",
    "memory|usage": "MEMORY USAGE KEY",
    "multi": "MULTI",
    "persist": "PERSIST KEY",
    "ping": "PING",
    "rename": "RENAME KEY KEY",
    "role": "ROLE",
    "scan": "SCAN 0 COUNT 1",
    "set": "SET KEY value",
    "time": "TIME",
    "type": "TYPE KEY",
    "unlink": "UNLINK KEY",
    "unwatch": "UNWATCH",
    "watch": "WATCH KEY",
    "xadd": "XADD KEY * field value",
    "xdel": "XDEL KEY 1",
    "xinfo|stream": "XINFO STREAM KEY",
    "xlen": "XLEN KEY",
    "xrange": "XRANGE KEY - +",
    "xread": "XREAD STREAMS KEY 0",
    "xrevrange": "XREVRANGE KEY + -",
    "xsetid": "XSETID KEY 1",
    "xtrim": "XTRIM KEY MINID 1",
}
"""Command, as access lists name it -> how it is given; KEY is a key of the cluster."""

_FORBIDDEN = (
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG SET appendonly no",
    "EVAL code 0",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
    "ACL SETUSER nobody",
    "SHUTDOWN",
    "KEYS *",
    "REPLICAOF NO ONE",
)
"""Commands refused to every role."""
_KEPT_BACK = ("function|load", "config|get")
"""Commands refused to roles that do not list them."""


@dataclass(frozen=True, slots=True)
class Role:
    """The permissions of one kind of process."""

    name: str
    functions: tuple[str, ...]
    commands: tuple[str, ...]
    """Further commands, beside the shared ones and those inside the functions; as access lists name them."""
    synced: tuple[str, ...] = ()
    """Further commands if placements must be on disk (store.placements: fsync)."""

    def user(self, cluster: str) -> str:
        """The name of the role's user in the server; several clusters may share one."""
        return f"{PREFIX}{cluster}-{self.name}"

    @property
    def granted(self) -> Sequence[str]:
        """Every command that the role has, sorted."""
        inside = (command for name in self.functions for command in FUNCTIONS[name])
        return sorted({*_ANYBODY, *self.commands, *inside})

    def rules(self, cluster: str) -> str:
        """The rules of the user in the access list, without ``on`` and the password."""
        # Those of the previous schema too: its processes continue until the store is migrated.
        calls = [
            f"+{command}|{name}"
            for schema in (keys.SCHEMA, keys.SCHEMA - 1)
            for command, name in (_call(function, schema) for function in self.functions)
        ]
        allowed = " ".join([*calls, *(f"+{command}" for command in self.granted)])
        return f"resetchannels ~{keys.Keys(cluster).prefix}* -@all {allowed}"

    def needs(self, names: keys.Keys) -> Iterator[Sequence[str]]:
        """Commands that must be allowed."""
        for name in self.functions:
            yield *_call(name), "1", names.log
        for command in self.granted:
            yield _example(command, names.log)

    def must_not(self, names: keys.Keys) -> Iterator[Sequence[str]]:
        """Commands that must be refused."""
        yield from (command.split() for command in _FORBIDDEN)
        yield from (_example(one, names.log) for one in _KEPT_BACK if one not in self.granted)
        for name in FUNCTIONS:
            if name not in self.functions:
                yield *_call(name), "1", names.log
        yield _example("hget", "another-key")


ROLES: tuple[Role, ...] = (
    Role("recorder", ("append", "rewind", *_FOLLOWING), _FOLLOWS),
    Role("controller", ("append", *_FOLLOWING), (*_FOLLOWS, "xrevrange")),
    Role("extender", ("append", *_FOLLOWING), (*_FOLLOWS, "xadd", "xrevrange"), synced=("config|get",)),
    Role("compactor", ("trim", *_FOLLOWING), (*_FOLLOWS, *_KEEPING, *_WEIGHING)),
    Role("auditor", ("append", *_FOLLOWING), (*_FOLLOWS, *_AUDITING)),
    Role("viewer", _FOLLOWING, (*_FOLLOWS, "xinfo|stream", "xrevrange")),
    Role("operator", ("append", *_FOLLOWING), (*_FOLLOWS, *_MENDING)),
    Role("migrator", ("read",), ("function|list", "function|load", *_MIGRATING)),
    Role(
        "doctor",
        ("read",),
        (
            *("acl|dryrun", "acl|getuser", "acl|whoami", "cluster|info", "config|get", "function|list"),
            *("scan", "time", "type", "xinfo|stream"),
        ),
    ),
)

CERTIFICATES = Role("certificates", (), ("config|set",))
"""The user by which ``topolog bootstrap`` makes the bundled store read its certificate again."""

_DEFAULT = "default off resetchannels ~* -@all +@write"
"""No client can log in as this user. Many releases load the transactions of an append-only file with its
rights, and drop those that it may not write: every append (valkey-io/valkey issue 3983, redis/redis issue
14541)."""
SERVERS: Mapping[str, str] = {
    "replica": "resetchannels -@all +psync +replconf +ping",
    "sentinel": "allchannels -@all +multi +slaveof +ping +exec +subscribe +config|rewrite"
    " +role +publish +info +client|setname +client|kill +script|kill",
}
"""Those who log in to a server on behalf of another -> their rules, by the documentation of Redis."""


INSTALL = "install what `topolog doctor users` prints as aclfile (deploy/store/users.acl)"
"""The command to run if users are missing."""


def roles(placements: str) -> tuple[Role, ...]:
    """The roles and their permissions for this setting of store.placements."""
    if placements != "fsync":
        return ROLES
    return tuple(replace(role, commands=(*role.commands, *role.synced)) for role in ROLES)


def access_list(cluster: str, placements: str = "acknowledged") -> str:
    """The file for Redis' ``aclfile``, with #PASSWORD for the SHA-256 of each password.

    Redis refuses to start with these placeholders, so no default password is ever installed.
    """
    needed = roles(placements)
    users = (f"{role.user(cluster)} on #PASSWORD {role.rules(cluster)}" for role in needed)
    servers = (f"{PREFIX}{name} on #PASSWORD {rules}" for name, rules in SERVERS.items())
    return "".join(f"user {line}\n" for line in (_DEFAULT, *users, *servers))


def filled(
    cluster: str, hashes: Mapping[str, str], placements: str = "acknowledged", *, tls: bool = False
) -> str:
    """The access list with passwords; with the users of replicas and of sentinels if these have any.

    ``hashes``: role, ``replica`` or ``sentinel`` -> SHA-256 in hex; several, in words, while passwords are
    replaced. ``tls``: with a user for the certificate of the server. Raises BadHashes if one has none.
    """
    needed = roles(placements)
    servers = {name: rules for name, rules in SERVERS.items() if name in hashes}
    given = [role.name for role in needed] + [CERTIFICATES.name] * tls + list(servers)
    accepted = {name: hashes.get(name, "").split() for name in given}
    wrong = [name for name, each in accepted.items() if not each or not all(map(_SHA256.fullmatch, each))]
    if wrong:
        raise errors.BadHashes(f"no SHA-256 of 64 hexadecimal digits for: {', '.join(wrong)}")
    passwords = {name: " ".join(f"#{digest}" for digest in each) for name, each in accepted.items()}
    users = [f"{role.user(cluster)} on {passwords[role.name]} {role.rules(cluster)}" for role in needed]
    if own := passwords.get(CERTIFICATES.name):
        # Without the keys and the commands that all roles share.
        users.append(f"{CERTIFICATES.user(cluster)} on {own} resetchannels -@all +config|set")
    users += [f"{PREFIX}{name} on {passwords[name]} {rules}" for name, rules in servers.items()]
    return "".join(f"user {line}\n" for line in (_DEFAULT, *users))


def _call(function: str, schema: int = keys.SCHEMA) -> tuple[str, str]:
    """The command that calls a function, and its name in the server."""
    return "fcall_ro" if function in READING else "fcall", keys.function(function, schema)


def _example(command: str, key: str) -> Sequence[str]:
    return [key if word == "KEY" else word for word in _EXAMPLES[command].split()]
