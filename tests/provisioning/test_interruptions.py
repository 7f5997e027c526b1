"""A run may end anywhere, and several may run at once: the installation is the same in the end."""

import datetime
import subprocess
import sys
import threading

import pytest

from app.kube import errors
from app.kube.writes import secrets
from app.provisioning import certificates, provisioners
from app.simulation.apiserver import faults, requests
from tests.support import commands, polling
from tests.support.provisioning import namespaces, request_counts, secrets_of

REQUESTS = 25
"""More requests than a first run sends."""


def writes(request: requests.Request) -> bool:
    return request.method in ("POST", "PUT")


def test_a_second_run_writes_nothing(namespace: namespaces.Namespace) -> None:
    assert set(namespace.provision().values()) == {"created"}
    secrets_of.check_complete(namespace.secrets())
    before, sent = namespace.versions(), len(namespace.server.seen)
    assert set(namespace.provision().values()) == {"kept"}
    assert namespace.versions() == before
    assert [each.method for each in namespace.server.seen[sent:] if each.method != "GET"] == []


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.LOSE])
def test_a_run_that_ends_at_any_request_is_completed_by_the_next(
    namespace: namespaces.Namespace, kind: faults.FaultKind
) -> None:
    """DROP: the end came before the request took effect; LOSE: after it."""
    ended = 0
    for at in range(REQUESTS):
        namespace.delete(*namespace.secrets())
        fault = namespace.server.faults.add(kind, request_counts.after(at))
        try:
            namespace.provision()
        except errors.Unreachable:
            ended += 1
        kept = {name: each["data"] for name, each in namespace.secrets().items()}
        namespace.server.faults.clear()
        namespace.provision()
        secrets_of.check_complete(namespace.secrets())
        assert {name: namespace.secrets()[name]["data"] for name in kept} == kept
        if fault.struck == 0:
            break
    # Five certificates are requested; then each of seven is read and written, two of them once more.
    assert ended == 5 + 7 * 2 + 2


def test_the_run_after_one_that_made_other_passwords_names_the_restart(
    namespace: namespaces.Namespace,
) -> None:
    """The first one ends before it has written what the server accepts."""
    namespace.provision()
    namespace.delete("topolog-store")
    namespace.server.faults.add(faults.FaultKind.DROP, request_counts.after(1, writes))
    with pytest.raises(errors.Unreachable):
        namespace.provision()
    assert "topolog-store" in namespace.secrets()
    namespace.server.faults.clear()
    assert namespace.provision()["topolog-store"] == "kept"
    assert namespace.detail("topolog-valkey-acl").endswith(namespaces.RESTART)


def _kill_once(namespace: namespaces.Namespace, stalled: faults.Fault) -> None:
    """Run the command in a process of its own, and kill it when the fault has struck."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "bootstrap", *namespaces.ARGUMENTS],
        env=commands.environment({"TOPOLOG_KUBE_KUBECONFIG": namespace.kubeconfig}),
        stdout=subprocess.DEVNULL,
    )
    try:
        polling.eventually(lambda: stalled.struck, "the write arrives", within=60)
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(600)  # each of eight processes may wait a minute
def test_a_run_that_is_killed_at_any_write_is_completed_by_the_next(namespace: namespaces.Namespace) -> None:
    """Each process makes one Secret and is killed while it waits for the answer about the next one."""
    for made in range(len(secrets_of.ALL)):
        stalled = namespace.server.faults.add(
            faults.FaultKind.STALL, request_counts.after(min(made, 1), writes)
        )
        _kill_once(namespace, stalled)
        stalled.released.set()
        assert len(namespace.secrets()) == made
    done = namespace.bootstrap()
    assert (done.returncode, done.stderr) == (0, "")
    secrets_of.check_complete(namespace.secrets())


def test_concurrent_runs_agree(namespace: namespaces.Namespace) -> None:
    problems: list[Exception] = []
    barrier = threading.Barrier(6)

    def run() -> None:
        try:
            barrier.wait()
            namespace.provision()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    secrets_of.check_complete(namespace.secrets())
    assert set(namespace.provision().values()) == {"kept"}


class Overtaken:
    """Before its first write of each Secret, another run takes place as a whole."""

    def __init__(self, namespace: namespaces.Namespace, *, days_later: float = 0) -> None:
        self._namespace = namespace
        self._days_later = days_later
        self._lost: set[str] = set()

    def read(self, name: str) -> secrets.Secret | None:
        return self._namespace.access.read(name)

    def write(self, secret: secrets.Secret) -> bool:
        if secret.name not in self._lost:
            self._lost.add(secret.name)
            self._namespace.provision(days_later=self._days_later)
        return self._namespace.access.write(secret)


@pytest.mark.parametrize("days_later", [0, 300])
def test_the_write_of_another_run_is_accepted(namespace: namespaces.Namespace, days_later: float) -> None:
    if days_later:
        namespace.provision()
    before = namespace.versions()
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_later)
    terms = certificates.Terms([namespaces.SERVICE, f"{namespaces.SERVICE}.cluster.local"], 365, now)
    plan = provisioners.Plan("default", terms, "redis://topolog-valkey:6379")
    results = provisioners.provision(Overtaken(namespace, days_later=days_later), plan)
    assert {str(each.outcome) for each in results} == {"kept"}
    secrets_of.check_complete(namespace.secrets(), days_later=days_later)
    changed = {name for name, version in namespace.versions().items() if before.get(name) != version}
    assert changed == (set(secrets_of.CERTIFICATES) if days_later else secrets_of.ALL)


def test_a_secret_that_is_always_written_by_another_client_ends_the_run(
    namespace: namespaces.Namespace,
) -> None:
    class Contested(Overtaken):
        def write(self, secret: secrets.Secret) -> bool:
            return False

    now = datetime.datetime.now(datetime.UTC)
    plan = provisioners.Plan("default", certificates.Terms([namespaces.SERVICE], 365, now))
    with pytest.raises(provisioners.Contended, match="Secret topolog-ca is written by another client"):
        provisioners.provision(Contested(namespace), plan)


def test_repeated_runs_restore_what_is_missing_until_they_are_stopped(
    namespace: namespaces.Namespace,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "bootstrap", *namespaces.ARGUMENTS, "--every", "1"],
        env=commands.environment({"TOPOLOG_KUBE_KUBECONFIG": namespace.kubeconfig}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        polling.eventually(lambda: namespace.secrets().keys() == secrets_of.ALL, "all are there", within=60)
        namespace.delete("topolog-viewer-tls")
        polling.eventually(lambda: namespace.secrets().keys() == secrets_of.ALL, "it is there", within=60)
        process.terminate()
        shown = process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    outcomes = [line.split()[1] for line in shown.splitlines() if line.startswith("topolog-viewer-tls")]
    assert outcomes.count("created") == 2
    secrets_of.check_complete(namespace.secrets())


def test_repeated_runs_end_at_one_that_fails(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    namespace.put("topolog-tls", {"tls.crt": b"no certificate", "tls.key": b"k", "ca.crt": b"c"})
    done = namespace.bootstrap("--every", "3600")
    assert done.returncode == 1
    assert "delete it, and run topolog bootstrap again" in done.stderr
