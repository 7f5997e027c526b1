"""Compiles programs that are published as Go modules, once per machine, beside the control plane.

`python -m tests.e2e.go_programs` builds all of them and prints their paths.
"""

import fcntl
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
        home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        folder = home / "topolog" / self.name / self.version
        binary = folder / self.name
        if binary.exists():
            return binary
        go = shutil.which("go")
        if go is None:
            raise control_plane_builds.GoMissing(f"{self.name} is built with Go, and there is no go on PATH")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may start at once: one builds, one waits
            if not binary.exists():
                print(f"building {self.name} {self.version}: once", file=sys.stderr, flush=True)
                unfinished = folder / f"{self.name}.unfinished"
                flags = ["-trimpath", "-buildvcs=false", "-mod=readonly"]
                command = [go, "build", *flags, "-o", str(unfinished), f"{self.module}/{self.package}"]
                subprocess.run(command, cwd=SOURCE / self.folder, check=True)
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


if __name__ == "__main__":
    for each in (*HELM.values(), KUBE_SCORE, HELM_UNITTEST):
        print(each.built())
