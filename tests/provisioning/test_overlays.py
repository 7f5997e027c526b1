"""The Secrets that the pods of an overlay need are those that its bootstrap makes, key by key."""

import pytest

from tests.support import manifests
from tests.support.provisioning import namespaces, secrets_of


def needed(overlay: str) -> dict[str, set[str]]:
    """Secret -> keys that the pods of an overlay refer to."""
    found: dict[str, set[str]] = {}
    for one in manifests.in_overlay(overlay, *manifests.WORKLOADS).values():
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
    for name in found.keys() & {"topolog-tls", "topolog-scheduler-tls"}:
        found[name] |= {"tls.crt", "tls.key", "ca.crt"}
    for name in found.keys() & {"topolog-valkey-acl"}:
        found[name] |= set(secrets_of.USERS)
    return found


@pytest.mark.parametrize("overlay", ["dev", "ha", "existing-scheduler"])
def test_bootstrap_makes_every_key_that_pods_refer_to(namespace: namespaces.Namespace, overlay: str) -> None:
    (container,) = manifests.in_overlay(overlay, "Deployment")["topolog-bootstrap"]["spec"]["template"][
        "spec"
    ]["containers"]
    command, *arguments = container["args"]
    assert command == "bootstrap"
    done = namespace.bootstrap(*(each for each in arguments if not each.startswith("--every")))
    assert (done.returncode, done.stderr) == (0, "")
    made = {name: set(each["data"]) for name, each in namespace.secrets().items()}
    wanted = needed(overlay)
    assert wanted
    assert {name: missing for name, keys in wanted.items() if (missing := keys - made.get(name, set()))} == {}
    secrets_of.check_complete(namespace.secrets())
