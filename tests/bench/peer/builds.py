"""The peer and the client, compiled once for each version of their source.

They are written in Go with the official types, so the first build on a machine takes a minute; the
result lies in a cache outside the repository. `python -m tests.bench.peer.builds` builds ahead.
"""

import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

from tests.e2e import control_plane_builds

SOURCE = pathlib.Path(__file__).parent
PROGRAMS = ("extender", "client")


@dataclasses.dataclass(frozen=True, slots=True)
class Programs:
    """Where the compiled programs are."""

    extender: pathlib.Path
    client: pathlib.Path


def built() -> Programs:
    """Return the programs of this source, building them first if necessary.

    Raises GoMissing where there is neither a Go toolchain on PATH nor an earlier build.
    """
    folder = cache()
    if not is_built():
        _build(folder)
    return Programs(*(folder / name for name in PROGRAMS))


def is_built() -> bool:
    """Whether there is a build of this source."""
    return all((cache() / name).exists() for name in PROGRAMS)


def cache() -> pathlib.Path:
    """Return the folder of the builds of this source; its name is the digest of the source."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in (".go", ".mod", ".sum") and not path.name.endswith("_test.go"):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(SOURCE)} {len(content)}\n".encode() + content)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "topolog" / "bench" / digest.hexdigest()[:16]


def _build(folder: pathlib.Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise control_plane_builds.GoMissing(
            "the benchmark's peer is built with Go, and there is no go on PATH"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs may start at once: one builds, one waits
        for name in PROGRAMS:
            if (folder / name).exists():
                continue
            unfinished = folder / f"{name}.unfinished"
            flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w"]
            subprocess.run(
                [go, "build", *flags, "-o", str(unfinished), f"./cmd/{name}"], cwd=SOURCE, check=True
            )
            unfinished.rename(folder / name)


if __name__ == "__main__":
    print(cache() if built() else "")
