"""Where the commands find the certificates of this machine."""

import os
import pathlib
import subprocess
import sys

import pytest

from app.cli import certs

SCRIPT = "from app.cli import certs; print(certs.default_directory('c'))"
UNKNOWN = 4_000_000
"""A uid without an entry in /etc/passwd, such as the one of a container."""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is taken on, which needs root")
def test_a_user_without_a_home_has_a_directory() -> None:
    script = f"import os; os.setuid({UNKNOWN}); {SCRIPT}"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")
    }
    # Imported before the change of user, who may not read everything of this one.
    script = f"import app.cli.certs; {script}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "/.local/state/topolog/c/certs\n"), done.stderr


def test_the_directory_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert certs.default_directory("c") == tmp_path / "topolog" / "c" / "certs"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert certs.default_directory("c") == tmp_path / ".local" / "state" / "topolog" / "c" / "certs"
