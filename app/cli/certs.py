"""``topolog certs``: issues the certificates that a cluster needs."""

import os
import pathlib

import click

from app import clocks, exit_codes
from app.cli import exits
from app.cli.output import formats, tables


def default_directory(cluster: str) -> pathlib.Path:
    """Where ``topolog up`` creates certificates and ``get`` and ``explain`` find them.

    $XDG_STATE_HOME/topolog/CLUSTER/certs, usually under ~/.local/state; below / for a user without a home, as
    in a container.
    """
    home = os.path.expanduser("~")
    root = os.environ.get("XDG_STATE_HOME") or pathlib.Path("/" if home == "~" else home) / ".local" / "state"
    return pathlib.Path(root) / "topolog" / cluster / "certs"


@click.command("certs")
@click.argument("directory", type=click.Path(file_okay=False, path_type=pathlib.Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="DNS name or address by which kube-scheduler reaches the extender; may be repeated. Required, unless"
    " --renew finds names in DIRECTORY/server.crt.",
)
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(1, 36500), help="Days of validity."
)
@click.option(
    "--pkcs12",
    is_flag=True,
    help="Also write server.p12 and ca.p12, encrypted with the password in TLS_KEYSTORE_PASSWORD.",
)
@click.option(
    "--renew",
    "replace",
    flag_value="SIGNED",
    help="Replace the certificates that ca.crt has signed; keep the CA, and the names in server.crt beside"
    " those of --host.",
)
@click.option("--force", "replace", flag_value="ALL", help="Replace all existing files and create a new CA.")
@click.option(
    "--ca-key",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="Private key of DIRECTORY/ca.crt, if it is stored elsewhere.",
)
@formats.option()
def certs_command(
    directory: pathlib.Path,
    hosts: tuple[str, ...],
    days: int,
    pkcs12: bool,
    replace: str | None,
    ca_key: pathlib.Path | None,
    output: str,
) -> None:
    """Create a CA and certificates for the server, scheduler, viewer and operator in DIRECTORY.

    Existing files are replaced only with --renew or --force; otherwise the command lists them and exits
    with code 3. Running extenders reload changed files automatically. To drop a name from the certificate,
    delete server.crt and server.key before --renew. In a cluster, pass the names of the Services of extender
    and view:

    \b
    topolog certs ./certs --host topolog-extender.topolog-system.svc \\
                          --host topolog-view.topolog-system.svc
    """
    from app.serving import errors
    from app.serving.tls import certificate_issuer

    password = os.environ.get("TLS_KEYSTORE_PASSWORD") if pkcs12 else None
    if pkcs12 and not password:
        raise click.UsageError("--pkcs12 requires a password: set TLS_KEYSTORE_PASSWORD")
    if replace == "SIGNED" and not os.path.lexists(directory / "ca.crt"):
        raise click.BadParameter(
            f"{directory.absolute()} has no ca.crt to renew certificates of; without --renew a CA is created",
            param_hint="DIRECTORY",
        )
    try:
        issued = certificate_issuer.issue(
            directory,
            certificate_issuer.with_former_names(directory, hosts) if replace == "SIGNED" else hosts,
            days=days,
            password=password,
            replace=certificate_issuer.Replace[replace or "NOTHING"],
            authority_key=ca_key,
        )
    except errors.BadHost as error:
        raise click.BadParameter(str(error), param_hint="--host") from error
    except (errors.ServingError, OSError) as error:
        raise exits.Failed(exit_codes.SETTINGS, str(error)) from error
    expires = {name: clocks.rfc3339(when.timestamp()) for name, when in issued.expires.items()}
    if formats.is_document(output):
        files = {name: str(path) for name, path in issued.files.items()}
        formats.show_document(
            {
                "files": files,
                "expires": expires,
                "caKept": issued.authority_kept,
                "replaced": issued.replaced,
            },
            output,
        )
        return
    tables.show(
        ["FILE", "EXPIRES"],
        [(path, expires.get(name.rsplit(".", 1)[0])) for name, path in sorted(issued.files.items())],
    )
    if issued.replaced:
        click.echo(f"Replaced: {', '.join(issued.replaced)}")
    if issued.authority_kept:
        click.echo("The CA was kept: existing clients and servers trust the new certificates.")
