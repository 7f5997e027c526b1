"""Writes the Go module files of another version of Kubernetes for the control plane.

    python -m tests.e2e.modules 1.34.4

writes ``controlplane/1.34.4.mod`` and ``controlplane/1.34.4.sum`` beside ``go.mod``, which is that of the
newest version. `go build -modfile` takes one of them in place of ``go.mod``, so all versions share
``main.go``. The Go tool asks its module proxy for the modules.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

FOLDER = pathlib.Path(__file__).parent / "controlplane"
MODULE = "topolog.io/tests/e2e/controlplane"


def add(version: str) -> pathlib.Path:
    """Write the module files of a version, such as 1.34.4, and return the first of them."""
    upstream = _upstream(version)
    path = FOLDER / f"{version}.mod"
    path.write_text(text(version, upstream))
    path.with_suffix(".sum").write_text("")
    subprocess.run(["go", "mod", "tidy", f"-modfile={path.name}"], cwd=FOLDER, check=True)
    return path


def text(version: str, upstream: str) -> str:
    """Return a go.mod that requires a version, given the go.mod of that version of k8s.io/kubernetes."""
    published = "v0." + version.partition(".")[2]
    staged = re.findall(r"^\s+(\S+) => \./staging/", upstream, re.MULTILINE)
    required = {
        "github.com/spf13/cobra": _required(upstream, "github.com/spf13/cobra"),
        "go.etcd.io/etcd/server/v3": _required(upstream, "go.etcd.io/etcd/server/v3"),
        "k8s.io/component-base": published,
        "k8s.io/kubectl": published,
        "k8s.io/kubernetes": f"v{version}",
    }
    return "\n".join(
        [
            f"module {MODULE}",
            "",
            _line(upstream, "go"),
            "",
            _line(upstream, "godebug"),
            "",
            "require (",
            *(f"\t{name} {wanted}" for name, wanted in required.items()),
            ")",
            "",
            "// A module's replaces are not inherited by those that import it, and k8s.io/kubernetes",
            "// requires its siblings as v0.0.0: each has to be named with its published version.",
            "replace (",
            *(f"\t{name} => {name} {published}" for name in staged),
            ")",
            "",
        ]
    )


def _upstream(version: str) -> str:
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"]
    # Outside any module, so that no go.mod decides on the version.
    done = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True)
    return pathlib.Path(json.loads(done.stdout)["GoMod"]).read_text()


def _required(upstream: str, module: str) -> str:
    found = re.search(rf"^\s+{re.escape(module)} (v\S+)", upstream, re.MULTILINE)
    assert found, f"the module file of k8s.io/kubernetes does not require {module}"
    return found[1]


def _line(upstream: str, word: str) -> str:
    found = re.search(rf"^{word} .*$", upstream, re.MULTILINE)
    assert found, f"the module file of k8s.io/kubernetes has no line {word!r}"
    return found[0]


def main(versions: Sequence[str]) -> None:
    """Write the files of each version."""
    for version in versions:
        print(add(version))


if __name__ == "__main__":
    main(sys.argv[1:])
