"""The JSON Schema of a settings file, for editors and for the values of the Helm chart.

It allows what ``load`` allows of each setting alone; what contradicts another setting is found by ``load``.
"""

import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from app.settings import declarations

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest one that Helm 3 and Helm 4 and common editors read."""

Schema = dict[str, Any]


def whole(settings: Iterable[declarations.Setting]) -> Schema:
    """The schema of a whole file."""
    return {"$schema": DIALECT, "title": "Settings of Topolog", **of_settings(settings)}


def of_settings(
    settings: Iterable[declarations.Setting],
    chosen: Callable[[declarations.Setting], bool] = lambda _: True,
) -> Schema:
    """The object of the chosen settings, in groups; other keys are refused."""
    properties: Schema = {}
    for setting in settings:
        if not chosen(setting):
            continue
        group = properties
        for part in setting.path[:-1]:
            group = group.setdefault(part, _closed())["properties"]
        group[setting.path[-1]] = _of(setting)
    return {**_closed(), "properties": properties}


def _closed() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _of(setting: declarations.Setting) -> Schema:
    rule, made = setting.rule, msgspec.json.schema(setting.constrained)
    if setting.doc:
        made["description"] = setting.doc
    if rule.one_of:
        made |= {"type": "string", "enum": list(rule.one_of)}  # msgspec sorts them
    if rule.pattern:
        made["pattern"] = f"^({rule.pattern})$"  # JSON Schema has no \Z
    if not rule.secret:
        default = setting.default
        made["default"] = list(default) if isinstance(default, tuple) else _plain(default)
    return made


def _plain(default: object) -> object:
    return dict(typing.cast(Mapping[str, object], default)) if isinstance(default, Mapping) else default
