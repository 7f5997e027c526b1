"""Which role may ask the server for what: the access list to install, and what ``topolog doctor`` tries.

A function runs with the rights of its caller, so a role has the commands inside its functions too. What
keeps it from other clusters' keys is the pattern, and from everything else that nothing else is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.store import keys

FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "topolog_append": ("get", "hdel", "hmget", "hset", "set", "time", "xadd"),
    "topolog_claim": ("hmget", "hset"),
    "topolog_read": ("hmget", "xrange"),
}
"""Function of topolog.lua -> the commands that it runs."""

READING = frozenset({"topolog_read"})
"""Functions that are called by FCALL_RO."""

PREFIX = "topolog-"

_ANYBODY = ("cluster|slots", "hget", "hgetall", "hmget", "info", "ping", "role")
_FOLLOWING = ("xread", "xrange")
_REBUILDING = ("del", "exec", "hset", "multi", "watch")

_EXAMPLES: Mapping[str, str] = {
    "acl|dryrun": "ACL DRYRUN default PING",
    "acl|getuser": "ACL GETUSER default",
    "acl|whoami": "ACL WHOAMI",
    "cluster|info": "CLUSTER INFO",
    "cluster|slots": "CLUSTER SLOTS",
    "config|get": "CONFIG GET appendonly",
    "del": "DEL KEY",
    "exec": "EXEC",
    "function|list": "FUNCTION LIST",
    "function|load": "FUNCTION LOAD CODE",
    "get": "GET KEY",
    "hdel": "HDEL KEY field",
    "hget": "HGET KEY field",
    "hgetall": "HGETALL KEY",
    "hmget": "HMGET KEY field",
    "hset": "HSET KEY field value",
    "hsetnx": "HSETNX KEY field value",
    "info": "INFO",
    "multi": "MULTI",
    "ping": "PING",
    "role": "ROLE",
    "set": "SET KEY value",
    "time": "TIME",
    "watch": "WATCH KEY",
    "xadd": "XADD KEY * field value",
    "xrange": "XRANGE KEY - +",
    "xread": "XREAD STREAMS KEY 0",
    "xrevrange": "XREVRANGE KEY + -",
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
"""What no role may do."""
_KEPT_BACK = ("function|load", "config|get")
"""What only the roles may do that have it."""


@dataclass(frozen=True, slots=True)
class Role:
    """What one kind of process may do."""

    name: str
    functions: tuple[str, ...]
    commands: tuple[str, ...]
    """Beside those of everybody and those inside the functions; as access lists name them."""

    @property
    def user(self) -> str:
        """The name of the role's user in the server."""
        return f"{PREFIX}{self.name}"

    @property
    def granted(self) -> Sequence[str]:
        """Every command that the role has, sorted."""
        inside = (command for name in self.functions for command in FUNCTIONS[name])
        return sorted({*_ANYBODY, *self.commands, *inside})

    def rules(self, cluster: str) -> str:
        """What the user has in the access list, but for being on and the password."""
        calls = [f"+{_call(name)}|{name}" for name in self.functions]
        allowed = " ".join([*calls, *(f"+{command}" for command in self.granted)])
        return f"resetchannels ~{keys.Keys(cluster).prefix}* -@all {allowed}"

    def needs(self, names: keys.Keys) -> Iterator[Sequence[str]]:
        """Commands that must be allowed."""
        for name in self.functions:
            yield _call(name), name, "1", names.log
        for command in self.granted:
            yield _example(command, names.log)

    def must_not(self, names: keys.Keys) -> Iterator[Sequence[str]]:
        """Commands that must be refused."""
        yield from (command.split() for command in _FORBIDDEN)
        yield from (_example(one, names.log) for one in _KEPT_BACK if one not in self.granted)
        for name in FUNCTIONS:
            if name not in self.functions:
                yield _call(name), name, "1", names.log
        yield _example("hget", "another-key")


ROLES: tuple[Role, ...] = (
    Role("recorder", ("topolog_append", "topolog_claim", "topolog_read"), _FOLLOWING),
    Role("controller", ("topolog_append", "topolog_read"), (*_FOLLOWING, "xrevrange")),
    Role("extender", ("topolog_append", "topolog_read"), (*_FOLLOWING, "xadd", "xrevrange")),
    Role("compactor", ("topolog_append", "topolog_read"), (*_FOLLOWING, *_REBUILDING)),
    Role("migrator", ("topolog_read",), ("function|list", "function|load", "hset", "hsetnx")),
    Role(
        "doctor",
        ("topolog_read",),
        ("acl|dryrun", "acl|getuser", "acl|whoami", "cluster|info", "config|get", "function|list", "time"),
    ),
)

_SERVERS = (
    # What a replica and the sentinels need of the servers, by the documentation of Redis.
    "topolog-replica on #PASSWORD resetchannels -@all +psync +replconf +ping",
    "topolog-sentinel on #PASSWORD allchannels -@all +multi +slaveof +ping +exec +subscribe +config|rewrite"
    " +role +publish +info +client|setname +client|kill +script|kill",
)


def access_list(cluster: str) -> str:
    """The file for Redis' ``aclfile``, with #PASSWORD for the SHA-256 of each password.

    Redis refuses to start with these placeholders: no password is the same everywhere.
    """
    roles = (f"{role.user} on #PASSWORD {role.rules(cluster)}" for role in ROLES)
    return "".join(f"user {line}\n" for line in ("default off -@all", *roles, *_SERVERS))


def _call(function: str) -> str:
    return "fcall_ro" if function in READING else "fcall"


def _example(command: str, key: str) -> Sequence[str]:
    return [key if word == "KEY" else word for word in _EXAMPLES[command].split()]
