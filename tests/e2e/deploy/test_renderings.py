"""Everything that chart and kustomizations render, in dry runs of a real API server.

The definitions of cert-manager and of the Prometheus operator are of their Go modules and are not committed.
Their controllers do not run here.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator

import pytest
import yaml

from tests.e2e import control_plane_builds, go_programs
from tests.support import kustomizations, manifests
from tests.support.charts import golden
from tests.support.e2e import clusters, dry_runs, prometheus_operator

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
HOME = "topolog-system"
RESTRICTED = {"metadata": {"name": HOME, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}

MONITORING = ("podMonitor", "prometheusRule", "dashboards")
SWITCHES = {
    "monitoring": [f"monitoring.{each}.enabled=true" for each in MONITORING],
    # Of cert-manager's certificates the further names are names alone, no addresses.
    "cert-manager": ["certificates.source=certManager", "certificates.extraHosts={topolog.internal}"],
}
"""What is switched on in every case of the chart, beside its own values."""
COMPONENTS = sorted(
    path.parent.name for path in (manifests.DEPLOY / "components").glob("*/kustomization.yaml")
)
FOLDERS = ("monitoring", *(f"overlays/{name}" for name in manifests.OVERLAYS))


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
def served(binary: pathlib.Path, definitions: list[pathlib.Path]) -> Iterator[clusters.Cluster]:
    """An API server with the kinds of both, and a namespace that enforces Pod Security."""
    with clusters.Cluster(binary) as cluster:
        for path in definitions:
            cluster.kubectl("create", "-f", path)
            cluster.await_done("wait", "--for=condition=established", "-f", path)
        prometheus_operator.define(cluster)
        cluster.api().create("/api/v1/namespaces", RESTRICTED)
        yield cluster


@pytest.fixture(scope="module")
def helm() -> pathlib.Path:
    """The newest Helm; tests/e2e/deploy/test_chart.py shows that the other one renders the same."""
    try:
        return go_programs.HELM[max(go_programs.HELM)].built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))


def distinct(renderings: Iterable[list[manifests.Object]]) -> list[manifests.Object]:
    """Their objects, each once; an object twice in one rendering is an error."""
    found: dict[str, manifests.Object] = {}
    for objects in renderings:
        identities = [
            (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in objects
        ]
        assert len(set(identities)) == len(identities)
        found |= {json.dumps(one, sort_keys=True): one for one in objects}
    return list(found.values())


def kinds(objects: list[manifests.Object], group: str) -> set[str]:
    return {one["kind"] for one in objects if one["apiVersion"].startswith(f"{group}/")}


def test_the_api_server_admits_every_object_of_the_chart(
    served: clusters.Cluster, helm: pathlib.Path
) -> None:
    """Of every case, with and without monitoring and cert-manager."""

    def rendered(combination: tuple[str, bool, bool]) -> list[manifests.Object]:
        case, *on = combination
        switched = [name for name, given in zip(SWITCHES, on, strict=True) if given]
        given = [f"--set={value}" for name in switched for value in SWITCHES[name]]
        return golden.parsed(golden.rendered(helm, case, further=given))

    combinations = itertools.product(golden.cases(), (False, True), (False, True))
    with concurrent.futures.ThreadPoolExecutor(2) as hands:
        objects = distinct(hands.map(rendered, combinations))
    assert {"PodMonitor", "PrometheusRule"} <= kinds(objects, "monitoring.coreos.com")
    assert {"Certificate", "Issuer"} <= kinds(objects, "cert-manager.io")
    assert dry_runs.refusals(served.api(), objects) == {}


def test_the_api_server_admits_every_object_of_overlays_and_components(
    served: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    """Components that no overlay lists, in the overlay `ha`."""
    listed = {
        pathlib.PurePath(each).name
        for name in manifests.OVERLAYS
        for each in yaml.safe_load((manifests.DEPLOY / "overlays" / name / "kustomization.yaml").read_text())[
            "components"
        ]
    }
    renderings = [
        kustomizations.documents(served.kubectl("kustomize", manifests.DEPLOY / folder)) for folder in FOLDERS
    ]
    for name in COMPONENTS:
        if name not in listed:
            folder = tmp_path / name
            folder.mkdir()
            relative = os.path.relpath(manifests.DEPLOY, folder.resolve())
            (folder / "kustomization.yaml").write_text(
                f"resources: [{relative}/overlays/ha]\ncomponents: [{relative}/components/{name}]\n"
            )
            renderings.append(kustomizations.documents(served.kubectl("kustomize", folder)))
    objects = distinct(renderings)
    assert len(objects) > 100
    assert dry_runs.refusals(served.api(), objects) == {}


def test_a_misspelled_field_is_refused(served: clusters.Cluster) -> None:
    """Fields that the definitions of others and those of Kubernetes do not contain."""
    certificate = next(one for one in golden.stored("cert-manager") if one["kind"] == "Certificate")
    budget = manifests.in_overlay("ha", "PodDisruptionBudget")["topolog-extender"]
    wrong = [
        {**certificate, "spec": {**certificate["spec"], "usage": ["server auth"]}},
        {**budget, "spec": {**budget["spec"], "minAvailabel": 1}},
    ]
    found = dry_runs.refusals(served.api(), wrong)
    assert "usage" in found[f"Certificate/{certificate['metadata']['name']}"]
    assert "minAvailabel" in found["PodDisruptionBudget/topolog-extender"]
