"""The servers of docs/how-to/store.md: configured by its lines, with the users that its commands make.

Ports, paths, addresses and passwords are those of the test. With TLS a plain port is open as well, by which
the test itself asks.
"""

import pathlib
import re
from collections.abc import Iterator

import pytest
import redis

from app import settings
from app.serving.tls import certificate_issuer
from app.store import schemas, stores
from app.store.health import checks, doctor
from tests.support import child_processes, console_sessions, declared, how_to_pages
from tests.support.store import deployments, servers

SERVER, REPLICA, SENTINEL = how_to_pages.blocks("store.md", "text")
USERS = [
    block for block in how_to_pages.sessions(cluster=True)["replace-the-store.md"] if "hashes" in block.text
]
NAMES = declared.names("production")
TLS = servers.tls_binary()
BINARIES = [
    pytest.param("", id="plain"),
    pytest.param(
        TLS,
        id="tls",
        marks=pytest.mark.skipif(not TLS, reason="no store with TLS: set TLS_STORE to the path of one"),
    ),
]


class Followed:
    """A reader of the page: the users, and servers and sentinels with its lines."""

    def __init__(self, folder: pathlib.Path, binary: str) -> None:
        """``binary``: that of a server with TLS; empty for servers without TLS."""
        self._folder, self._binary = folder, binary
        session = console_sessions.Session(folder)
        session.run(USERS, {})
        self._work = session.work
        with (self._work / "users.acl").open("a") as users:
            users.write("user admin on nopass ~* &* +@all\n")
        self._certificates = certificate_issuer.issue(folder / "tls", ["127.0.0.1"]).directory
        self._ports: dict[servers.Server, int] = {}

    def server(self, *blocks: str, follows: servers.Server | None = None) -> servers.Server:
        """A server with the lines of these blocks; without one to follow, it is the master."""
        text = "".join(blocks)
        if follows is None:
            text = re.sub("^replicaof .*$", "", text, flags=re.MULTILINE)
        return self._started(f"{text}repl-diskless-sync-delay 0\n", "replica", follows)

    def sentinel(self, watches: servers.Server) -> servers.Server:
        made = self._started(SENTINEL, "sentinel", watches)
        made.ask("SENTINEL", "DEBUG", *servers.HURRIED)
        return made

    def options(self, role: str, *sentinels: servers.Server) -> settings.Store:
        """With the URL that the commands made, and the sentinels in place of the server."""
        lines = (self._work / "topolog-store.env").read_text().splitlines()
        made = dict(line.split("=", 1) for line in lines)[f"{role}-url"].removeprefix("redis")
        hosts = ",".join(f"127.0.0.1:{self._ports[one]}" for one in sentinels)
        url = f"+sentinel{made}".replace("store.example:6379/0", f"{hosts}/topolog")
        files = {"ca_certs": "ca.crt", "certfile": "operator.crt", "keyfile": "operator.key"}
        query = "&".join(f"ssl_{name}={self._certificates / file}" for name, file in files.items())
        return settings.Store(
            url=f"rediss{url}?{query}" if self._binary else f"redis{url}", socket_timeout=1.0
        )

    def close(self) -> None:
        for server in self._ports:
            server.kill()

    def _started(self, text: str, user: str, other: servers.Server | None) -> servers.Server:
        port = child_processes.free_port()
        here = {
            "^port 0$": "",
            r"^tls-port \d+$": f"tls-port {port}",
            r"/etc/redis/users\.acl": str(self._work / "users.acl"),
            r"/etc/redis/tls/tls\.": f"{self._certificates}/server.",
            r"/etc/redis/tls/client\.": f"{self._certificates}/operator.",
            "/etc/redis/tls/": f"{self._certificates}/",
            r"\bPASSWORD\b": (self._work / "passwords" / user).read_text().strip(),
            "milliseconds topolog 5000": "milliseconds topolog 500",
        }
        if not self._binary:
            here["^tls-.*$"] = ""
        if other is not None:
            here["HOST 6379"] = f"127.0.0.1 {self._ports[other]}"
        for pattern, replacement in here.items():
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        folder = self._folder / f"server-{len(self._ports)}"
        sentinel = user == "sentinel"
        made = servers.Server(folder, text.splitlines(), sentinel=sentinel, binary=self._binary)
        self._ports[made] = port if self._binary else made.port
        return made


@pytest.fixture(params=BINARIES)
def followed(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Followed]:
    made = Followed(tmp_path, request.param)
    yield made
    made.close()


def admin(server: servers.Server) -> redis.Redis:
    return redis.Redis(port=server.port, username="admin", password="any", decode_responses=True)


def follows(server: servers.Server) -> bool:
    with admin(server) as client:
        return bool(client.info("replication").get("master_link_status") == "up")


def agrees(sentinel: servers.Server) -> bool:
    reply = sentinel.ask("SENTINEL", "MASTER", "topolog")
    assert isinstance(reply, list)
    state = dict(zip(reply[::2], reply[1::2], strict=True))
    return (state[b"num-other-sentinels"], state[b"num-slaves"], state[b"flags"]) == (b"2", b"2", b"master")


def refusals(server: servers.Server) -> list[str]:
    """What the server's access list has refused."""
    with admin(server) as client:
        return [f"{entry['username']}: {entry['object']}" for entry in client.acl_log()]


def examined(options: settings.Store) -> dict[str, checks.Finding]:
    return {one.subject: one for one in doctor.examine(options, NAMES)}


def test_a_server_starts_with_the_lines_of_the_page(followed: Followed) -> None:
    with admin(followed.server(SERVER)) as client:
        assert client.config_get("appendonly", "appendfsync", "maxmemory") == {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory": str(4 * 2**30),
        }


def test_a_replica_takes_over_by_the_lines_of_the_page(followed: Followed) -> None:
    master = followed.server(SERVER, REPLICA)
    replicas = [followed.server(SERVER, REPLICA, follows=master) for _ in range(2)]
    servers.eventually(lambda: all(map(follows, replicas)), "master_link_status is up")
    sentinels = [followed.sentinel(master) for _ in range(3)]
    servers.eventually(lambda: all(map(agrees, sentinels)), "the sentinels have found each other")
    with schemas.connect(followed.options("migrator", *sentinels), NAMES) as client:
        assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
    store = stores.open_store(
        followed.options("recorder", *sentinels), schema=declared.SCHEMA, cluster=NAMES.cluster
    )
    try:
        before = deployments.append(store, "before")
        with admin(master) as client:
            servers.eventually(lambda: client.wait(2, 1000) == 2, "both replicas have it")
        found = examined(followed.options("doctor", *sentinels))
        watched = ("replicas", "min-replicas-to-write", "sentinels")
        assert {found[name].grade for name in watched} == {"good"}
        assert {one.grade for name, one in found.items() if name.startswith("user ")} == {"good"}
        assert [refusals(one) for one in (master, *replicas)] == [[], [], []]
        master.kill()
        # The former master stays away, and an append needs a replica.
        assert deployments.append_until_done(store, "after").last == before.last + 1
        master.start()
        servers.eventually(lambda: follows(master), "the former master follows")
        assert [refusals(one) for one in (master, *replicas)] == [[], [], []]
    finally:
        store.close()
