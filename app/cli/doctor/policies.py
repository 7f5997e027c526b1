"""``topolog doctor policies``: mistakes in policies, and pods that escape them, as the plugins find them."""

import os
import typing

import click

from app import plugins, settings
from app.cli.doctor import options, reports

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from app.framework import doctor_checks


@click.command("policies", short_help="Check policies, and the pods that they concern.")
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A schedulerName whose scheduler calls the extender. Default: found among the pods of the cluster.",
)
@options.namespace
@options.output
@click.pass_obj
def policies_command(
    config: str | None,
    /,
    names: tuple[str, ...],
    namespace: str | None,
    shown: options.Shown,
) -> None:
    """Check the objects of the plugins, and the pods and workloads that they concern.

    Finds policies that select nothing, domains without nodes, quotas that cannot be satisfied, and pods that
    escape a quota. Reads the API server, not the log. Each plugin declares its own checks.
    """
    from app.doctor.policies import examination

    if reports.listed(examination.checks(plugins.catalog().classes), shown):
        return
    loaded = settings.load(config, os.environ)
    home = options.home(loaded, namespace)
    results = examine(loaded, names=names, namespace=home)
    reports.show("policies", loaded.cluster, results, shown)


def examine(
    loaded: settings.Settings, *, names: "Sequence[str]", namespace: str
) -> list["doctor_checks.Result"]:
    """The results of all checks."""
    from app.cli.doctor import inputs
    from app.doctor import api_reader
    from app.doctor.policies import examination
    from app.doctor.scheduler import examination as schedulers

    enabled, catalog = inputs.enabled(loaded), plugins.catalog()
    try:
        reader = inputs.reader(loaded)
    except api_reader.Unseen as unseen:
        checks = [check for one in enabled.diagnoses for check in one.diagnosis().checks]
        return list(unseen.unsure(checks))
    calling = frozenset(names) if names else schedulers.calling(reader, namespace)
    return list(examination.examine(reader, catalog.schema, enabled, calling))
