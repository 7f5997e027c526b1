"""``topolog doctor scheduler``: the configuration of kube-scheduler, and the schedulers of a cluster."""

import dataclasses
import os
import pathlib
import sys
import typing

import click

from app import exit_codes, settings
from app.cli import exits
from app.cli.client import api_client, urls
from app.cli.doctor import options, reports

if typing.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.doctor.scheduler import configurations, examination
    from app.framework import doctor_checks


@click.command(
    "scheduler", short_help="Check kube-scheduler's configuration, and the schedulers of a cluster."
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Check this configuration, and no cluster; - is standard input; may be repeated.",
)
@click.option(
    "--configz", type=urls.URL, metavar="URL", help="Also ask the running kube-scheduler at this URL."
)
@click.option(
    "--configz-ca", metavar="FILE", help="CA that verifies it. Default: only a loopback address is asked."
)
@click.option(
    "--server-cert", metavar="FILE", help="The extender's certificate. [tls.cert; the Secret topolog-tls]"
)
@options.namespace
@api_client.server_options
@options.output
@click.pass_obj
def scheduler_command(
    config: str | None,
    /,
    files: tuple[str, ...],
    configz: str | None,
    configz_ca: str | None,
    server_cert: str | None,
    namespace: str | None,
    shown: options.Shown,
    **server: str | None,
) -> None:
    """Check how kube-scheduler calls the extender.

    Without --file, finds the kube-schedulers among the pods of the cluster of the kubeconfig, and their
    configurations in ConfigMaps; compares them with one another, with the API server's version, and with the
    calls in the log.

    A file may be a KubeSchedulerConfiguration, its ConfigMap, or what /configz answered. To ask a
    kube-scheduler that listens on its own loopback address:

    \b
    kubectl -n kube-system port-forward POD 10259
    topolog doctor scheduler --configz https://127.0.0.1:10259
    """
    from app.doctor.scheduler import catalog

    if reports.listed(catalog.CHECKS, shown):
        return
    loaded = settings.load(config, os.environ)
    home = options.home(loaded, namespace)
    results = examine(
        config,
        loaded,
        server,
        namespace=home,
        files=files,
        configz=configz,
        configz_ca=configz_ca or "",
        server_cert=server_cert,
    )
    reports.show("scheduler", loaded.cluster, results, shown)


def examine(
    config: str | None,
    loaded: settings.Settings,
    server: "Mapping[str, str | None]",
    *,
    namespace: str,
    files: "Sequence[str]" = (),
    configz: str | None = None,
    configz_ca: str = "",
    server_cert: str | None = None,
) -> list["doctor_checks.Result"]:
    """The results of all checks: of the files if there are any, else of the cluster."""
    from app.cli.doctor import inputs
    from app.doctor.scheduler import entry_checks, examination

    enabled = inputs.enabled(loaded)
    witness = inputs.Witness(config, server, namespace)
    certificate = pathlib.Path(server_cert) if server_cert else inputs.server_certificate(loaded)
    given = examination.Given(
        entry_checks.Expected(
            loaded.budgets.filter,
            loaded.budgets.bind,
            loaded.plugins.score_max,
            names=_names(certificate) if certificate else None,
        ),
        tuple(found for file in files for found in _read(file)),
        namespace=namespace,
        interested=lambda pod: bool(enabled.interested(pod)),
        called=witness.called,
        # Files are checked without an installation, unless one is named.
        log=witness if server["server"] or not files else None,
    )
    results: list[doctor_checks.Result] = []
    if configz:
        given, results = _asked(given, loaded, configz, configz_ca)
    return results + (examination.of_files(given) if files else _of_cluster(given, loaded))


def _read(file: str) -> list["configurations.SchedulerConfiguration"]:
    from app.doctor.scheduler import configurations

    try:
        if file == "-":
            return configurations.read(sys.stdin.buffer.read(), "standard input")
        return configurations.read(pathlib.Path(file).read_bytes(), file)
    except OSError as error:
        raise click.BadParameter(f"cannot read {file}: {error.strerror}", param_hint="--file") from error
    except configurations.Unreadable as error:
        raise click.BadParameter(str(error), param_hint="--file") from error


def _names(certificate: pathlib.Path) -> tuple[str, ...]:
    from cryptography import x509

    from app.serving.tls import certificate_checks

    try:
        return certificate_checks.hosts(x509.load_pem_x509_certificate(certificate.read_bytes()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise exits.Failed(
            exit_codes.SETTINGS, f"cannot read the certificate {certificate}: {reason}"
        ) from error


def _asked(
    given: "examination.Given", loaded: settings.Settings, url: str, ca: str
) -> tuple["examination.Given", list["doctor_checks.Result"]]:
    """What is given, with the running configuration; and what could not be seen of it."""
    from app.cli.doctor import inputs
    from app.doctor import api_reader
    from app.doctor.scheduler import catalog, configurations, configz, examination

    try:
        live = configz.ask(
            url, inputs.access(loaded), ca=ca, forward=lambda: examination.forward(inputs.reader(loaded))
        )
    except api_reader.Unseen as unseen:
        return given, [catalog.CURRENT.unsure(url, unseen.reason, fix=unseen.fix)]
    except configurations.Unreadable as error:
        return given, [
            catalog.CURRENT.unsure(url, str(error), fix="name the URL of kube-scheduler's secure port")
        ]
    return dataclasses.replace(given, live=(live,)), []


def _of_cluster(given: "examination.Given", loaded: settings.Settings) -> list["doctor_checks.Result"]:
    from app.cli.doctor import inputs
    from app.doctor import api_reader
    from app.doctor.scheduler import examination

    try:
        return examination.of_cluster(given, inputs.reader(loaded))
    except api_reader.Unseen as unseen:
        return examination.without_cluster(
            given, api_reader.Unseen(unseen.reason, f"{unseen.fix}; or add --file")
        )
