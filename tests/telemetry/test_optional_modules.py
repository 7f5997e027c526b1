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
LATER = """
import sys
import workers.__main__, app.extender_process, app.view_process
print([name for name in ("pydantic", "requests", "requests_oauthlib") if name in sys.modules])
from kubernetes.config import kube_config
session = kube_config.OAuth2Session(client_id="me")
made = kube_config.ApiClient()
import requests_oauthlib, requests.utils
from kubernetes import client
print(type(session) is requests_oauthlib.OAuth2Session, type(made) is client.ApiClient)
print(client.ApiClient is client.api_client.ApiClient, requests.utils.should_bypass_proxies.__module__)
"""


def test_the_official_client_is_imported_without_its_validation() -> None:
    done = commands.run(["-c", CLIENT])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False", "True"]


def test_no_process_imports_rich_for_its_log() -> None:
    done = commands.run(["-c", PROCESSES])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True False", "40"]


def test_no_process_imports_what_the_official_client_has_for_others_before_it_is_called() -> None:
    done = commands.run(["-c", LATER])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "True True", "True requests.utils"]
