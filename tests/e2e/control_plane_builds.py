"""Compiles the control plane's binary, once per machine and version of Kubernetes.

The first build takes minutes of every core, so the result is stored outside the repository, in a folder named
after the digest of its sources. `python -m tests.e2e.control_plane_builds` builds it ahead of the tests and
prints its path. ``E2E_KUBERNETES`` names the version, such as 1.34.4; without it, the newest one is built.
Module files of further versions are written by `tests.e2e.modules`.
"""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).parent / "controlplane"
VARIABLE = "E2E_KUBERNETES"


class GoMissing(Exception):
    """There is no Go toolchain on PATH, and no binary from an earlier build."""


class UnknownVersion(Exception):
    """There are no module files for this version of Kubernetes."""


def versions() -> list[str]:
    """Return the versions that can be built, such as 1.34.4, the oldest first."""
    found = {path.stem for path in SOURCE.glob("*.mod")} - {"go"}
    return sorted(found | {newest()}, key=_numbers)


def newest() -> str:
    """Return the version that go.mod asks for."""
    found = re.search(r"k8s\.io/kubernetes v([\d.]+)", (SOURCE / "go.mod").read_text())
    assert found, "go.mod requires no k8s.io/kubernetes"
    return found[1]


def selected() -> str:
    """Return the version of this run; raises UnknownVersion if there are no module files for it."""
    version = os.environ.get(VARIABLE, "").removeprefix("v") or newest()
    if version not in versions():
        raise UnknownVersion(f"Kubernetes {version} is not one of {', '.join(versions())}")
    return version


def minor() -> tuple[int, int]:
    """Return the selected version without its patch number, such as (1, 34), to compare."""
    first, second, *_ = _numbers(selected())
    return first, second


def built() -> pathlib.Path:
    """Return the binary of the selected version, building it first where that has not been done."""
    folder = cache()
    binary = folder / "controlplane"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise GoMissing("the control plane is built with Go, and there is no go on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may start at once: one builds, one waits
        if not binary.exists():
            message = f"building a control plane of Kubernetes {selected()}: about ten minutes, once"
            print(message, file=sys.stderr, flush=True)
            unfinished = folder / "controlplane.unfinished"
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags=-s -w {_version_flags()}"]
            subprocess.run(
                [go, "build", f"-modfile={_module_file().name}", *flags, "-o", unfinished, "."],
                cwd=SOURCE,
                check=True,
            )
            unfinished.rename(binary)
    return binary


def cache() -> pathlib.Path:
    """Return the folder for this source and version: another source, another folder."""
    digest = hashlib.sha256()
    module = _module_file()
    for path in (module, module.with_suffix(".sum"), SOURCE / "main.go"):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "topolog" / "controlplane" / digest.hexdigest()[:16]


def _module_file() -> pathlib.Path:
    version = selected()
    return SOURCE / ("go.mod" if version == newest() else f"{version}.mod")


def _version_flags() -> str:
    # Without these flags every part reports v0.0.0-master, to its users and to its own checks.
    version = selected()
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    try:
        print(built())
    except (GoMissing, UnknownVersion) as reason:
        sys.exit(str(reason))
