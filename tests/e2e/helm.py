"""Compiles Helm 3 and Helm 4, once per machine, beside the control plane.

`python -m tests.e2e.helm` builds both and prints their paths.
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tests.e2e import building

SOURCE = pathlib.Path(__file__).parent / "charts"
MAJORS = (3, 4)


def built(major: int) -> pathlib.Path:
    """Return the binary of a major version, building it first where that has not been done.

    Raises GoMissing.
    """
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = home / "topolog" / "helm" / version(major)
    binary = folder / "helm"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise building.GoMissing("Helm is built with Go, and there is no go on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may start at once: one builds, one waits
        if not binary.exists():
            print(f"building Helm {version(major)}: some minutes, once", file=sys.stderr, flush=True)
            unfinished = folder / "helm.unfinished"
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly"]
            package = f"helm.sh/helm/v{major}/cmd/helm"
            subprocess.run([go, "build", *flags, "-o", unfinished, package], cwd=_module(major), check=True)
            unfinished.rename(binary)
    return binary


def version(major: int) -> str:
    """Return the version that go.mod asks for, such as v4.3.1."""
    text = (_module(major) / "go.mod").read_text()
    found = re.search(rf"helm\.sh/helm/v{major} (v[\d.]+)", text)
    assert found, f"{_module(major)} requires no Helm"
    return found[1]


def _module(major: int) -> pathlib.Path:
    return SOURCE / f"helm{major}"


if __name__ == "__main__":
    for each in MAJORS:
        print(built(each))
