"""``topolog doctor run``: the processes of a running installation, and the log as a witness."""

import os
import time
import typing

import click

from app import settings
from app.cli.client import api_client
from app.cli.doctor import options, reports

if typing.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.framework import doctor_checks


@click.command("run", short_help="Check a running installation: its processes and the log.")
@options.process
@options.namespace
@api_client.server_options
@options.output
@click.pass_obj
def run_command(
    config: str | None,
    /,
    urls: tuple[str, ...],
    namespace: str | None,
    shown: options.Shown,
    **server: str | None,
) -> None:
    """Check the processes: readiness, leaders, versions, lag, audits; and when kube-scheduler called last.

    Reads /readyz and /metrics of every process: at --process, else of the pods of the cluster through the API
    server, else of `topolog up` on this machine.
    """
    from app.doctor.run import catalog

    if reports.listed(catalog.CHECKS, shown):
        return
    loaded = settings.load(config, os.environ)
    results = examine(config, loaded, server, urls=urls, namespace=options.home(loaded, namespace))
    reports.show("run", loaded.cluster, results, shown)


def examine(
    config: str | None,
    loaded: settings.Settings,
    server: "Mapping[str, str | None]",
    *,
    urls: "Sequence[str]",
    namespace: str,
) -> list["doctor_checks.Result"]:
    """The results of all checks."""
    from app.cli.doctor import inputs
    from app.doctor.run import examination

    found = inputs.processes(loaded, urls, namespace)
    witness = inputs.Witness(config, server, namespace)
    leases = inputs.lease_namespace(loaded, found, namespace)
    return list(examination.examine(found, witness.get, time.time(), leases=leases))
