"""Shows a bundle: a store of its own, ``topolog view`` on it, and certificates that only this user can read.

The file may be of any origin: it is verified as a whole before anything is loaded. Of its settings only the
plugins are used, and those are validated.
"""

import contextlib
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Final, NamedTuple

import urllib3

from app import exit_codes, parent_death, plugins, settings, temporary_folders
from app.cli import exits, processes
from app.cli.client import api_client
from app.framework import registry
from app.serving import errors as serving_errors
from app.serving.tls import certificate_issuer
from app.store import errors as store_errors
from app.store import keys
from app.store.bundles import bundle_reader, bundle_restorer
from app.store.server import connections, embedded

_CLUSTER: Final = "bundle"
"""The name in the keys: that of the source may be too long for a setting."""
_PATIENCE: Final = 120.0
_POLL: Final = 0.1
_GRACE: Final = 15.0
_PLUGINS: Final = ("enabled", "weights", "score_max", "args")


class Opened(NamedTuple):
    """A bundle that is shown."""

    contents: bundle_reader.Contents
    client: api_client.ExtenderClient
    environment: pathlib.Path
    """A file for a shell: the variables by which commands find the process."""


@contextlib.contextmanager
def opened(file: BinaryIO, *, note: Callable[[str], None]) -> Iterator[Opened]:
    """Show the bundle until the block ends. Raises Failed; ``note`` is given what differs from the source."""
    with contextlib.ExitStack() as ending:
        try:
            contents = bundle_reader.read(file)
            folder = ending.enter_context(temporary_folders.temporary_folder("topolog-bundle-"))
            url = _loaded(file, ending)
            client, environ = _serve(folder, url, contents, ending, note)
        except bundle_reader.Damaged as damaged:
            raise exits.Failed(exit_codes.NEGATIVE, f"{file.name}: {damaged}") from damaged
        except (store_errors.StoreError, OSError) as error:
            raise exits.Failed(exit_codes.STORE, f"{file.name} cannot be loaded: {error}") from error
        except serving_errors.ServingError as error:
            raise exits.Failed(exit_codes.SETTINGS, f"cannot create certificates: {error}") from error
        yield Opened(contents, client, environ)


def _loaded(file: BinaryIO, ending: contextlib.ExitStack) -> str:
    """The URL of a server that holds the bundle."""
    server = embedded.Server(bound=True)
    ending.callback(server.stop)
    schema = plugins.catalog().schema
    names = keys.Keys(_CLUSTER, schema.forms)
    file.seek(0)
    with contextlib.closing(connections.connect(server.url, names=names)) as client:
        bundle_restorer.restore(file, client, names, schema)
    return server.url


def _serve(
    folder: pathlib.Path,
    url: str,
    contents: bundle_reader.Contents,
    ending: contextlib.ExitStack,
    note: Callable[[str], None],
) -> tuple[api_client.ExtenderClient, pathlib.Path]:
    issued = folder / "certs"
    certificate_issuer.issue(issued, ["127.0.0.1"])
    port, health = _free_ports()
    chosen = {
        "cluster": _CLUSTER,
        "store": {"url": url, "require_durable": False},
        "server": {"bind": "127.0.0.1", "health_port": health},
        "view": {"port": port, "nice": 0},
        "tls": {name: str(issued / file) for name, file in _TLS.items()},
        "logging": {"level": "warning"},
    }
    used = _plugins(contents.settings, note)
    file = folder / "settings.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({**chosen, **({"plugins": used} if used else {})}))
    process = subprocess.Popen(
        [sys.executable, *processes.ARGUMENTS["view"]],
        env={**_environment(), settings.FILE_VARIABLE: str(file)},
        stdin=subprocess.DEVNULL,
        # Ctrl-C in the terminal stops the page first, then the process, then the store.
        start_new_session=True,
        preexec_fn=parent_death.terminates(),
    )
    ending.callback(_stop, process)
    _await(process, health)
    reached = settings.Client(
        url=f"https://127.0.0.1:{port}",
        view_url=f"https://127.0.0.1:{port}",
        ca=str(issued / "ca.crt"),
        cert=str(issued / "viewer.crt"),
        key=str(issued / "viewer.key"),
    )
    variables = folder / "env"
    variables.write_text(
        "".join(
            f"export TOPOLOG_CLIENT_{name.upper()}={shlex.quote(getattr(reached, name))}\n"
            for name in ("url", "view_url", "ca", "cert", "key")
        )
    )
    return api_client.ExtenderClient(reached), variables


_TLS: Final[Mapping[str, str]] = {"cert": "server.crt", "key": "server.key", "ca": "ca.crt"}


def _plugins(shown: Mapping[str, object], note: Callable[[str], None]) -> dict[str, object]:
    """The plugins of the source as settings; empty (those of this version) if they are unavailable."""
    given = shown.get("settings")
    if not isinstance(given, dict):
        return {}
    found = {name: given[key] for name in _PLUGINS if (key := f"plugins.{name}") in given}
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"plugins": found}, file)
            file.flush()
            chosen = settings.load(file.name, {}).plugins
        plugins.configured(chosen)
    except (settings.SettingsRefused, registry.ConfigurationRefused) as refused:
        note(
            f"the plugins of the source cannot be configured here: {refused}; those of this version are used"
        )
        return {}
    return found


def _environment() -> dict[str, str]:
    """The environment without settings of this machine."""
    own = {setting.env for setting in settings.describe()} | {settings.FILE_VARIABLE}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in own and not name.startswith("TOPOLOG_")
    }


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def _await(process: "subprocess.Popen[bytes]", health: int) -> None:
    """Return when the process shows the whole bundle. Raises Failed."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            raise exits.Failed(exit_codes.STORE, f"`topolog view` ended with code {code} and shows no bundle")
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            # urllib would send this to the proxy of the environment.
            reply = urllib3.request("GET", f"http://127.0.0.1:{health}/readyz", timeout=2.0, retries=False)
            if reply.status == 200:
                return
        time.sleep(_POLL)
    raise exits.Failed(exit_codes.STORE, f"`topolog view` cannot show the bundle after {_PATIENCE:.0f} s")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
