"""The component for cert-manager makes the Secrets that `topolog bootstrap` makes, for the same names."""

import pathlib
import re
import shutil

from app.cli import bootstrap
from app.provisioning import authorities, certificates
from app.serving.tls import role_names
from tests.support import how_to_pages, kustomizations, manifests

FOLDER = manifests.DEPLOY / "components" / "cert-manager"
HOME = "topolog-system"


def issued() -> dict[str, manifests.Object]:
    """Secret -> spec of its Certificate."""
    found = manifests.documents(FOLDER / "certificates.yaml")
    return {one["spec"]["secretName"]: one["spec"] for one in found if one["kind"] == "Certificate"}


def test_it_makes_every_secret_with_a_certificate() -> None:
    assert issued().keys() == {
        authorities.SECRET,
        certificates.SERVER,
        certificates.STORE,
        *certificates.CLIENTS,
    }


def test_names_and_roles_are_those_of_bootstrap() -> None:
    server = issued()[certificates.SERVER]
    services = [f"topolog-{name}.{HOME}.svc" for name in ("extender", "view")]
    assert server["dnsNames"] == [f"{each}{end}" for each in services for end in ("", ".cluster.local")]
    store = issued()[certificates.STORE]
    service = f"topolog-valkey.{HOME}.svc"
    assert store["dnsNames"] == ["topolog-valkey", service, f"{service}.cluster.local"]
    assert "server auth" in server["usages"]
    assert server["usages"] == store["usages"]
    for name, role in certificates.CLIENTS.items():
        assert issued()[name]["uris"] == [role_names.uri(role)]
        assert "client auth" in issued()[name]["usages"]


def test_the_runbook_states_since_when_a_renewal_is_due() -> None:
    """Both renew after two thirds of a life; the alert fires a week before its end."""
    text = how_to_pages.page("monitoring.md").partition("### TopologCertificateExpiresSoon\n")[2]
    stated = re.search(
        r"`topolog-bootstrap` should have renewed\s+it (\w+) ago, or cert-manager (\w+) ago", text
    )
    assert stated
    (days,) = (one.default for one in bootstrap.bootstrap_command.params if one.name == "days")
    (duration,) = {one["duration"] for one in issued().values() if not one.get("isCA")}
    lives = (float(str(days)), float(duration.removesuffix("h")) / 24)
    for word, life in zip(stated.groups(), lives, strict=True):
        assert word == ("months" if life / 3 - 7 > 60 else "weeks")


def test_keys_are_new_at_each_renewal() -> None:
    assert {one["privateKey"]["rotationPolicy"] for one in issued().values()} == {"Always"}


def test_bootstrap_then_makes_passwords_alone(tmp_path: pathlib.Path) -> None:
    shutil.copytree(manifests.DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("charts"))
    overlay = tmp_path / "deploy" / "overlays" / "dev" / "kustomization.yaml"
    text = overlay.read_text()
    after = text.replace(
        "  - ../../components/bundled", "  - ../../components/cert-manager\n  - ../../components/bundled"
    )
    assert after != text
    overlay.write_text(after)
    objects = kustomizations.render(overlay.parent)
    (bootstrap,) = [
        one
        for one in objects
        if one["metadata"]["name"] == "topolog-bootstrap" and one["kind"] == "Deployment"
    ]
    arguments = bootstrap["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--no-certificates", "--store-url=redis://topolog-valkey:6379"} <= set(arguments)
    assert sum(one["kind"] == "Certificate" for one in objects) == 6
