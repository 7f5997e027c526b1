"""What a component adds to pods, as parts of a template that are there on a condition."""

import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support import kustomizations
from tests.support.charts import helm_templates

Object = helm_templates.Object
Addition = tuple[list[Any], object]
"""A list of the object, and what is appended to it."""


def put(one: Object, component: pathlib.Path, condition: str, marks: helm_templates.Marks) -> None:
    """Append what the component's patches add to the object."""
    found = list(_additions(one, component))
    for _, group in itertools.groupby(found, key=lambda each: id(each[0])):
        added = list(group)
        into = added[0][0]
        into += [marks.line(f"if {condition}"), *(value for _, value in added), marks.line("end")]


def _additions(one: Object, component: pathlib.Path) -> Iterator[Addition]:
    for given in kustomizations.document(component / "kustomization.yaml")["patches"]:
        text = (component / given["path"]).read_text() if "path" in given else given["patch"]
        patch = yaml.safe_load(text)
        kind, name = _target(given, patch)
        if kind == one["kind"] and re.fullmatch(name, one["metadata"]["name"]):
            yield from _operations(one, patch) if isinstance(patch, list) else _merged(one, patch)


def _target(given: Object, patch: Object) -> tuple[str, str]:
    if "target" in given:
        return given["target"]["kind"], given["target"]["name"]
    return patch["kind"], patch["metadata"]["name"]


def _operations(one: Object, patch: list[Object]) -> Iterator[Addition]:
    for operation in patch:
        *steps, last = operation["path"].split("/")[1:]
        assert (operation["op"], last) == ("add", "-"), "only what is appended can be left out"
        into: Any = one
        for step in steps:
            into = into[int(step)] if isinstance(into, list) else into[step]
        yield into, operation["value"]


def _merged(one: Object, patch: Object) -> Iterator[Addition]:
    pod, added = (each["spec"]["template"]["spec"] for each in (one, patch))
    yield from ((pod["volumes"], volume) for volume in added["volumes"])
    known = {each["name"]: each for each in pod["containers"]}
    for container in added["containers"]:
        yield from ((known[container["name"]]["volumeMounts"], mount) for mount in container["volumeMounts"])
