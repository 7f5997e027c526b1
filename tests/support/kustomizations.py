"""Renders the kustomizations of deploy/ without kustomize.

Only the fields that are used there are known; any other one is an error. A test compares the result with
that of kubectl, apart from the order of named elements.
"""

import copy
import hashlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

Object = dict[str, Any]

_FIELDS = {
    *("apiVersion", "kind", "namespace", "labels", "resources", "components"),
    *("configMapGenerator", "patches", "images"),
}
_CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}
"""List -> the field that identifies its elements, as Kubernetes defines it."""


def documents(text: str) -> list[Any]:
    """The documents of a YAML stream that are not empty."""
    # libyaml takes a tenth of the time of PyYAML's own parser.
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def document(path: pathlib.Path) -> Object:
    """The only document of a file."""
    (found,) = documents(path.read_text())
    return dict(found)


def render(folder: pathlib.Path) -> list[Object]:
    """The objects of a kustomization."""
    found, generated = _Accumulation(), set[str]()
    found.add(folder)
    for each in found.objects:
        if found.is_generated(each):
            generated.add(each["metadata"]["name"])
    for each in found.objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] in generated:
            _rename(found.objects, each["metadata"]["name"], hashed(each))
            each["metadata"]["name"] = hashed(each)
    return found.objects


def hashed(config_map: Object) -> str:
    """The name of a ConfigMap with the hash of its content, as kustomize appends it."""
    name: str = config_map["metadata"]["name"]
    given = {"kind": "ConfigMap", "name": "", "data": config_map["data"]}  # kustomize leaves the name out
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{name}-{digest.translate(str.maketrans('013ae', 'ghkmt'))}"


class _Accumulation:
    """The objects so far, changed in place."""

    def __init__(self) -> None:
        self.objects: list[Object] = []
        self._generated: set[tuple[str, str]] = set()

    def is_generated(self, one: Object) -> bool:
        return one["kind"] == "ConfigMap" and _identity(one)[1:] in self._generated

    def add(self, folder: pathlib.Path) -> None:
        """Everything of a kustomization, in kustomize's order."""
        read = document(folder / "kustomization.yaml")
        assert not read.keys() - _FIELDS, f"{folder}: {read.keys() - _FIELDS} is not known to this reader"
        for name in read.get("resources", []):
            self._add_resource(folder / name)
        for name in read.get("components", []):
            self.add(folder / name)
        for one in read.get("configMapGenerator", []):
            self._generate(folder, one)
        for patch in read.get("patches", []):
            self._patch(folder, patch)
        for one in self.objects:
            if "namespace" in read and one["kind"] not in _CLUSTER_WIDE:
                one["metadata"]["namespace"] = read["namespace"]
            for given in read.get("labels", []):
                assert given.keys() == {"pairs"}
                one["metadata"].setdefault("labels", {}).update(given["pairs"])
            for container in containers(one):
                for image in read.get("images", []):
                    _relocate(container, image)

    def _add_resource(self, path: pathlib.Path) -> None:
        if not path.is_dir():
            self.objects += documents(path.read_text())
            return
        inner = _Accumulation()
        inner.add(path)
        twice = {_identity(one) for one in self.objects} & {_identity(one) for one in inner.objects}
        assert not twice, f"{path}: {twice} are there already"
        self.objects += inner.objects
        self._generated |= inner._generated

    def _generate(self, folder: pathlib.Path, given: Object) -> None:
        data: dict[str, str] = {}
        for name in given.get("envs", []):
            lines = (folder / name).read_text().splitlines()
            data |= dict(_pair(line) for line in lines if line.strip() and not line.startswith("#"))
        for name in given.get("files", []):
            key, _, path = name.rpartition("=")
            data[key or pathlib.PurePath(path).name] = (folder / path).read_text()
        data |= dict(_pair(line) for line in given.get("literals", []))
        identity = (given.get("namespace", ""), given["name"])
        if given.get("behavior") == "merge":
            (found,) = [one for one in self.objects if _identity(one) == ("ConfigMap", *identity)]
            found["data"] |= data
            return
        made = {"name": given["name"], **({"namespace": identity[0]} if identity[0] else {})}
        options = given.get("options", {})
        if "labels" in options:
            made["labels"] = dict(options["labels"])
        self.objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": made, "data": data})
        if options.get("disableNameSuffixHash"):
            return
        # A namespace may still be set by the kustomization.
        self._generated |= {identity, ("topolog-system", given["name"])}

    def _patch(self, folder: pathlib.Path, given: Object) -> None:
        text = (folder / given["path"]).read_text() if "path" in given else given["patch"]
        (patch,) = documents(text)
        target = given.get("target")
        if target is None:
            target = {"kind": patch["kind"], "name": re.escape(patch["metadata"]["name"])}
        matched = [
            one
            for one in self.objects
            if one["kind"] == target["kind"] and re.fullmatch(target["name"], one["metadata"]["name"])
        ]
        for one in matched:
            if isinstance(patch, list):
                for operation in patch:
                    _operate(one, operation)
            elif patch.get("$patch") == "delete":
                self.objects.remove(one)
            else:
                metadata = dict(one["metadata"])
                _merge(one, patch)
                one["metadata"] = metadata


def containers(one: Object) -> Iterator[Object]:
    """The containers of an object with a pod template; init containers last."""
    pod = one.get("spec", {}).get("template", {}).get("spec", {}) if one["kind"] in _PODS else {}
    yield from pod.get("containers", [])
    yield from pod.get("initContainers", [])


_PODS = ("Deployment", "StatefulSet", "DaemonSet", "Job")


def _identity(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value


def _relocate(container: Object, image: Object) -> None:
    name = container["image"].rpartition(":")[0] or container["image"]
    if name == image["name"]:
        container["image"] = f"{image.get('newName', name)}:{image['newTag']}"


def _operate(one: Object, operation: Object) -> None:
    """Apply one operation of RFC 6902: add, replace or remove."""
    *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    parent: Any = one
    for step in steps:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    kind, value = operation["op"], copy.deepcopy(operation.get("value"))
    if isinstance(parent, list):
        if kind == "add":
            parent.insert(len(parent) if last == "-" else int(last), value)
        elif kind == "replace":
            parent[int(last)] = value
        else:
            del parent[int(last)]
    elif kind == "remove":
        del parent[last]
    else:
        assert kind == "add" or last in parent, f"replace {operation['path']}: there is no such field"
        parent[last] = value


def _merge(into: Object, patch: Object) -> None:
    """Apply a strategic merge patch without directives."""
    for name, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif isinstance(value, list) and isinstance(into.get(name), list) and name in _MERGE_KEYS:
            key = _MERGE_KEYS[name]
            known = {one[key]: one for one in into[name]}
            for one in value:
                if one[key] in known:
                    _merge(known[one[key]], one)
            into[name] = [copy.deepcopy(one) for one in value if one[key] not in known] + into[name]
        else:
            into[name] = copy.deepcopy(value)


def _rename(objects: list[Object], former: str, name: str) -> None:
    """Change the name of a ConfigMap wherever a pod refers to it."""
    for one in objects:
        if one["kind"] not in _PODS:
            continue
        pod = one["spec"]["template"]["spec"]
        for volume in pod.get("volumes", []):
            if volume.get("configMap", {}).get("name") == former:
                volume["configMap"]["name"] = name
        for container in containers(one):
            for source in container.get("envFrom", []):
                if source.get("configMapRef", {}).get("name") == former:
                    source["configMapRef"]["name"] = name
