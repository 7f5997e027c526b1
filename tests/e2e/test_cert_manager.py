"""The Certificates for cert-manager against its own definitions, on a real API server.

The definitions are of cert-manager's Go module and are not committed. Its controllers do not run here.
"""

import json
import pathlib
import shutil
import subprocess

import pytest
import yaml

from tests.support import manifests, polling
from tests.support.charts import golden
from tests.support.e2e import clusters

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
HOME = "topolog-system"


@pytest.fixture(scope="module")
def definitions() -> list[pathlib.Path]:
    """The files of cert-manager's definitions."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the definitions of cert-manager are in its Go module, and there is no go on PATH")
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], capture_output=True, text=True, check=True
    )
    folder = pathlib.Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    return sorted(folder.glob("cert-manager.io_*.yaml"))


@pytest.fixture(scope="module")
def served(cluster: clusters.Cluster, definitions: list[pathlib.Path]) -> clusters.Cluster:
    """A cluster that serves cert-manager's kinds, and has the namespace."""
    for path in definitions:
        cluster.kubectl("create", "-f", path)
    cluster.kubectl("create", "namespace", HOME)
    polling.eventually(
        lambda: (
            "certificates" in cluster.kubectl("api-resources", "--api-group=cert-manager.io", "-o", "name")
        ),
        "the kinds are served",
        within=60,
    )
    return cluster


def of_cert_manager(objects: list[manifests.Object]) -> list[manifests.Object]:
    return [one for one in objects if one["apiVersion"].startswith("cert-manager.io/")]


@pytest.mark.parametrize("case", ["component", "cert-manager", "own-authority"])
def test_the_api_server_accepts_every_certificate(served: clusters.Cluster, case: str) -> None:
    component = manifests.DEPLOY / "components" / "cert-manager" / "certificates.yaml"
    objects = of_cert_manager(manifests.documents(component) if case == "component" else golden.stored(case))
    assert len([one for one in objects if one["kind"] == "Certificate"]) >= 4
    arguments = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    shown = served.kubectl(*arguments, stdin=yaml.safe_dump_all(objects))
    assert shown.count("created (server dry run)") == len(objects)


def test_a_misspelled_field_is_refused(served: clusters.Cluster) -> None:
    first = of_cert_manager(golden.stored("cert-manager"))[0]
    wrong = {**first, "spec": {**first["spec"], "usage": ["server auth"]}}
    arguments = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    shown = served.kubectl(*arguments, stdin=yaml.safe_dump(wrong), refused=True)
    assert "usage" in shown
