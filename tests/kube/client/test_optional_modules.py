"""The official client is imported without its optional dependencies; who asks for those has them."""

from tests.support import commands

FACTS = """
import sys
import app.kube.client.credentials
print("kubernetes.dynamic" in sys.modules, "kubernetes_validate" in sys.modules)
import kubernetes_validate
print(kubernetes_validate.latest_version() != "")
"""


def test_the_official_client_is_imported_without_its_validation() -> None:
    done = commands.run(["-c", FACTS])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False", "True"]
