"""``topolog doctor cluster``: what the manifests of deploy/ create, and how the pods are doing."""

import dataclasses
import datetime
import os
import typing

import click

from app import plugins, settings
from app.cli.doctor import options, reports

if typing.TYPE_CHECKING:
    from app.framework import doctor_checks


@click.command("cluster", short_help="Check permissions, definitions and Topolog's pods.")
@options.pre
@options.namespace
@options.output
@click.pass_obj
def cluster_command(
    config: str | None,
    /,
    pre: bool,
    namespace: str | None,
    shown: options.Shown,
) -> None:
    """Check the cluster: versions, permissions, custom resources, pods, Leases and NetworkPolicies.

    Asks the API server, for the service account of each process, whether it would allow what the process
    does; where there are no service accounts, for the user of the kubeconfig. Compares the cluster with the
    one whose log the store holds.

    With --pre, before an installation: whether the user may create what it consists of, the API server's
    version, and what is there already.
    """
    from app.doctor.cluster import catalog

    if reports.listed(catalog.CHECKS, shown):
        return
    loaded = settings.load(config, os.environ)
    home = options.home(loaded, namespace)
    results = examine(loaded, namespace=home, pre=pre)
    reports.show("cluster", loaded.cluster, results, shown)


def examine(loaded: settings.Settings, *, namespace: str, pre: bool = False) -> list["doctor_checks.Result"]:
    """The results of all checks; ``pre``: of those that can be made before an installation."""
    from app.cli.doctor import inputs
    from app.doctor import api_reader, store_checks
    from app.doctor.cluster import catalog, examination, prerequisites
    from app.store import keys
    from app.telemetry import metrics

    found = plugins.catalog()
    leases = {
        metrics.RECORDER: loaded.election.recorder,
        metrics.CONTROLLER: loaded.election.controller,
    }
    wanted = examination.expected(
        found.classes,
        found.schema,
        namespace=namespace,
        leases=leases,
        elections=inputs.election_namespaces(loaded, namespace),
    )
    if not pre:
        names = keys.Keys(loaded.cluster, found.schema.forms)
        stored = store_checks.ownership(loaded.store, names)
        wanted = dataclasses.replace(
            wanted, evicting=inputs.evicting(loaded), cluster=loaded.cluster, ownership=stored
        )
    try:
        reader = inputs.reader(loaded)
    except api_reader.Unseen as unseen:
        return list(unseen.unsure(catalog.PRE if pre else catalog.USUAL))
    if pre:
        return list(prerequisites.examine(reader, wanted, bundled=not loaded.store.url))
    return list(examination.examine(reader, wanted, datetime.datetime.now(datetime.UTC)))
