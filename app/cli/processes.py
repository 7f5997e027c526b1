"""Starts the processes of a cluster: their settings, environment and command lines.

Workers run in a separate Python that replaces this one: they import no web code, and this package imports
no workers. Settings are validated first, so that a mistake is reported before anything runs.
"""

import json
import os
import pathlib
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from app import exit_codes, settings
from app.cli import certs, exits

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


def bound_address(loaded: settings.Settings) -> str:
    """The only address at which the ports are reached; empty if they listen on all interfaces."""
    return "" if loaded.server.bind in ("0.0.0.0", "::") else loaded.server.bind


def default_ports(loaded: settings.Settings) -> list[int]:
    """The health ports of the processes of ``topolog up``, if none of them is in use."""
    return [loaded.server.health_port + offset for offset in sorted(one.offset for one in TOGETHER.values())]


def record_ports(cluster: str, ports: Sequence[int]) -> None:
    """Keep the health ports that the processes of ``topolog up`` have."""
    file = _ports_file(cluster)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(sorted(ports)), encoding="utf-8")
    unfinished.replace(file)


def forget_ports(cluster: str) -> None:
    """Remove what was recorded."""
    _ports_file(cluster).unlink(missing_ok=True)


def recorded_ports(cluster: str) -> list[int]:
    """The ports that were recorded; empty without a record that can be read.

    They may be those of processes that are gone: one that is killed forgets nothing.
    """
    try:
        found = json.loads(_ports_file(cluster).read_bytes())
    except (OSError, ValueError):
        return []
    return [port for port in found if isinstance(port, int)] if isinstance(found, list) else []


def _ports_file(cluster: str) -> pathlib.Path:
    return certs.default_directory(cluster).parent / "health-ports.json"


def local_url(loaded: settings.Settings, port: int, *, scheme: str = "http") -> str:
    """The URL at which this machine reaches a port of its own processes."""
    return url(scheme, bound_address(loaded) or "127.0.0.1", port)


def url(scheme: str, host: str, port: int) -> str:
    """The URL of a port; ``host`` may be an address of IPv6."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
