"""``topolog certs``: the certificates that a cluster needs."""

import os
import pathlib

import click

from app.cli import exits, tables


@click.command("certs", short_help="Make certificates for everybody.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=pathlib.Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    metavar="NAME",
    help="DNS name or address by which kube-scheduler reaches the extender; may be repeated.",
)
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(1), help="How long they are valid."
)
@click.option(
    "--pkcs12",
    is_flag=True,
    help="Also write server.p12 and ca.p12, with the password in the variable TLS_KEYSTORE_PASSWORD.",
)
@click.option(
    "--renew",
    "replace",
    flag_value="SIGNED",
    help="Replace what ca.crt has signed; keep the CA.",
)
@click.option("--force", "replace", flag_value="ALL", help="Replace everything that is there; make a new CA.")
@click.option(
    "--ca-key",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="The key of DIRECTORY/ca.crt, if it is kept elsewhere.",
)
@tables.output_option
def certs_command(
    directory: pathlib.Path,
    hosts: tuple[str, ...],
    days: int,
    pkcs12: bool,
    replace: str | None,
    ca_key: pathlib.Path | None,
    output: str,
) -> None:
    """Make a CA and certificates for the server, scheduler, viewer and operator in DIRECTORY.

    Nothing that exists is replaced unless --renew or --force is given: else the files are named, and the
    exit code is 3. Running extenders take up new files by themselves. In a cluster, give the Service's
    names:

    \b
    topolog certs ./certs --host topolog-extender.topolog-system.svc \\
                          --host topolog-extender.topolog-system.svc.cluster.local
    """
    from app.serving import errors, issuing

    password = os.environ.get("TLS_KEYSTORE_PASSWORD") if pkcs12 else None
    if pkcs12 and not password:
        raise click.UsageError("--pkcs12 needs a password: set the variable TLS_KEYSTORE_PASSWORD")
    try:
        issued = issuing.issue(
            directory,
            hosts,
            days=days,
            password=password,
            replace=issuing.Replace[replace or "NOTHING"],
            authority_key=ca_key,
        )
    except errors.BadHost as error:
        raise click.BadParameter(str(error), param_hint="--host") from error
    except (errors.ServingError, OSError) as error:
        raise exits.Failed(exits.SETTINGS, str(error)) from error
    expires = {name: when.strftime("%Y-%m-%dT%H:%M:%SZ") for name, when in issued.expires.items()}
    if output == tables.JSON:
        files = {name: str(path) for name, path in issued.files.items()}
        tables.show_json(
            {"files": files, "expires": expires, "caKept": issued.authority_kept, "replaced": issued.replaced}
        )
        return
    tables.show(
        ["FILE", "EXPIRES"],
        [(path, expires.get(name.rsplit(".", 1)[0])) for name, path in sorted(issued.files.items())],
    )
    if issued.replaced:
        click.echo(f"Replaced: {', '.join(issued.replaced)}")
    if issued.authority_kept:
        click.echo("The CA was kept: whoever trusted it before trusts the new certificates too.")
