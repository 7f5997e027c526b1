"""``topolog status``: an installation on one screen."""

import os
import time
import typing

import click

from app import __version__, clocks, exit_codes, settings
from app.cli.client import api_client
from app.cli.doctor import options as doctor_options
from app.cli.output import colours, formats
from app.cli.status import screens

if typing.TYPE_CHECKING:
    from app.cli.doctor import inputs
    from app.doctor.run import overview


@click.command("status")
@doctor_options.process
@doctor_options.namespace
@api_client.server_options
@formats.option(formats.TEXT, default=formats.TEXT)
@colours.option
@click.pass_obj
def status_command(
    config: str | None,
    /,
    urls: tuple[str, ...],
    namespace: str | None,
    output: str,
    **server: str | None,
) -> None:
    """Show an installation on one screen: processes, store, certificates, audit, pending pods, plugins.

    Reads /readyz and /metrics of every process, and asks an extender. Ends with what needs attention: what
    `topolog doctor run` finds, which has the reasons and fixes.

    Exit code 1 if a part has a problem or could not be seen.
    """
    from app.cli.doctor import inputs
    from app.doctor import api_reader
    from app.doctor.run import examination, overview
    from app.framework import doctor_checks

    loaded = settings.load(config, os.environ)
    home = doctor_options.home(loaded, namespace)
    found = inputs.processes(loaded, urls, home)
    witness = inputs.Witness(config, server, home)
    now = time.time()
    leases = inputs.lease_namespace(loaded, found, home)
    results = list(examination.examine(found, witness.get, now, leases=leases))
    seen = [] if isinstance(found, api_reader.Unseen) else found
    document = {
        "topolog": __version__,
        "name": loaded.cluster,
        "at": clocks.rfc3339(now),
        **overview.document(seen, _answers(witness), results, now),
    }
    if formats.is_document(output):
        formats.show_document(document, output)
    else:
        for line in screens.lines(document):
            click.echo(line)
    if document["verdict"] in (doctor_checks.PROBLEM, doctor_checks.UNSURE):
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _answers(witness: "inputs.Witness") -> "overview.Answers":
    from app.doctor import api_reader
    from app.doctor.run import overview

    try:
        return overview.Answers(witness.get("/apis/v1/status"), witness.get("/apis/v1/consistency"))
    except api_reader.Unseen:
        return overview.Answers()  # The checks have it, with what to do.
