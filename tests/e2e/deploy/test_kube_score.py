"""What kube-score finds in the overlays is what deploy/README.md lists, and nothing else."""

import json
import pathlib
import re
import subprocess

import pytest
import yaml

from tests.e2e import control_plane_builds, go_programs
from tests.support import manifests

pytestmark = pytest.mark.e2e
KEPT = {
    "container-ephemeral-storage-request-and-limit",
    "container-image-pull-policy",
    "deployment-replicas",
    "pod-probes-identical",
    "statefulset-has-servicename",
}
"""Checks that the manifests do not follow, beside the limits of CPU."""
OK = 10
"""Grade of a check that passed."""


@pytest.fixture(scope="module")
def program() -> pathlib.Path:
    """kube-score."""
    try:
        return go_programs.KUBE_SCORE.built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_other_check_passes(program: pathlib.Path, name: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(manifests.overlay(name)))
    command = [str(program), "score", "--ignore-container-cpu-limit", "--output-format", "json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {
        (check["check"]["id"], scored["object_meta"]["name"])
        for scored in json.loads(done.stdout)
        for check in scored["checks"]
        if not check["skipped"] and check["grade"] < OK
    }
    assert {identity for identity, _ in found} <= KEPT, sorted(found)
    assert found, "an overlay without any finding is not read"


def test_each_check_that_is_not_followed_has_its_reason() -> None:
    page = (manifests.DEPLOY / "README.md").read_text().partition("## What kube-score finds\n")[2]
    rows = re.findall(r"^\| (?:`([\w-]+)`|CPU limits of `[\w-]+`) \|", page, re.MULTILINE)
    assert set(filter(None, rows)) == KEPT
    assert len(rows) == len(KEPT) + 1
