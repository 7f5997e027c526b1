"""Settings of the processes: read once at start, validated together, then immutable.

``load`` is the entry point. It reads a YAML file and the environment (sources), validates them against the
declarations (groups, declarations) with msgspec (validation), and returns Settings or raises
SettingsRefused, which lists every invalid setting with its value and the allowed values.
"""

from collections.abc import Mapping

from app.settings import declarations, sources, validation
from app.settings.declarations import Setting
from app.settings.errors import InvalidSetting, SettingsRefused
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
    Metrics,
    Plugins,
    Server,
    Settings,
    Store,
    Tls,
)
from app.settings.sources import FILE_VARIABLE

__all__ = [
    "FILE_VARIABLE",
    "Audit",
    "Budgets",
    "Client",
    "Compaction",
    "Debug",
    "Election",
    "Identities",
    "InvalidSetting",
    "Kube",
    "Limits",
    "Logging",
    "Metrics",
    "Plugins",
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
    """Load the settings of a YAML file (None: the file of TOPOLOG_CONFIG, if set) and the environment.

    Environment variables override the file. Raises SettingsRefused.
    """
    settings = describe()
    path = path or environ.get(FILE_VARIABLE)
    values = list(sources.from_file(path, settings)) if path else []
    return validation.validate_all([*values, *sources.from_environment(environ, settings)], settings)


def describe() -> tuple[Setting, ...]:
    """All settings: name, variable, default, meaning."""
    return tuple(declarations.describe(Settings))


def current(settings: Settings) -> dict[str, object]:
    """Name -> value of every setting, with secrets hidden."""
    shown: dict[str, object] = {}
    for setting in describe():
        value: object = settings
        for part in setting.path:
            value = getattr(value, part)
        if setting.rule.secret:
            value = "(hidden)" if value else ""
        elif isinstance(value, str) and (setting.rule.quiet or "://" in value):
            value = validation.without_secrets(value)
        shown[setting.name] = list(value) if isinstance(value, tuple) else value
    return shown
