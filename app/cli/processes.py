"""Starts the processes of a cluster: their settings, environment and command lines.

Workers run in a separate Python that replaces this one: they import no web code, and this package imports
no workers. Settings are validated first, so that a mistake is reported before anything runs.
"""

import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from app import exit_codes, settings
from app.cli import exits

ARGUMENTS: Final[Mapping[str, Sequence[str]]] = types.MappingProxyType(
    {
        "record": ("-m", "workers", "record"),
        "control": ("-m", "workers", "control"),
        "compact": ("-m", "workers", "compact"),
        "audit": ("-m", "workers", "audit"),
        "extender": ("-m", "app.cli", "extender"),
        "view": ("-m", "app.cli", "view"),
    }
)
"""Command -> arguments of the Python that runs its process."""


class Together(NamedTuple):
    """A process of ``topolog up``."""

    command: str
    offset: int
    """Of its health port from server.health_port."""


TOGETHER: Final[Mapping[str, Together]] = types.MappingProxyType(
    {
        "recorder": Together("record", 1),
        "controller": Together("control", 2),
        "compactor": Together("compact", 3),
        "auditor": Together("audit", 4),
        "view": Together("view", 5),
        "extender": Together("extender", 0),
    }
)
"""Role -> process of ``topolog up``, in the order in which they are started."""


def exec_worker(command: str, config: str | None) -> NoReturn:
    """Validate the settings, then replace this process with the worker of a command. Raises Failed."""
    environ = environment(config, {})
    load_settings(environ)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *ARGUMENTS[command]], environ)


def load_settings(environ: Mapping[str, str]) -> settings.Settings:
    """Settings of a process that shares its store with others. Raises Failed if store.url is not set."""
    loaded = settings.load(None, environ)
    if not loaded.store.url:
        raise exits.Failed(
            exit_codes.SETTINGS,
            "store.url is not set: set it to the Redis or Valkey server that the processes share"
            " (TOPOLOG_STORE_URL), or run `topolog up`, which starts one",
        )
    return loaded


def environment(config: str | None, changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with the settings file and some variables replaced."""
    file = {settings.FILE_VARIABLE: config} if config else {}
    return {**os.environ, **file, **changes}


def local_address(loaded: settings.Settings) -> str:
    """The address at which this machine reaches the ports of its own processes."""
    return "127.0.0.1" if loaded.server.bind in ("0.0.0.0", "::") else loaded.server.bind


def local_url(loaded: settings.Settings, offset: int) -> str:
    """The health port of a process of ``topolog up``."""
    host = local_address(loaded)
    return f"http://{f'[{host}]' if ':' in host else host}:{loaded.server.health_port + offset}"
