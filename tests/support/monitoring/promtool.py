"""promtool of Prometheus, where it is installed (Debian: the package ``prometheus``)."""

import os
import shutil
import subprocess

PATH = os.environ.get("PROMTOOL") or shutil.which("promtool")
MISSING = "promtool is not installed: install Prometheus, or set PROMTOOL to its path"


def run(*arguments: str, given: str = "") -> tuple[int, str]:
    """Exit code, and everything that it wrote."""
    assert PATH, MISSING
    done = subprocess.run(
        [PATH, *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout
