"""The clients of a command end with it."""

import pathlib
import threading

import click

from app import settings
from app.cli.doctor import inputs
from tests.support import commands, polling


def renewing() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "credentials"}


def test_a_command_leaves_no_thread_that_renews_credentials(tmp_path: pathlib.Path) -> None:
    """Tests run many commands in one process; a folder of credentials may be gone by then."""
    before = renewing()
    loaded = settings.load(None, {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path)})
    with click.Context(click.Command("doctor")):
        kept = inputs.reader(loaded)
        assert len(renewing() - before) == 1
    polling.eventually(lambda: renewing() <= before, "its thread has ended")
    assert kept.host
