"""``topolog bootstrap --ca STEP``: an operator replaces a CA before it is due, as when its key was stolen."""

import contextlib
import functools
import pathlib

import pytest
from click import testing
from cryptography import x509

from app import cli
from app.kube import errors
from app.simulation.apiserver import faults
from tests.support import commands
from tests.support.provisioning import namespaces, request_counts, secrets_of

CA = "topolog-ca"
STORE = "topolog-valkey-tls"


def step(namespace: namespaces.Namespace, name: str) -> None:
    done = namespace.bootstrap("--ca", name)
    assert done.returncode == 0, done.stderr


def trusted(namespace: namespaces.Namespace, name: str = "topolog-tls") -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(secrets_of.data(namespace.secrets()[name])["ca.crt"])


def signer(namespace: namespaces.Namespace, name: str) -> x509.Certificate:
    """The CA, of those that a Secret trusts, that signed its certificate."""
    held = secrets_of.certificate(namespace.secrets()[name])
    key = held.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    (found,) = [one for one in trusted(namespace, name) if _key(one) == key]
    held.verify_directly_issued_by(found)
    return found


def _key(authority: x509.Certificate) -> bytes:
    found = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return found.value.key_identifier


def test_a_new_ca_is_replaced_step_by_step(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    (former,) = trusted(namespace)
    step(namespace, "announce")
    _, following = trusted(namespace)
    for name in secrets_of.CERTIFICATES:
        assert set(trusted(namespace, name)) == {former, following}
        assert signer(namespace, name) == former
    step(namespace, "take-over")
    for name in secrets_of.CERTIFICATES:
        assert set(trusted(namespace, name)) == {former, following}
        assert signer(namespace, name) == following
    step(namespace, "drop")
    for name in secrets_of.CERTIFICATES:
        assert trusted(namespace, name) == [following]
    secrets_of.check_complete(namespace.secrets())


@pytest.mark.parametrize("name", ["announce", "take-over", "drop"])
def test_a_step_that_was_taken_is_not_taken_twice(namespace: namespaces.Namespace, name: str) -> None:
    """A run that was killed may be repeated, and the hourly run changes nothing."""
    namespace.provision()
    for each in ("announce", "take-over", "drop"):
        step(namespace, each)
        if each == name:
            break
    before = namespace.versions()
    step(namespace, name)
    assert set(namespace.provision().values()) == {"kept"}
    assert namespace.versions() == before


def test_no_ca_takes_over_that_was_not_announced(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    before = namespace.versions()
    done = namespace.bootstrap("--ca", "take-over")
    assert done.returncode == 1
    assert "announce one first" in done.stderr
    assert namespace.versions() == before


def test_a_run_that_does_not_name_the_store_replaces_the_ca_of_its_certificate_too(
    namespace: namespaces.Namespace,
) -> None:
    namespace.provision(store_hosts=["topolog-valkey", "topolog-valkey.topolog-system.svc"])
    before = secrets_of.names(secrets_of.certificate(namespace.secrets()[STORE]))
    for each in ("announce", "take-over"):
        step(namespace, each)
    namespace.provision(step="drop", days_later=1)
    assert trusted(namespace, STORE) == trusted(namespace) == [signer(namespace, STORE)]
    assert secrets_of.names(secrets_of.certificate(namespace.secrets()[STORE])) == before


@pytest.mark.parametrize(("minutes", "outcome"), [(0, "refused"), (64, "refused"), (66, "updated")])
def test_the_former_ca_is_dropped_after_the_store_has_its_new_certificate(
    namespace: namespaces.Namespace, minutes: float, outcome: str
) -> None:
    """An hourly run makes its server read it; a process that trusts the new CA alone refuses the former."""
    namespace.provision(store_hosts=["topolog-valkey"])
    for each in ("announce", "take-over"):
        step(namespace, each)
    before = trusted(namespace, STORE)
    found = namespace.provision(step="drop", days_later=minutes / 1440)
    assert found[CA] == outcome
    if outcome == "refused":
        assert "may still be of: drop it after" in namespace.detail(CA)
        assert list(found) == [*secrets_of.STORE, CA]
        assert trusted(namespace, STORE) == trusted(namespace) == before
    else:
        assert trusted(namespace, STORE) == trusted(namespace) == [signer(namespace, STORE)]


@pytest.mark.parametrize("store_hosts", [(), ("topolog-valkey",)])
@pytest.mark.parametrize("written", range(1, 6))
def test_the_former_ca_is_not_dropped_while_a_certificate_is_of_it(
    namespace: namespaces.Namespace, store_hosts: tuple[str, ...], written: int
) -> None:
    """A take-over was killed after so many Secrets; until a run issues the others, they would be stranded."""
    provision = functools.partial(namespace.provision, store_hosts=store_hosts)
    for each in ("", "announce"):
        provision(step=each)
    namespace.server.faults.add(
        faults.FaultKind.DROP, request_counts.after(written, lambda one: one.method in ("POST", "PUT"))
    )
    with contextlib.suppress(errors.Unreachable):
        provision(step="take-over")
    namespace.server.faults.clear()
    names = [*secrets_of.CERTIFICATES, *([STORE] if store_hosts else ())]
    left = names[written - 1 :]
    before = namespace.versions()
    found = provision(step="drop", days_later=1)
    assert found[CA] == ("refused" if left else "updated")
    if left:
        assert f"issued again: {', '.join(left)}. Run topolog bootstrap without --ca" in namespace.detail(CA)
        assert namespace.versions() == before
        provision(days_later=1)
        assert provision(step="drop", days_later=2)[CA] == "updated"
    for name in names:
        assert trusted(namespace, name) == [signer(namespace, name)]


def test_a_store_without_a_former_ca_refuses_no_step(namespace: namespaces.Namespace) -> None:
    namespace.provision(store_hosts=["topolog-valkey"])
    assert namespace.provision(store_hosts=["topolog-valkey"], step="drop")[CA] == "kept"


def test_a_run_that_names_no_further_host_keeps_those_of_the_server(namespace: namespaces.Namespace) -> None:
    namespace.provision(hosts=["Topolog.internal", "10.0.0.7"])
    before = secrets_of.names(secrets_of.certificate(namespace.secrets()["topolog-tls"]))
    for each in ("announce", "take-over"):
        step(namespace, each)
    assert secrets_of.names(secrets_of.certificate(namespace.secrets()["topolog-tls"])) == before
    assert "10.0.0.7" in before


@pytest.mark.parametrize("other", [CA, "topolog-tls"])
def test_a_ca_of_others_is_not_replaced(namespace: namespaces.Namespace, other: str) -> None:
    namespace.provision()
    data = secrets_of.data(namespace.secrets()[other])
    namespace.delete(other)
    namespace.put(other, data, type="kubernetes.io/tls")
    before = namespace.versions()
    done = namespace.bootstrap("--ca", "announce")
    assert done.returncode == 1
    assert "was not made by topolog bootstrap" in done.stderr
    assert namespace.versions() == before


@pytest.mark.parametrize("further", [["--every", "60"], ["--no-certificates"]])
def test_a_step_is_taken_by_one_run_that_makes_certificates(
    tmp_path: pathlib.Path, further: list[str]
) -> None:
    environ = {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path)}
    given = ["bootstrap", "--ca", "announce", *further]
    done = testing.CliRunner().invoke(cli.topolog, given, env=environ)
    assert done.exit_code == 2
    assert "--ca takes one step" in done.output
