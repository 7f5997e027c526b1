"""Finds objects in the manifests in deploy/."""

import functools
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.support import kustomizations

Object = dict[str, Any]

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
KUBECTL = shutil.which("kubectl")
NO_OBJECTS = ("Kustomization", "Component", "KubeSchedulerConfiguration")  # not read by the API server
OVERLAYS = ("dev", "ha", "existing-scheduler", "sidecar")
WORKLOADS = ("Deployment", "StatefulSet")


def files() -> list[pathlib.Path]:
    """All YAML files of Kubernetes: the rules in monitoring/ are read by Prometheus, charts/ by Helm."""
    return sorted(
        each
        for each in DEPLOY.rglob("*.yaml")
        if each.parent.name != "monitoring" and not each.is_relative_to(DEPLOY / "charts")
    )


def documents(path: pathlib.Path) -> list[Object]:
    """The documents of one file."""
    return kustomizations.documents(path.read_text())


def objects(kind: str, folder: str = "") -> list[Object]:
    """The objects of one kind, in all folders or in one."""
    return [
        each
        for path in files()
        if path.is_relative_to(DEPLOY / folder)
        for each in documents(path)
        if each["kind"] == kind
    ]


def one(kind: str, name: str, folder: str = "base") -> Object:
    """The only object of this kind and name."""
    (found,) = [each for each in objects(kind, folder) if each["metadata"]["name"] == name]
    return found


def settings() -> dict[str, str]:
    """The variables that every process gets from the ConfigMap."""
    lines = (DEPLOY / "base" / "settings.env").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def rendered(folder: pathlib.Path) -> list[Object]:
    """The objects of a kustomization, rendered by kubectl."""
    assert KUBECTL
    done = subprocess.run([KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return kustomizations.documents(done.stdout)


@functools.cache
def overlay(name: str) -> list[Object]:
    """The objects of an overlay, rendered without kubectl; not to be changed."""
    return kustomizations.render(DEPLOY / "overlays" / name)


def with_component(name: str, component: str, folder: pathlib.Path) -> list[Object]:
    """The objects of an overlay with a further component, by a kustomization in the folder."""
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(
        f"resources: [{DEPLOY}/overlays/{name}]\ncomponents: [{DEPLOY}/components/{component}]\n"
    )
    return kustomizations.render(folder)


def in_overlay(name: str, *kinds: str) -> dict[str, Object]:
    """Name -> object of these kinds in an overlay."""
    return {each["metadata"]["name"]: each for each in overlay(name) if each["kind"] in kinds}


def pods() -> Iterator[tuple[str, Object]]:
    """OVERLAY/NAME and pod spec of every Deployment and StatefulSet."""
    for name in OVERLAYS:
        for called, each in in_overlay(name, *WORKLOADS).items():
            yield f"{name}/{called}", each["spec"]["template"]["spec"]


def containers() -> list[tuple[str, Object]]:
    """OVERLAY/NAME/CONTAINER and every container, including init containers."""
    return [
        (f"{name}/{each['name']}", each)
        for name, pod in pods()
        for each in pod.get("initContainers", []) + pod["containers"]
    ]


def is_ours(container: Object) -> bool:
    """Whether a container runs the image of Topolog."""
    image: str = container["image"]
    return image.rpartition(":")[0].endswith("/topolog")


def in_order(value: object) -> object:
    """The same with every list of objects in one order: their order has no meaning where they have names."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        listed = [in_order(each) for each in value]
        return sorted(listed, key=_text) if value and isinstance(value[0], dict) else listed
    return value


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
