"""``topolog doctor all``: every area in one report."""

import os
import typing

import click

from app import plugins, settings
from app.cli.client import api_client
from app.cli.doctor import cluster, options, policies, reports, run, scheduler, store, tls

if typing.TYPE_CHECKING:
    from app.framework import doctor_checks


_AFTER: typing.Final = frozenset(("Q20", "Q21", "Q22", "Q23", "Q24", "Q25"))
"""Checks of the store about what `topolog migrate up` and the access list create."""


@click.command("all", short_help="Make all checks; for bug reports.")
@options.pre
@options.process
@options.namespace
@api_client.server_options
@options.output
@click.pass_obj
def all_command(
    config: str | None,
    /,
    pre: bool,
    urls: tuple[str, ...],
    namespace: str | None,
    shown: options.Shown,
    **server: str | None,
) -> None:
    """Make the checks of all areas: scheduler, cluster, tls, run, policies and store.

    The commands of the areas have more options, such as a file of kube-scheduler's configuration. With
    --pre, makes those of cluster and store that can be made before an installation.
    """
    if reports.listed(_checks(), shown):
        return
    loaded = settings.load(config, os.environ)
    home = options.home(loaded, namespace)
    if pre:
        stored = store.examine(loaded) if loaded.store.url else []
        fresh = [one for one in stored if one.id not in _AFTER]
        results = [*cluster.examine(loaded, namespace=home, pre=True), *fresh]
        reports.show("all --pre", loaded.cluster, results, shown)
        return
    results = [
        *scheduler.examine(config, loaded, server, namespace=home),
        *cluster.examine(loaded, namespace=home),
        *tls.examine(config, loaded, server, directory=None, namespace=home),
        *run.examine(config, loaded, server, urls=urls, namespace=home),
        *policies.examine(loaded, names=(), namespace=home),
        *store.examine(loaded),
    ]
    reports.show("all", loaded.cluster, results, shown)


def _checks() -> list["doctor_checks.Check"]:
    from app.doctor import store_checks
    from app.doctor.cluster import catalog as of_cluster
    from app.doctor.policies import examination
    from app.doctor.run import catalog as of_run
    from app.doctor.scheduler import catalog as of_scheduler
    from app.doctor.tls import catalog as of_tls

    return [
        *of_scheduler.CHECKS,
        *of_cluster.CHECKS,
        *of_tls.CHECKS,
        *of_run.CHECKS,
        *examination.checks(plugins.catalog().classes),
        *store_checks.CHECKS,
    ]
