"""A server set up as documented: users by role, a replica, a memory limit."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from app import settings
from app.store import schemas
from app.store.health import checks, doctor
from app.store.server import acl
from tests.support import declared
from tests.support.store import past_stores, servers

CLUSTER = "prod"
NAMES = declared.names(CLUSTER)
OTHER = declared.names("other")


def password(user: str) -> str:
    return f"secret-of-{user}"


def installed(directory: Path) -> list[str]:
    """The lines that an operator adds for the access list, passwords filled in."""
    lines = []
    for line in acl.access_list(CLUSTER).splitlines():
        digest = hashlib.sha256(password(line.split()[1]).encode()).hexdigest()
        lines.append(line.replace("#PASSWORD", f"#{digest}"))
    # For the tests themselves.
    lines.append("user admin on nopass ~* &* +@all")
    path = directory / "users.acl"
    path.write_text("\n".join(lines) + "\n")
    return [f"aclfile {path}"]


class Guarded:
    """A server set up as documented, and a replica."""

    def __init__(self, directory: Path) -> None:
        users = installed(directory)
        common = [
            *users,
            "appendonly yes",
            "repl-diskless-sync-delay 0",
            "maxmemory 500mb",
            "maxmemory-policy noeviction",
        ]
        common += ["masteruser topolog-replica", f"masterauth {password('topolog-replica')}"]
        self.server = servers.Server(directory / "m", [*common, "min-replicas-max-lag 3"])
        self.replica = servers.Server(directory / "r", [*common, f"replicaof 127.0.0.1 {self.server.port}"])
        self.admin = redis.Redis(port=self.server.port, username="admin", password="any")
        servers.eventually(lambda: self.admin.info()["connected_slaves"] == 1, "the replica is there")
        self.admin.config_set("min-replicas-to-write", 1)
        servers.eventually(lambda: self.admin.info()["min_slaves_good_slaves"] == 1, "it is well")
        # What the migrator may do is shown by a store of the first schema that holds something, of a process
        # that may still do what that version did.
        past_stores.begin(self.admin, NAMES)
        with schemas.connect(self.options("extender"), NAMES) as theirs:
            past_stores.Writer(theirs, NAMES).append(*past_stores.counted())
        with schemas.connect(self.options("migrator"), NAMES) as client:
            schemas.migrate(client, NAMES, declared.SCHEMA)
        # Another cluster on the same server.
        schemas.migrate(self.admin, OTHER, declared.SCHEMA)

    def options(self, role: str) -> settings.Store:
        user = next(one for one in acl.ROLES if one.name == role).user(CLUSTER)
        return settings.Store(
            url=f"redis://{user}:{password(user)}@{self.server.address}", socket_timeout=1.0
        )

    def run(self, *command: str) -> None:
        untyped: Any = self.admin
        untyped.execute_command(*command)

    @contextlib.contextmanager
    def set_to(self, name: str, value: str) -> Iterator[None]:
        """The server runs with a setting."""
        before: Any = self.admin.config_get(name)
        self.admin.config_set(name, value)
        try:
            yield
        finally:
            self.admin.config_set(name, next(iter(before.values())))

    def close(self) -> None:
        self.admin.close()
        self.replica.kill()
        self.server.kill()


def examined(guarded: Guarded, role: str = "doctor") -> dict[str, checks.Finding]:
    return {one.subject: one for one in doctor.examine(guarded.options(role), NAMES)}
