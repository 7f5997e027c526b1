"""Reads settings from a YAML file and from the environment.

A setting ``store.url`` is the key ``url`` under ``store`` in the file and the variable
TOPOLOG_STORE_URL. An empty variable counts as not set. Lists are separated by commas; lists and
objects may also be given as JSON or YAML. An unknown TOPOLOG_* variable is refused, except those
that Kubernetes sets in every pod for each Service of the namespace.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.settings import declarations, errors, yaml_documents

FILE_VARIABLE = "TOPOLOG_CONFIG"
"""The variable that names the settings file if no option does."""

_SERVICE_LINK = re.compile(
    r"TOPOLOG_\w*?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_FLAGS = {"0": False, "1": True}
"""Forms of a flag in the environment besides those of YAML."""
_LINKED_PORT = re.compile(r"(tcp|udp|sctp)://\S+")


@dataclass(frozen=True, slots=True)
class GivenValue:
    """One value from the file or the environment."""

    name: str
    value: object
    source: str


def from_file(path: str, settings: Sequence[declarations.Setting]) -> Iterator[GivenValue]:
    """The values in a settings file. Raises SettingsRefused if it cannot be read."""
    try:
        content = yaml_documents.load(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from error
    except (yaml_documents.DocumentTooLarge, yaml_documents.NotYaml) as error:
        raise _refused(path, str(error)) from None
    if content is None:
        return
    if not isinstance(content, Mapping):
        raise _refused(path, "must be an object of settings, such as 'store: {url: ...}'")
    groups = {setting.path[:i] for setting in settings for i in range(1, len(setting.path))}
    yield from _walk(content, (), path, groups)


def _walk(
    content: Mapping[Any, Any],
    at: tuple[str, ...],
    source: str,
    groups: set[tuple[str, ...]],
) -> Iterator[GivenValue]:
    for key, value in content.items():
        path = (*at, str(key))
        if path in groups and isinstance(value, Mapping):
            yield from _walk(value, path, source, groups)
        elif path in groups and value is None:
            continue  # "store:" with every line below it commented out
        else:
            yield GivenValue(".".join(path), value, source)


def from_environment(
    environ: Mapping[str, str], settings: Sequence[declarations.Setting]
) -> Iterator[GivenValue]:
    """The values in the environment; an unknown TOPOLOG_* variable is named by itself."""
    by_variable = {setting.env: setting for setting in settings}
    aliases = {setting.rule.alias: setting for setting in settings if setting.rule.alias}
    for variable, setting in aliases.items():
        if environ.get(variable) and not environ.get(setting.env):
            yield GivenValue(setting.name, environ[variable], variable)
    for variable, text in sorted(environ.items()):
        if not variable.startswith(declarations.PREFIX) or not text or variable == FILE_VARIABLE:
            continue
        found = by_variable.get(variable)
        if _is_service_link(variable, text, known=found is not None):
            continue
        yield GivenValue(found.name if found else variable, parse(found, text) if found else text, variable)


def parse(setting: declarations.Setting, text: str) -> object:
    """A variable's text as a value of the setting's type; unchanged if it cannot be converted."""
    try:
        if setting.kind is str:
            return text
        if setting.kind is int:
            return int(text) if re.fullmatch(r"-?[0-9]+", text.strip()) else text
        if setting.kind is float:
            return float(text)
        if setting.kind is bool and text.strip() in _FLAGS:
            return _FLAGS[text.strip()]
        if setting.kind == tuple[str, ...] and not text.lstrip().startswith("["):
            return [part.strip() for part in text.split(",") if part.strip()]
        return yaml_documents.load(text)
    except ValueError:
        return text


def _is_service_link(variable: str, text: str, *, known: bool) -> bool:
    return bool(_LINKED_PORT.fullmatch(text)) if known else bool(_SERVICE_LINK.fullmatch(variable))


def _refused(path: str, what: str) -> errors.SettingsRefused:
    return errors.SettingsRefused([errors.InvalidSetting("settings file", path, "", what)])
