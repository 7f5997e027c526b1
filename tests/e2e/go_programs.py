"""Compiles further programs in Go, once per machine, beside the control plane.

`python -m tests.e2e.go_programs` builds all of them and prints their paths.
"""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from tests.e2e import control_plane_builds

SOURCE = pathlib.Path(__file__).parent / "charts"


@dataclass(frozen=True, slots=True)
class Program:
    """A command of a module; its folder below charts/ has a go.mod that requires the module."""

    name: str
    folder: str
    module: str
    package: str
    """Below the module."""

    @property
    def version(self) -> str:
        """The version that go.mod asks for, such as v4.3.1."""
        text = (SOURCE / self.folder / "go.mod").read_text()
        found = re.search(rf"{re.escape(self.module)} (v[\d.]+)", text)
        assert found, f"{self.folder}/go.mod requires no {self.module}"
        return found[1]

    def built(self) -> pathlib.Path:
        """The path of the binary, building it first where that has not been done. Raises GoMissing."""
        return _built(self.name, self.version, SOURCE / self.folder, f"{self.module}/{self.package}")


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A command of this repository, in a module of its own."""

    name: str
    source: pathlib.Path

    @property
    def version(self) -> str:
        """The digest of its files."""
        content = (path.read_bytes() for path in sorted(self.source.iterdir()))
        return hashlib.sha256(b"".join(content)).hexdigest()[:16]

    def built(self) -> pathlib.Path:
        """The path of the binary, building it first where that has not been done. Raises GoMissing."""
        return _built(self.name, self.version, self.source, ".")


def _built(name: str, version: str, source: pathlib.Path, package: str) -> pathlib.Path:
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = home / "topolog" / name / version
    binary = folder / name
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise control_plane_builds.GoMissing(f"{name} is built with Go, and there is no go on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may start at once: one builds, one waits
        if not binary.exists():
            print(f"building {name} {version}: once", file=sys.stderr, flush=True)
            unfinished = folder / f"{name}.unfinished"
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly"]
            command = [go, "build", *flags, "-o", str(unfinished), package]
            subprocess.run(command, cwd=source, check=True)
            unfinished.rename(binary)
    return binary


HELM: Final = {
    major: Program("helm", f"helm{major}", f"helm.sh/helm/v{major}", "cmd/helm") for major in (3, 4)
}
"""Major version -> Helm."""
KUBE_SCORE: Final = Program("kube-score", "kube-score", "github.com/zegl/kube-score", "cmd/kube-score")
HELM_UNITTEST: Final = Program(
    "helm-unittest", "helm-unittest", "github.com/helm-unittest/helm-unittest", "cmd/helm-unittest"
)
STREAMING: Final = OwnProgram("streaming", SOURCE.parent / "streaming")


if __name__ == "__main__":
    programs: tuple[Program | OwnProgram, ...] = (*HELM.values(), KUBE_SCORE, HELM_UNITTEST, STREAMING)
    for each in programs:
        print(each.built())
