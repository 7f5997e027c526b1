"""Packages are imported without their optional dependencies; who asks for those has them."""

from tests.support import commands

PROCESSES = """
import sys
import workers.__main__, app.extender_process, app.view_process
print("structlog.dev" in sys.modules, "rich" in sys.modules)
import rich.console
print(rich.console.Console(width=40).width)
"""
CLIENT = """
import sys
import app.kube.client.credentials
print("kubernetes.dynamic" in sys.modules, "kubernetes_validate" in sys.modules)
import kubernetes_validate
print(kubernetes_validate.latest_version() != "")
"""


def test_the_official_client_is_imported_without_its_validation() -> None:
    done = commands.run(["-c", CLIENT])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False", "True"]


def test_no_process_imports_rich_for_its_log() -> None:
    done = commands.run(["-c", PROCESSES])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False", "40"]
