"""The Secrets that the pods of an overlay need are those that its bootstrap makes, key by key."""

import pathlib

import pytest

from tests.support import manifests
from tests.support.provisioning import namespaces, secrets_of


def needed(objects: list[manifests.Object]) -> dict[str, set[str]]:
    """Secret -> keys that the pods refer to."""
    found: dict[str, set[str]] = {}
    for one in objects:
        if one["kind"] not in manifests.WORKLOADS:
            continue
        pod = one["spec"]["template"]["spec"]
        for volume in pod["volumes"]:
            if "secret" in volume:
                found.setdefault(volume["secret"]["secretName"], set())
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            for variable in container.get("env", []):
                if "valueFrom" in variable:
                    reference = variable["valueFrom"]["secretKeyRef"]
                    found.setdefault(reference["name"], set()).add(reference["key"])
    # Certificates and hashes are mounted as files.
    for name in found.keys() & {"topolog-tls", "topolog-scheduler-tls", "topolog-valkey-tls"}:
        found[name] |= {"tls.crt", "tls.key", "ca.crt"}
    for name in found.keys() & {"topolog-valkey-acl"}:
        found[name] |= set(secrets_of.USERS)
    return found


def check(namespace: namespaces.Namespace, objects: list[manifests.Object]) -> None:
    """Run bootstrap as the objects do, and compare what it makes with what they need."""
    deployments = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Deployment"}
    deployment = deployments["topolog-bootstrap"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == "bootstrap"
    done = namespace.bootstrap(*(each for each in arguments if not each.startswith("--every")))
    assert (done.returncode, done.stderr) == (0, "")
    made = {name: set(each["data"]) for name, each in namespace.secrets().items()}
    wanted = needed(objects)
    assert wanted
    assert {name: missing for name, keys in wanted.items() if (missing := keys - made.get(name, set()))} == {}


@pytest.mark.parametrize("overlay", ["dev", "ha", "existing-scheduler"])
def test_bootstrap_makes_every_key_that_pods_refer_to(namespace: namespaces.Namespace, overlay: str) -> None:
    check(namespace, manifests.overlay(overlay))
    secrets_of.check_complete(namespace.secrets())


def test_with_tls_to_the_store_it_makes_its_certificate_too(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    check(namespace, manifests.with_component("dev", "store-tls", tmp_path / "kustomization"))
    service = "topolog-valkey.topolog-system.svc"
    held = secrets_of.certificate(namespace.secrets()["topolog-valkey-tls"])
    assert secrets_of.names(held) == ["topolog-valkey", service, f"{service}.cluster.local"]
    urls = secrets_of.data(namespace.secrets()["topolog-store"])
    assert urls.keys() == {f"{role}-url" for role in (*secrets_of.USERS, "certificates")}
    assert namespace.provision()["topolog-store"] == "updated", "without TLS the URLs are those without it"
    assert "certificates-url" not in secrets_of.data(namespace.secrets()["topolog-store"])
    assert "certificates" not in secrets_of.data(namespace.secrets()["topolog-valkey-acl"])
