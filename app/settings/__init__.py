"""What an operator can choose: read once, checked whole, and fixed from then on.

``load`` is the only door. It reads a YAML file and the environment (reading), checks them against
the declarations (groups, declaring) with marshmallow (checking), and either returns Settings or
raises SettingsRefused, which names every wrong setting with its value and what is allowed.
"""

from collections.abc import Mapping

from app.settings import checking, declaring, reading
from app.settings.declaring import Setting
from app.settings.errors import Problem, SettingsRefused
from app.settings.groups import (
    Audit,
    Budgets,
    Client,
    Compaction,
    Debug,
    Election,
    Identities,
    Kube,
    Limits,
    Logging,
    Plugins,
    Server,
    Settings,
    Store,
    Tls,
)
from app.settings.reading import FILE_VARIABLE

__all__ = [
    "FILE_VARIABLE",
    "Audit",
    "Budgets",
    "Client",
    "Compaction",
    "Debug",
    "Election",
    "Identities",
    "Kube",
    "Limits",
    "Logging",
    "Plugins",
    "Problem",
    "Server",
    "Setting",
    "Settings",
    "SettingsRefused",
    "Store",
    "Tls",
    "current",
    "describe",
    "load",
]


def load(path: str | None, environ: Mapping[str, str]) -> Settings:
    """The settings of a YAML file (None: the one that TOPOLOG_CONFIG names, or none) and the environment.

    The environment wins over the file. Raises SettingsRefused.
    """
    settings = describe()
    path = path or environ.get(FILE_VARIABLE)
    given = list(reading.from_file(path, settings)) if path else []
    return checking.checked([*given, *reading.from_environment(environ, settings)], settings)


def describe() -> tuple[Setting, ...]:
    """Every setting there is: name, variable, default, meaning."""
    return tuple(declaring.describe(Settings))


def current(settings: Settings) -> dict[str, object]:
    """Name -> value of every setting, secrets hidden: for people and for the introspection API."""
    shown: dict[str, object] = {}
    for setting in describe():
        value: object = settings
        for part in setting.path:
            value = getattr(value, part)
        if setting.rule.secret:
            value = "(hidden)" if value else ""
        elif isinstance(value, str) and (setting.rule.quiet or "://" in value):
            value = checking.without_secrets(value)
        shown[setting.name] = list(value) if isinstance(value, tuple) else value
    return shown
