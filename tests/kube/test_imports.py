"""What the image leaves out of the Kubernetes client is needed by no process."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["kubernetes.aio"] = sys.modules["aiohttp"] = None  # Importing one of them fails.
import app.extender_process, app.view_process, app.cli, workers.__main__
from app.kube.client import credentials
from kubernetes import config
"""


def test_the_asyncio_client_is_not_needed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
