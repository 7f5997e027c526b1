"""An earlier version of Topolog as an image: its source, taken out of the history, in today's environment."""

import pathlib
import subprocess
import sys

from tests.support.e2e.nodes import containers

COMMIT = "babebd69"
"""Of the present schema, with other functions in the store, and with events of earlier versions."""
NAME = "topolog-earlier"
"""The repository of its image, at localhost."""
_PARTS = ("app", "workers", "migrations")


def lacking() -> str:
    """Why it cannot be made here; empty if it can."""
    done = _git("cat-file", "-e", f"{COMMIT}^{{commit}}")
    return "" if done.returncode == 0 else f"the history of this clone does not reach back to {COMMIT}"


def unpacked(folder: pathlib.Path) -> pathlib.Path:
    """Its source and its manifests, below a new folder."""
    done = _git("archive", "--format=tar", f"--output={folder}.tar", COMMIT, *_PARTS, "deploy")
    assert done.returncode == 0, done.stderr
    folder.mkdir()
    subprocess.run(["tar", "--extract", f"--file={folder}.tar", f"--directory={folder}"], check=True)
    return folder


def image(folder: pathlib.Path) -> containers.Image:
    """Its image: the packages of this environment, with the earlier source at the usual place."""
    environment = pathlib.Path(sys.prefix)
    mounts = {str(containers.ROOT / part): folder / part for part in _PARTS}
    return containers.Image(
        {str(environment): environment, **mounts},
        {"topolog": f'#!/bin/sh\nexec {environment}/bin/topolog "$@"\n'},
        ["topolog"],
    )


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(containers.ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
