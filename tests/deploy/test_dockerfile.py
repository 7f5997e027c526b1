"""The Dockerfile has no flaw that hadolint reports."""

import pathlib
import subprocess
import sys

from tests.support import manifests

HADOLINT = pathlib.Path(sys.executable).with_name("hadolint")


def found(path: pathlib.Path) -> str:
    """What hadolint reports; empty if it finds nothing."""
    done = subprocess.run([HADOLINT, path], capture_output=True, text=True, check=False)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout


def test_the_dockerfile_has_no_flaw() -> None:
    assert found(manifests.DEPLOY / "Dockerfile") == ""


def test_a_flaw_is_found(tmp_path: pathlib.Path) -> None:
    text = (manifests.DEPLOY / "Dockerfile").read_text()
    flawed = tmp_path / "Dockerfile"
    flawed.write_text(f"{text}\nUSER root\n")
    assert "DL3002" in found(flawed)
