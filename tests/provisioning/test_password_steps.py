"""``topolog bootstrap --passwords STEP``: the store's passwords are replaced while the installation runs."""

import hashlib
import pathlib
from collections.abc import Iterator

import pytest
from click import testing

from app import cli, settings
from app.simulation.apiserver import faults
from app.store import errors, keys, schemas
from app.store.server import connections
from tests.support import commands, declared
from tests.support.provisioning import namespaces, request_counts, secrets_of
from tests.support.store import servers

NAMES = keys.Keys("default")
STORE = "topolog-store"
STEPS = ("announce", "take-over", "drop")


def step(namespace: namespaces.Namespace, name: str) -> None:
    done = namespace.bootstrap("--passwords", name)
    assert done.returncode == 0, done.stderr


class Bundled:
    """A server that makes its access list when it starts, as the bundled store does."""

    def __init__(self, namespace: namespaces.Namespace, folder: pathlib.Path) -> None:
        self._namespace = namespace
        self._folder = folder
        self._list = folder / "users.acl"
        namespace.provision()
        self._mount()
        self.server = servers.Server(folder / "s", [f"aclfile {self._list}", "appendonly yes"])
        self.url = f"redis://{self.server.address}"
        namespace.provision(store=self.url)

    def _mount(self) -> None:
        hashes = self._folder / "hashes"
        hashes.mkdir(exist_ok=True)
        for role, text in secrets_of.data(self._namespace.secrets()["topolog-valkey-acl"]).items():
            (hashes / role).write_bytes(text)
        command = ["doctor", "users", "--hashes", str(hashes), "--to", str(self._list)]
        done = testing.CliRunner().invoke(cli.topolog, command, env={"TOPOLOG_CLUSTER": "default"})
        assert done.exit_code == 0, done.output

    def restart(self) -> None:
        self.server.kill()
        self._mount()
        self.server.start()
        # It loads its file first.
        servers.eventually(self._answers, "the server answers")

    def _answers(self) -> bool:
        with connections.connect(self.urls()["doctor"]) as client:
            return bool(client.ping())

    def urls(self) -> dict[str, str]:
        """Role -> URL, as the processes that start now have it."""
        data = secrets_of.data(self._namespace.secrets()[STORE])
        return {role: data[f"{role}-url"].decode() for role in secrets_of.USERS}


@pytest.fixture
def bundled(namespace: namespaces.Namespace, tmp_path: pathlib.Path) -> Iterator[Bundled]:
    made = Bundled(namespace, tmp_path)
    yield made
    made.server.kill()


def refused(urls: dict[str, str]) -> set[str]:
    """The roles that the server does not let in."""
    found = set()
    for role, url in urls.items():
        try:
            with connections.connect(url) as client, connections.translated():
                client.ping()
        except errors.StoreAway:
            raise
        except errors.StoreError:
            found.add(role)
    return found


def test_a_process_is_let_in_by_its_url_before_and_after_each_step(
    namespace: namespaces.Namespace, bundled: Bundled
) -> None:
    former = bundled.urls()
    with schemas.connect(settings.Store(url=former["migrator"]), NAMES) as client:
        assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
    step(namespace, "announce")
    assert bundled.urls() == former
    assert refused(former) == set()
    bundled.restart()
    assert refused(former) == set()
    step(namespace, "take-over")
    following = bundled.urls()
    assert not set(following.values()) & set(former.values())
    assert refused(former) == refused(following) == set()
    bundled.restart()
    assert refused(former) == refused(following) == set()
    step(namespace, "drop")
    assert bundled.urls() == following
    bundled.restart()
    assert refused(following) == set()
    assert refused(former) == set(secrets_of.USERS)
    assert set(namespace.provision(store=bundled.url).values()) == {"kept"}


def test_passwords_that_the_store_does_not_accept_yet_do_not_take_over(
    namespace: namespaces.Namespace, bundled: Bundled
) -> None:
    step(namespace, "announce")
    before = namespace.versions()
    done = namespace.bootstrap("--passwords", "take-over")
    assert done.returncode == 1
    assert "the store refuses: restart it" in done.stderr
    assert namespace.versions() == before
    bundled.server.kill()
    done = namespace.bootstrap("--passwords", "take-over", "--dry-run")
    assert done.returncode == 0, "a store that cannot be reached is no reason"
    assert "not tried" in done.stdout
    assert namespace.versions() == before


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.LOSE])
def test_a_step_that_ends_at_any_request_is_completed_by_the_next(
    namespace: namespaces.Namespace, name: str, kind: faults.FaultKind
) -> None:
    """Or by the hourly run, as far as the hashes go. DROP: the end came before the request took effect."""
    namespace.provision()
    for each in STEPS[: STEPS.index(name)]:
        step(namespace, each)
    data = {one: secrets_of.data(found) for one, found in namespace.secrets().items()}
    ended = 0
    while True:
        for one in (STORE, "topolog-valkey-acl"):
            namespace.put(one, data[one])
        fault = namespace.server.faults.add(kind, request_counts.after(ended))
        cut = namespace.bootstrap("--passwords", name)
        struck = fault.struck
        namespace.server.faults.clear()
        step(namespace, name)
        check_hashes(namespace)
        if not struck:
            break
        assert cut.returncode != 0
        ended += 1
    # Each of two is read and written; the URLs are read for the hashes, and the CA when others take over.
    assert ended >= 5
    before = namespace.versions()
    step(namespace, name)
    assert set(namespace.provision().values()) == {"kept"}
    assert namespace.versions() == before


def check_hashes(namespace: namespaces.Namespace) -> None:
    """Check that the server would accept what the Secret of the URLs holds, and nothing else."""
    data = secrets_of.data(namespace.secrets()[STORE])
    for role, password in secrets_of.passwords(namespace.secrets()).items():
        known = [password.encode(), *([data[f"{role}-next"]] if f"{role}-next" in data else [])]
        wanted = [hashlib.sha256(each).hexdigest().encode() for each in known]
        wanted += [data[f"{role}-former"]] if f"{role}-former" in data else []
        assert secrets_of.data(namespace.secrets()["topolog-valkey-acl"])[role].split() == wanted


def test_an_hourly_run_and_another_address_keep_what_a_step_has_made(
    namespace: namespaces.Namespace,
) -> None:
    namespace.provision()
    step(namespace, "announce")
    data = secrets_of.data(namespace.secrets()[STORE])
    assert set(namespace.provision().values()) == {"kept"}
    namespace.provision(cluster="east", store="redis://elsewhere:6380")
    after_it = secrets_of.data(namespace.secrets()[STORE])
    assert {key: after_it[key] for key in data if key.endswith("-next")} == {
        key: each for key, each in data.items() if key.endswith("-next")
    }
    check_hashes(namespace)


def test_no_password_of_any_step_is_shown(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    hidden: set[str] = set()
    for name in STEPS:
        done = namespace.bootstrap("--passwords", name)
        found = secrets_of.data(namespace.secrets()[STORE])
        hidden |= {each.decode() for key, each in found.items() if key.endswith("-next")}
        hidden |= set(secrets_of.passwords(namespace.secrets()).values())
        assert [each for each in hidden if each in done.stdout + done.stderr] == []


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (["take-over"], "announce them first"),
        (["announce", "take-over", "announce"], "drop them before"),
    ],
)
def test_a_step_that_is_not_due_is_refused(
    namespace: namespaces.Namespace, steps: list[str], reason: str
) -> None:
    namespace.provision()
    *before, last = steps
    for each in before:
        step(namespace, each)
    versions = namespace.versions()
    done = namespace.bootstrap("--passwords", last)
    assert done.returncode == 1
    assert reason in done.stderr
    assert namespace.versions() == versions


def test_a_drop_before_anything_took_over_keeps_what_is_announced(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    step(namespace, "announce")
    before = namespace.versions()
    step(namespace, "drop")
    assert namespace.versions() == before


@pytest.mark.parametrize("there", [True, False])
def test_passwords_of_others_are_not_replaced(namespace: namespaces.Namespace, there: bool) -> None:
    if there:
        namespace.put(STORE, {f"{role}-url": b"rediss://u:p@store.internal" for role in secrets_of.USERS})
    done = namespace.bootstrap("--passwords", "announce")
    assert done.returncode == 1
    assert ("passwords of others" if there else "--store-url creates it") in done.stderr
    assert namespace.secrets().keys() == ({STORE} if there else set())


@pytest.mark.parametrize("further", [["--every", "60"], ["--ca", "announce"], ["--from", "."]])
def test_a_step_is_taken_alone(tmp_path: pathlib.Path, further: list[str]) -> None:
    environ = {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path)}
    given = ["bootstrap", "--passwords", "announce", *further]
    done = testing.CliRunner().invoke(cli.topolog, given, env=environ)
    assert done.exit_code == 2
    assert "--passwords takes one step" in done.output
