"""Checks objects against the fields of the Kubernetes API, as the official client has them.

The API server does more: it checks which fields are required and which values they take.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

from kubernetes.client import models

_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
}


class _Model(Protocol):
    openapi_types: ClassVar[dict[str, str]]
    attribute_map: ClassVar[dict[str, str]]


def problems(one: dict[str, Any]) -> list[str]:
    """What no field of the API fits, one sentence each."""
    version = one["apiVersion"].rpartition("/")[2]
    name = version[0].upper() + version[1:] + one["kind"]
    if not hasattr(models, name):
        return [f"{one['kind']}: the client has no model {name}"]
    return list(_problems(one, name, one["kind"]))


def _problems(value: object, kind: str, where: str) -> Iterator[str]:
    if listed := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{where}: a list is expected"
            return
        for number, each in enumerate(value):
            yield from _problems(each, listed[1], f"{where}[{number}]")
    elif mapped := re.fullmatch(r"[Dd]ict[\[(](.+?), (.+)[\])]", kind):
        if not isinstance(value, dict):
            yield f"{where}: an object is expected"
            return
        for name, each in value.items():
            yield from _problems(each, mapped[2], f"{where}.{name}")
    elif kind in _SCALARS:
        if not isinstance(value, _SCALARS[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{where}: {value!r} is no {kind}"
    elif kind not in ("object", "datetime") and hasattr(models, kind):
        yield from _fields(value, getattr(models, kind), where)


def _fields(value: object, model: type[_Model], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: an object is expected"
        return
    types = {spelled: model.openapi_types[name] for name, spelled in model.attribute_map.items()}
    for name, each in value.items():
        if name not in types:
            yield f"{where}: {name} is not a field of it"
        else:
            yield from _problems(each, types[name], f"{where}.{name}")
