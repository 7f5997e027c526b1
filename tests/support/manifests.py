"""Finds objects in the manifests in deploy/."""

import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

Object = dict[str, Any]

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
KUBECTL = shutil.which("kubectl")
NO_OBJECTS = ("Kustomization", "KubeSchedulerConfiguration")  # not read by the API server


def files() -> list[pathlib.Path]:
    """All YAML files of Kubernetes; the rules in monitoring/ are read by Prometheus."""
    return sorted(each for each in DEPLOY.rglob("*.yaml") if each.parent.name != "monitoring")


def documents(path: pathlib.Path) -> list[Object]:
    """The documents of one file."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


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
    """The objects of a kustomization."""
    assert KUBECTL
    done = subprocess.run([KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each is not None]


def pods() -> Iterator[tuple[str, Object]]:
    """The name and the pod spec of every Deployment and of every patch to one."""
    for each in objects("Deployment"):
        yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def containers() -> list[tuple[str, Object]]:
    """Every container of every pod with its name, including init containers."""
    return [
        (f"{name}/{each['name']}", each)
        for name, pod in pods()
        for each in pod.get("initContainers", []) + pod["containers"]
    ]
