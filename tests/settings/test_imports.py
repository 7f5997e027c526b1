"""What a process imports before it works: marshmallow only where a request or a policy needs it."""

import json

import pytest

from tests.support import commands

WORKERS = """
import json
import sys
import workers.__main__
print(json.dumps([name for name in ("marshmallow", "flask") if name in sys.modules]))
from app.plugins.workload_policy import kinds
kinds.POLICIES.decode(b'{"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}')
print(json.dumps("marshmallow" in sys.modules))
"""
COMMAND = """
import sys
from app import cli
try:
    cli.main()
finally:
    print("marshmallow" in sys.modules, file=sys.stderr)
"""


def test_workers_start_without_marshmallow() -> None:
    done = commands.run(["-c", WORKERS])
    assert done.stderr == ""
    # The second line shows that the first one depends on what is imported, not on what is installed.
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[], True]


@pytest.mark.parametrize("arguments", [["settings"], ["settings", "--schema"], ["record"]], ids=" ".join)
def test_commands_validate_settings_without_marshmallow(arguments: list[str]) -> None:
    done = commands.run(["-c", COMMAND, *arguments])
    assert done.stderr.splitlines()[-1] == "False"
    assert done.stdout or "store.url is not set" in done.stderr
