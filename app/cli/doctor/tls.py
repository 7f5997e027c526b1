"""``topolog doctor tls``: the certificates of the extender and of kube-scheduler."""

import datetime
import os
import pathlib
import typing

import click

from app import settings
from app.cli import certs
from app.cli.client import api_client
from app.cli.doctor import options, reports

if typing.TYPE_CHECKING:
    from collections.abc import Mapping

    from app.framework import doctor_checks


@click.command("tls", short_help="Check the certificates of the extender and of kube-scheduler.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    help="Directory that `topolog certs` wrote.",
)
@options.namespace
@api_client.server_options
@options.output
@click.pass_obj
def tls_command(
    config: str | None,
    /,
    directory: pathlib.Path | None,
    namespace: str | None,
    shown: options.Shown,
    **server: str | None,
) -> None:
    """Check certificates: time, names, keys, purposes, roles, and whether both sides trust one another.

    Reads the files of --dir, else those of tls.* and of `topolog up`, else the Secrets topolog-tls and
    topolog-scheduler-tls of the cluster, and topolog-valkey-tls where the bundled store has TLS. Then asks
    the extender with the client's certificate. Private keys are compared with their certificates, and never
    printed.
    """
    from app.doctor.tls import catalog

    if reports.listed(catalog.CHECKS, shown):
        return
    loaded = settings.load(config, os.environ)
    home = options.home(loaded, namespace)
    results = examine(config, loaded, server, directory=directory, namespace=home)
    reports.show("tls", loaded.cluster, results, shown)


def examine(
    config: str | None,
    loaded: settings.Settings,
    server: "Mapping[str, str | None]",
    *,
    directory: pathlib.Path | None,
    namespace: str,
) -> list["doctor_checks.Result"]:
    """The results of all checks."""
    from app.cli.doctor import inputs
    from app.doctor import api_reader
    from app.doctor.tls import catalog, examination, sources

    now = datetime.datetime.now(datetime.UTC)
    names = loaded.identities.by_role()
    made = directory or certs.default_directory(loaded.cluster)
    configured = api_reader.seen(lambda: sources.of_settings(loaded.tls))
    if directory is None and configured is not None:
        scheduler = api_reader.seen(lambda: sources.of_directory(made)[1])
        results = list(examination.of_sides(configured, scheduler, now=now, names=names))
    elif directory is not None or (made / "server.crt").is_file():
        both = api_reader.seen(lambda: sources.of_directory(made))
        sides = (both, both) if isinstance(both, api_reader.Unseen) else both
        results = list(examination.of_sides(*sides, now=now, names=names))
    else:
        try:
            reader = inputs.reader(loaded)
            results = list(examination.of_cluster(reader, namespace, now=now, names=names))
        except api_reader.Unseen as unseen:
            fix = f"name their directory with --dir, or tls.cert, tls.key and tls.ca; or {unseen.fix}"
            results = [one.unsure("the cluster", unseen.reason, fix=fix) for one in catalog.CHECKS[:-1]]
    witness = inputs.Witness(config, server, namespace)
    answered = examination.handshake(
        witness.url, lambda: witness.get("/apis/v1/lag"), witness.reachable, namespace
    )
    return [*results, answered]
