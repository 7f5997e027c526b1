"""Compiles the control plane's binary, once per machine.

The first build takes minutes of every core, so the result is stored outside the repository, in a folder named
after the digest of its sources. `python -m tests.e2e.building` builds it ahead of the tests and prints its
path.
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
INPUTS = ("go.mod", "go.sum", "main.go")


class GoMissing(Exception):
    """There is no Go toolchain on PATH, and no binary from an earlier build."""


def built() -> pathlib.Path:
    """Return the binary for this source, building it first where that has not been done."""
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
            print("building a Kubernetes control plane: about ten minutes, once", file=sys.stderr, flush=True)
            unfinished = folder / "controlplane.unfinished"
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags=-s -w {_version_flags()}"]
            subprocess.run([go, "build", *flags, "-o", unfinished, "."], cwd=SOURCE, check=True)
            unfinished.rename(binary)
    return binary


def cache() -> pathlib.Path:
    """Return the folder for this source: another source, another folder."""
    digest = hashlib.sha256()
    for name in INPUTS:
        content = (SOURCE / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "topolog" / "controlplane" / digest.hexdigest()[:16]


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod asks for, such as v1.37.0."""
    found = re.search(r"k8s\.io/kubernetes (v[\d.]+)", (SOURCE / "go.mod").read_text())
    assert found, "go.mod requires no k8s.io/kubernetes"
    return found[1]


def _version_flags() -> str:
    # Without these flags every part reports v0.0.0-master, to its users and to its own checks.
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


if __name__ == "__main__":
    print(built())
