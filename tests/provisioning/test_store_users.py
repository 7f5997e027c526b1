"""A real server with the access list that the bundled store makes of the hashes."""

import pathlib
import re

import pytest
import redis
from click import testing

from app import cli, settings
from app.store import keys, schemas
from app.store.health import doctor
from tests.support import declared, manifests
from tests.support.provisioning import namespaces, secrets_of
from tests.support.store import servers

NAMES = keys.Keys("east")


def written(namespace: namespaces.Namespace, folder: pathlib.Path, without: str = "") -> pathlib.Path:
    """The Secret of hashes as a kubelet mounts it."""
    namespace.provision(cluster="east")
    folder.mkdir()
    for role, digest in secrets_of.data(namespace.secrets()["topolog-valkey-acl"]).items():
        if role != without:
            (folder / role).write_bytes(digest)
    return folder


def listed(hashes: pathlib.Path, *arguments: str) -> testing.Result:
    command = ["doctor", "users", "--hashes", str(hashes), *arguments]
    return testing.CliRunner().invoke(cli.topolog, command, env={"TOPOLOG_CLUSTER": "east"})


def test_each_role_logs_in_by_its_url_and_has_its_rights(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    hashes, path = written(namespace, tmp_path / "hashes"), tmp_path / "users.acl"
    done = listed(hashes, "--to", str(path))
    assert (done.exit_code, done.output) == (0, f"wrote the access list of cluster east to {path}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    server = servers.Server(tmp_path / "s", [f"aclfile {path}", "appendonly yes", "maxmemory 100mb"])
    try:
        urls = secrets_of.data(namespace.secrets()["topolog-store"])
        options = {
            role: settings.Store(
                url=urls[f"{role}-url"].decode().replace("topolog-valkey:6379", server.address)
            )
            for role in secrets_of.USERS
        }
        with schemas.connect(options["migrator"], NAMES) as client:
            assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
        for role in secrets_of.USERS:
            with schemas.connect(options[role], NAMES) as client:
                assert client.ping()
        found = doctor.examine(options["doctor"], NAMES)
        assert {one.grade for one in found if one.subject.startswith("user ")} == {"good"}
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()
    finally:
        server.kill()


def test_what_is_found_of_the_bundled_store_a_day_after_its_start_can_be_mended(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No user of it may give the server's commands that mend another store."""
    users = tmp_path / "users.acl"
    listed(written(namespace, tmp_path / "hashes"), "--to", str(users))
    lines = (manifests.DEPLOY / "components" / "bundled-valkey" / "valkey.conf").read_text().splitlines()
    kept = [line for line in lines if line.partition(" ")[0] not in ("port", "dir", "aclfile", "logfile")]
    server = servers.Server(tmp_path / "s", [*kept, f"aclfile {users}", "maxmemory 100mb"])
    monkeypatch.setattr(doctor, "_now", lambda client: client.time()[0] + 25 * 3600)
    try:
        url = secrets_of.data(namespace.secrets()["topolog-store"])["doctor-url"].decode()
        options = settings.Store(url=url.replace("topolog-valkey:6379", server.address))
        found = [one for one in doctor.examine(options, NAMES) if one.grade != "good"]
        commands = [one for one in found if re.search("CONFIG|BGSAVE|BGREWRITEAOF|REPLICAOF|ACL", one.run)]
        assert [one.subject for one in commands if "the bundled store" not in one.run] == []
        assert "snapshot file" not in {one.subject for one in found}
    finally:
        server.kill()


def test_a_list_without_a_role_is_not_made(namespace: namespaces.Namespace, tmp_path: pathlib.Path) -> None:
    hashes, path = written(namespace, tmp_path / "hashes", without="auditor"), tmp_path / "users.acl"
    done = listed(hashes, "--to", str(path))
    assert done.exit_code != 0
    assert "no SHA-256 of 64 hexadecimal digits for: auditor" in done.output
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_named(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    done = listed(written(namespace, tmp_path / "hashes"), "--to", str(tmp_path / "none" / "users.acl"))
    assert done.exit_code != 0
    assert "none/users.acl: No such file or directory" in done.output
