"""The files in which a process keeps the certificates and keys that a kubeconfig has inline."""

import base64
import json
import os
import pathlib
import subprocess
import sys

PROGRAM = """
import os, pathlib, sys, tempfile
from app.kube.client import credentials

def files():
    return {path for path in pathlib.Path(tempfile.gettempdir()).rglob("*") if path.is_file()}

access = credentials.find(sys.argv[1])
own = files()
assert len(own) == 3, own
child = os.fork()
if not child:
    another = credentials.find(sys.argv[1])
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert files() == own, files() ^ own
"""


def inline(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_forked_process_that_ends_leaves_its_parent_the_credentials(tmp_path: pathlib.Path) -> None:
    kubeconfig, temporary = tmp_path / "config", tmp_path / "temporary"
    temporary.mkdir()
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": inline("authority")}
    user = {"client-certificate-data": inline("certificate"), "client-key-data": inline("key")}
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    kubeconfig.write_text(json.dumps(content))
    command = [sys.executable, "-c", PROGRAM, str(kubeconfig)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert list(temporary.iterdir()) == []
