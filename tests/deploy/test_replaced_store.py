"""A store of one's own in place of the bundled one, by the commands and the kustomization of the pages."""

import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable

import pytest

from app.provisioning import store_access
from tests.support import how_to_pages, kustomizations, manifests

OVERLAYS = [
    name
    for name in manifests.OVERLAYS
    if any("valkey" in one["metadata"]["name"] for one in manifests.overlay(name))
]
(BLOCK,) = [
    block.text
    for block in how_to_pages.sessions(cluster=True)["replace-the-store.md"]
    if "overlays/own" in block.text
]


def cluster_of_the_users() -> str:
    names = set(re.findall(r"redis://topolog-(\w+)-\$role:", how_to_pages.page("replace-the-store.md")))
    assert len(names) == 1
    return str(names.pop())


def identity(one: manifests.Object) -> tuple[str, str, str]:
    """Without the hash of a ConfigMap's content."""
    return one["kind"], one["metadata"].get("namespace", ""), re.sub(r"-\w{10}$", "", one["metadata"]["name"])


def without_the_store(overlay: str) -> set[tuple[str, str, str]]:
    return {identity(one) for one in manifests.overlay(overlay) if "valkey" not in one["metadata"]["name"]}


def cluster_of(objects: Iterable[manifests.Object]) -> set[str]:
    """The name in the settings of the processes."""
    return {one["data"]["TOPOLOG_CLUSTER"] for one in objects if "TOPOLOG_CLUSTER" in one.get("data", {})}


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_commands_make_an_overlay_without_the_bundled_store(name: str, tmp_path: pathlib.Path) -> None:
    assert len(OVERLAYS) == 3
    shutil.copytree(manifests.DEPLOY, tmp_path / "deploy")
    commands = BLOCK.partition("kubectl apply")[0].replace("overlays/dev", f"overlays/{name}")
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True)
    found = kustomizations.render(tmp_path / "deploy" / "overlays" / "own")
    assert {identity(one) for one in found} == without_the_store(name)
    assert cluster_of(found) == {cluster_of_the_users()}


def test_ha_with_a_store_of_ones_own_is_ha_without_the_bundled_one(tmp_path: pathlib.Path) -> None:
    """The kustomization of docs/how-to/install-ha.md, beside a checkout; and the keys of its Secret."""
    (shown,) = how_to_pages.blocks("install-ha.md", "yaml")
    deploy = os.path.relpath(manifests.DEPLOY, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(shown.replace("topolog/deploy", deploy))
    found = {identity(one): one for one in kustomizations.render(tmp_path)}
    assert found.keys() == without_the_store("ha")
    assert cluster_of(found.values()) == {cluster_of_the_users()}
    used = set(re.findall(r"\b\w+-url\b", json.dumps(list(found.values()))))
    named = set(re.findall(r"`(\w+-url)`", how_to_pages.page("install-ha.md")))
    assert used <= named <= set(store_access.KEYS.values())
