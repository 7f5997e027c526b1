"""Every object of overlays and chart against the schemas of Kubernetes, and the style of the files."""

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.support import manifests
from tests.support.charts import golden

VERSIONS = ("1.34", "1.35", "1.36", "1.37")
ELSEWHERE = {"cert-manager.io/v1", "monitoring.coreos.com/v1"}
"""Kinds of others: their definitions are not in Kubernetes."""


@functools.cache
def objects() -> dict[str, manifests.Object]:
    """Object in JSON -> object; most are in every overlay, and are checked once."""
    overlays = [one for name in manifests.OVERLAYS for one in manifests.overlay(name)]
    charts = [one for case in golden.cases() for one in golden.stored(case)]
    return {json.dumps(one, sort_keys=True): one for one in (*overlays, *charts)}


@pytest.fixture(scope="module")
def library() -> Iterator[ModuleType]:
    """kubernetes-validate, which reads the schemas of a version once instead of for each object."""
    # Not at the top: every process collects this file, and the import takes more than a second of CPU time.
    import kubernetes_validate

    read = functools.cache(kubernetes_validate.utils.schema_contents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", read)
        yield kubernetes_validate


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_fits_the_strict_schema_of_its_kind(library: ModuleType, version: str) -> None:
    for one in objects().values():
        if one["apiVersion"] not in ELSEWHERE:
            library.validate(one, version, strict=True)


def test_a_misspelled_field_is_refused(library: ModuleType) -> None:
    budget = manifests.in_overlay("ha", "PodDisruptionBudget")["topolog-extender"]
    wrong = {**budget, "spec": {**budget["spec"], "minAvailabel": 1}}
    with pytest.raises(library.ValidationError, match="minAvailabel"):
        library.validate(wrong, VERSIONS[0], strict=True)


def test_the_style_of_the_files() -> None:
    command = [
        sys.executable,
        "-m",
        "yamllint",
        "-c",
        "deploy/.yamllint",
        "-f",
        "parsable",
        "--strict",
        "deploy",
    ]
    done = subprocess.run(command, cwd=manifests.DEPLOY.parent, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
