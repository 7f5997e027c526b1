"""``topolog bootstrap``: makes the certificates and passwords of an installation, as Secrets."""

import datetime
import os
import pathlib
import re
import select
import signal
import sys
import typing
from collections.abc import Callable

import click
import yaml

from app import exit_codes, interrupts, settings
from app.cli import exits
from app.cli.output import formats, tables

if typing.TYPE_CHECKING:
    from app.kube.client import clients
    from app.provisioning import provisioners

_YAML = "yaml"
_SERVER = re.compile(r"rediss?://[A-Za-z0-9.-]+:[0-9]+(/[0-9]+)?")
_ROLE = "the Role topolog-bootstrap (deploy/components/bootstrap) has every right that this command needs"


@click.command("bootstrap")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace of the installation.  [default: that of the pod or of the kubeconfig's context]",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further DNS name or address of the extender, beside those of the Services topolog-extender and"
    " topolog-view; may be repeated.",
)
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(1, 36500), help="Days of validity."
)
@click.option(
    "--store-url",
    metavar="redis://HOST:PORT",
    default="",
    help="Address of the bundled store: also create its users' passwords.",
)
@click.option(
    "--store-tls",
    is_flag=True,
    help="The bundled store has TLS: also create its certificate, and make it read a renewed one.",
)
@click.option(
    "--certificates/--no-certificates",
    default=True,
    help="Also create CA and certificates; not where cert-manager does.  [default: certificates]",
)
@click.option(
    "--ca",
    "step",
    type=click.Choice(["announce", "take-over", "drop"]),
    help="Take a step of the CA's replacement now: make a following CA that every Secret trusts, let it sign,"
    " or trust the former one no longer.",
)
@click.option(
    "--passwords",
    "password_step",
    type=click.Choice(["announce", "take-over", "drop"]),
    help="Take a step of the replacement of the bundled store's passwords, and nothing else: make following"
    " ones, let them take over, or refuse the former ones.",
)
@click.option(
    "--from",
    "folder",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    help="Create the certificates' Secrets from the files of `topolog certs` in this directory.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--every",
    "seconds",
    metavar="SECONDS",
    type=click.IntRange(1),
    help="Repeat until SIGTERM, and end at the first run that fails.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice([formats.TABLE, formats.JSON, _YAML]),
    default=formats.TABLE,
    show_default=True,
    help="Output format; yaml prints the Secrets that --dry-run would write, with their private keys.",
)
@click.pass_obj
def bootstrap_command(
    config: str | None,
    namespace: str | None,
    hosts: tuple[str, ...],
    days: int,
    store_url: str,
    store_tls: bool,
    certificates: bool,
    step: str | None,
    password_step: str | None,
    folder: pathlib.Path | None,
    dry_run: bool,
    seconds: int | None,
    output: str,
) -> None:
    """Create the CA, certificates and store passwords that the manifests in deploy/ refer to, as Secrets.

    What is complete is kept, so the command may be repeated, be killed at any moment, and run twice at
    once. A certificate is renewed after two thirds of its life, and the CA gets a successor that every
    Secret trusts long before it signs. A Secret that this command did not create
    is used as it is, and never changed. --from creates Secrets from files, which a later --from replaces and
    nothing here renews. Exit code 1 if a Secret is unusable and the command may not replace
    it; the other Secrets are complete then.

    In a cluster, the Deployment topolog-bootstrap runs this once an hour. By hand:

    \b
    topolog bootstrap -n topolog-system --dry-run
    """
    from app.kube import errors
    from app.kube.client import clients
    from app.provisioning import authorities, password_steps, provisioners
    from app.provisioning import certificates as issued

    if step and (seconds or not certificates):
        raise click.UsageError("--ca takes one step: leave out --every and --no-certificates")
    if password_step and (seconds or step or folder):
        raise click.UsageError("--passwords takes one step: leave out --every, --ca and --from")
    if folder and (seconds or step or not certificates):
        raise click.UsageError("--from reads certificates: leave out --every, --ca and --no-certificates")
    if output == _YAML and not dry_run:
        raise click.UsageError("-o yaml prints what --dry-run would write: add --dry-run")
    if store_url and not _SERVER.fullmatch(store_url):
        raise click.BadParameter("the form is redis://HOST:PORT, without a user", param_hint="--store-url")
    if store_tls and not store_url:
        raise click.UsageError("--store-tls needs the address of the store: add --store-url")
    loaded = settings.load(config, os.environ)
    done = _waiting_for_sigterm(seconds) if seconds else lambda: True
    try:
        client = clients.connect(loaded.kube.kubeconfig or None, loaded.kube.context or None)
        space = namespace or client.namespace
        names, of_store = _hosts(space, hosts), _store_hosts(space, store_url) if store_tls else []
        while True:
            now = datetime.datetime.now(datetime.UTC)
            replaced = authorities.AuthorityStep(step) if step else None
            terms = issued.Terms(
                names, days, now, authority_step=replaced, store_hosts=of_store, namespace=space
            )
            plan = provisioners.Plan(
                loaded.cluster,
                terms,
                store_url,
                certificates,
                folder,
                password_steps.PasswordStep(password_step) if password_step else None,
            )
            _run(client, space, plan, dry_run=dry_run, output=output)
            if done():
                return
    except errors.ApiError as error:
        hint = f": {_ROLE}" if error.status == 403 else ""
        raise exits.Failed(exit_codes.UNREACHABLE, f"{error}{hint}") from error
    except errors.Misconfigured as error:
        raise exits.Failed(exit_codes.SETTINGS, str(error)) from error
    except (errors.KubeError, provisioners.Contended) as error:
        raise exits.Failed(exit_codes.UNREACHABLE, str(error)) from error


def _waiting_for_sigterm(seconds: float) -> Callable[[], bool]:
    """Return a wait of so many seconds, which returns true, and early, once SIGTERM has arrived.

    Without a handler the first process of a container does not receive SIGTERM.
    """
    arrived = interrupts.pipe(signal.SIGTERM)
    return lambda: bool(select.select((arrived,), (), (), seconds)[0])


def _run(
    client: "clients.Client", namespace: str, plan: "provisioners.Plan", *, dry_run: bool, output: str
) -> None:
    from app.kube.writes import secrets
    from app.provisioning import decisions, provisioners, store_certificates

    access = secrets.Secrets(client, namespace)
    dry = provisioners.DryRun(access)
    results = provisioners.provision(dry if dry_run else access, plan)
    if plan.terms.store_hosts and not dry_run and not plan.password_step:
        results = store_certificates.taken_up(access, results)
    if output == _YAML:
        manifests = [each.as_object(namespace) for each in dry.written.values()]
        click.echo(yaml.safe_dump_all(manifests, sort_keys=False), nl=False)
    elif formats.is_document(output):
        items = [{"secret": one.name, "outcome": one.outcome, "detail": one.detail} for one in results]
        formats.show_document({"namespace": namespace, "dryRun": dry_run, "secrets": items})
    else:
        what = "WOULD BE" if dry_run else "OUTCOME"
        tables.show(["SECRET", what, "DETAIL"], [(one.name, one.outcome, one.detail) for one in results])
    sys.stdout.flush()
    if refused := [one for one in results if one.outcome is decisions.Outcome.REFUSED]:
        problems = "; ".join(f"Secret {namespace}/{one.name} {one.detail}" for one in refused)
        raise exits.Failed(exit_codes.NEGATIVE, problems)


def _hosts(namespace: str, further: tuple[str, ...]) -> list[str]:
    """The names of both Services, and the further ones. Raises BadParameter."""
    from app.serving import errors
    from app.serving.tls import certificate_issuer

    services = [f"{name}.{namespace}.svc" for name in ("topolog-extender", "topolog-view")]
    names = [*(f"{each}{domain}" for each in services for domain in ("", ".cluster.local")), *further]
    try:
        certificate_issuer.alternative_names(names)
    except errors.BadHost as error:
        raise click.BadParameter(str(error), param_hint="--host") from error
    return names


def _store_hosts(namespace: str, url: str) -> list[str]:
    """The names of the store, as its certificate has them: a name without a domain is that of a Service."""
    host = url.partition("://")[2].partition(":")[0]
    service = f"{host}.{namespace}.svc"
    return [host] if "." in host else [host, service, f"{service}.cluster.local"]
