"""A component for each older version of Kubernetes sets a kube-scheduler that its API server supports."""

import pathlib
import re
import shutil

import pytest

from tests.support import how_to_pages, kustomizations, manifests

COMPONENTS = {path.name: path for path in (manifests.DEPLOY / "components").glob("scheduler-*")}
OLDER = {path.stem for path in (manifests.DEPLOY.parent / "tests" / "e2e" / "controlplane").glob("*.mod")} - {
    "go"
}
"""Versions of Kubernetes that the end-to-end tests can run, without the newest."""


def test_each_older_version_has_a_component() -> None:
    assert COMPONENTS.keys() == {f"scheduler-{version.rpartition('.')[0]}" for version in OLDER}


def test_the_guide_names_them_where_it_applies_the_overlay() -> None:
    section = re.search(r"^## Apply\n.*?^## ", how_to_pages.page("install.md"), re.MULTILINE | re.DOTALL)
    assert section
    assert set(re.findall(r"-(1\.\d+)`", section[0])) == {
        name.removeprefix("scheduler-") for name in COMPONENTS
    }


@pytest.mark.parametrize("overlay", ["dev", "ha"])
@pytest.mark.parametrize("version", sorted(OLDER))
def test_kube_scheduler_is_of_the_version(overlay: str, version: str, tmp_path: pathlib.Path) -> None:
    shutil.copytree(manifests.DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("charts"))
    mine = tmp_path / "mine"
    mine.mkdir()
    component = f"scheduler-{version.rpartition('.')[0]}"
    (mine / "kustomization.yaml").write_text(
        f"resources: [../deploy/overlays/{overlay}]\ncomponents: [../deploy/components/{component}]\n"
    )
    images = {
        container["image"]
        for one in kustomizations.render(mine)
        if one["kind"] in manifests.WORKLOADS
        for container in one["spec"]["template"]["spec"]["containers"]
    }
    assert {one for one in images if "kube-scheduler" in one} == {
        f"registry.k8s.io/kube-scheduler:v{version}"
    }
