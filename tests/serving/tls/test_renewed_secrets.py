"""What `topolog bootstrap` renews, taken up by a server under load: certificates, and the CA itself.

The CA and the certificates are of an installation that is years old, so that the steps of the last months
are valid today. Callers keep the CAs that they read at first, as kube-scheduler does.
"""

import dataclasses
import datetime
import pathlib
import shutil
from collections.abc import Mapping

import pytest
from cryptography import x509

from app.kube.writes import secrets
from app.provisioning import authorities, certificates, provisioners
from app.provisioning.decisions import Outcome
from tests.support.extender import server_processes, steady_callers

NAMES = {"topolog-tls": "server", "topolog-scheduler-tls": "scheduler", "topolog-viewer-tls": "viewer"}
FILES = {"tls.crt": "crt", "tls.key": "key"}


class Kept:
    """Secrets in memory, with the kubelet's part: it copies them into files."""

    def __init__(self) -> None:
        self.secrets: dict[str, secrets.Secret] = {}
        self.now = datetime.datetime.now(datetime.UTC)

    def read(self, name: str) -> secrets.Secret | None:
        return self.secrets.get(name)

    def write(self, secret: secrets.Secret) -> bool:
        self.secrets[secret.name] = secret
        return True

    def provision(self, days: float) -> Mapping[str, Outcome]:
        """Secret -> outcome of a run this many days from now."""
        terms = certificates.Terms(["localhost", "127.0.0.1"], 365, self.now + datetime.timedelta(days=days))
        return {one.name: one.outcome for one in provisioners.provision(self, provisioners.Plan("c", terms))}

    def authority(self) -> authorities.Authority:
        return authorities.load(self.secrets[authorities.SECRET])

    def certificate(self, name: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.secrets[name].data["tls.crt"])

    def mount(self, folder: pathlib.Path, *, trust: bool = True) -> None:
        """Write the files; without ``trust``, those of a process that read its CA before."""
        for name, file in NAMES.items():
            for key, ending in FILES.items():
                (folder / f"{file}.{ending}").write_bytes(self.secrets[name].data[key])
        if trust:
            (folder / "ca.crt").write_bytes(self.secrets["topolog-tls"].data["ca.crt"])


def test_the_ca_gets_a_successor_that_is_trusted_long_before_it_signs() -> None:
    kept = Kept()
    assert set(kept.provision(-3100).values()) == {Outcome.CREATED}
    first = kept.authority()
    assert len(x509.load_pem_x509_certificates(kept.secrets["topolog-tls"].data["ca.crt"])) == 1
    announced = kept.provision(-660)
    assert announced[authorities.SECRET] == Outcome.UPDATED
    assert kept.authority().signer.certificate == first.signer.certificate
    for name in NAMES:
        trusted = x509.load_pem_x509_certificates(kept.secrets[name].data["ca.crt"])
        assert tuple(trusted) == kept.authority().trusted
        assert len(trusted) == 2
        kept.certificate(name).verify_directly_issued_by(first.signer.certificate)
    assert set(kept.provision(-650).values()) == {Outcome.KEPT}
    before = {name: kept.certificate(name) for name in NAMES}
    replaced = kept.provision(-50)
    assert set(replaced.values()) == {Outcome.RENEWED}
    assert kept.authority().signer.certificate != first.signer.certificate
    for name in NAMES:
        kept.certificate(name).verify_directly_issued_by(kept.authority().signer.certificate)
        assert kept.certificate(name) != before[name]
    assert first.signer.certificate in kept.authority().trusted
    # The former CA ends 550 days from now.
    ended = kept.provision(560)
    assert ended[authorities.SECRET] == Outcome.UPDATED
    assert kept.authority().trusted == (kept.authority().signer.certificate,)
    assert kept.secrets["topolog-tls"].data["ca.crt"] == kept.authority().bundle()


def test_the_following_ca_takes_over_after_a_pause_in_which_the_former_one_ended() -> None:
    kept = Kept()
    kept.provision(-4000)
    kept.provision(-1500)
    following = kept.authority().following
    assert following is not None
    assert set(kept.provision(0).values()) == {Outcome.RENEWED}
    assert kept.authority().signer.certificate == following.certificate
    kept.certificate("topolog-tls").verify_directly_issued_by(following.certificate)


def test_certificates_of_a_clock_that_was_ahead_are_issued_again() -> None:
    kept = Kept()
    kept.provision(0)
    kept.provision(400)
    found = kept.provision(1)
    assert {found[name] for name in NAMES} == {Outcome.RENEWED}
    assert kept.certificate("topolog-tls").not_valid_before_utc < kept.now + datetime.timedelta(days=1)


def test_a_run_that_has_only_the_former_ca_leaves_new_certificates_alone() -> None:
    """Two runs at once: the other one has read the CA before it was replaced."""
    kept = Kept()
    kept.provision(-3100)
    kept.provision(-660)
    former = kept.secrets[authorities.SECRET]
    kept.provision(-50)
    terms = certificates.Terms(["localhost", "127.0.0.1"], 365, kept.now)
    decision = certificates.certificate(
        "topolog-tls", kept.secrets["topolog-tls"], authorities.load(former), terms, serves=True
    )
    assert decision.outcome in (Outcome.KEPT, Outcome.UPDATED)
    assert decision.data.get("tls.crt", b"") in (b"", kept.secrets["topolog-tls"].data["tls.crt"])


@pytest.mark.scenario("RL-9")
def test_no_call_is_refused_while_certificates_and_ca_are_renewed(
    start: server_processes.Starts, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    kept = Kept()
    for days in (-3100.0, -660.0, -295.0):
        kept.provision(days)
    kept.mount(certificates)
    server = start()
    clients = shutil.copytree(certificates, tmp_path / "clients")
    former = dataclasses.replace(server, certificates=clients)
    callers = [steady_callers.Caller(former) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        with former.client("viewer") as open_connection:
            assert open_connection.ask("GET", "/apis/v1/nodes")[0] == 200
            for days, step in ((-40.0, "certificates and CA"), (0.0, "nothing")):
                serials = {name: kept.certificate(name).serial_number for name in NAMES}
                kept.provision(days)
                changed = serials != {name: kept.certificate(name).serial_number for name in NAMES}
                assert changed == (step != "nothing")
                kept.mount(certificates)
                serial = kept.certificate("topolog-tls").serial_number

                def served(serial: int = serial) -> bool:
                    with former.connect("viewer") as connection:
                        return int(str((connection.getpeercert() or {})["serialNumber"]), 16) == serial

                server_processes.eventually(served, "the renewed certificate is served")
                # Then the callers' certificates, while they still trust what they read at first.
                renewed = shutil.copytree(clients, tmp_path / f"renewed{days}")
                kept.mount(renewed, trust=False)
                with dataclasses.replace(server, certificates=renewed).client() as client:
                    assert client.ask("POST", "/filter", b"{}")[0] == 200
            assert open_connection.ask("GET", "/apis/v1/nodes")[0] == 200
            called = sum(caller.calls for caller in callers)
            server_processes.eventually(
                lambda: sum(caller.calls for caller in callers) > called + 5, "calls go on"
            )
    finally:
        for caller in callers:
            caller.enough.set()
            caller.join()
    assert [caller.failures for caller in callers] == [[], []]
