"""Workers as processes: where they are, what their health port answers, and how they ended."""

import pathlib
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable

from tests.support.workers import recordings

Start = Callable[..., subprocess.Popen[str]]
ROOT = pathlib.Path(__file__).parents[3]
"""The repository, whose ``workers`` is the module that is run."""


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Status and text of the health port; 0 and the error if nothing answers."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError as away:
        return 0, str(away)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and standard error."""
    _, stderr = process.communicate(timeout=recordings.LIMIT)
    return process.returncode, stderr
