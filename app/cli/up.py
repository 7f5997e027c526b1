"""``topolog up``: runs all processes and a store on one machine."""

import pathlib
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

import click

from app import exit_codes, plugins, settings, telemetry
from app.cli import certs, exits, processes, supervisor
from app.framework import registry

_EXTENDER = "extender"


@click.command("up")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster. [kube.kubeconfig]")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig. [kube.context]")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Additional name or address by which kube-scheduler reaches this machine; may be repeated.",
)
@click.pass_obj
def up_command(
    config: str | None, kubeconfig: str | None, context: str | None, hosts: tuple[str, ...]
) -> None:
    """Run all processes on this machine for an existing cluster; stop with Ctrl-C.

    Starts a recorder, a controller, a compactor, an auditor, an extender and the dashboard for the cluster
    of a kubeconfig. Without store.url, also starts a Redis or Valkey server (store.embedded_dir sets where
    its data is kept). Without tls.*, creates certificates and prints their directory. Processes that exit
    are restarted; all end with this one, even if it is killed (on Linux).
    """
    given = {"TOPOLOG_KUBE_KUBECONFIG": kubeconfig, "TOPOLOG_KUBE_CONTEXT": context}
    changes = {name: value for name, value in given.items() if value}
    loaded = settings.load(None, processes.environment(config, changes))
    telemetry.configure(level=loaded.logging.level, form=loaded.logging.format, process="up")
    plugins.configured(loaded.plugins)
    _check_cluster(loaded)
    _check_ports(loaded)
    # Without TLS, requests to any other name than the loopback's are refused.
    names = _names(loaded, () if loaded.server.insecure else hosts)
    called = next(name for name in names if "*" not in name)
    changes |= _certificates(loaded, names)
    with _store(loaded) as url:
        environ = processes.environment(config, {**changes, "TOPOLOG_STORE_URL": url})
        # Validate the processes' settings before any of them is started.
        shared = processes.load_settings(environ)
        children = _children(shared, environ)
        group = supervisor.Supervisor(
            children,
            report=_report,
            invalid=lambda: _invalid(environ),
            moved=lambda: _record(shared, children),
        )
        _record(shared, children)
        try:
            code = group.run(ready=lambda: _announce(shared, children, called))
        finally:
            processes.forget_ports(shared.cluster)
    if code:
        _report(f"exited with code {code}")
    click.get_current_context().exit(code)


def _children(shared: settings.Settings, environ: dict[str, str]) -> list[supervisor.Child]:
    """The processes in start order, each with a separate health port."""

    def environment(offset: int) -> dict[str, str]:
        return {**environ, supervisor.HEALTH_PORT: str(shared.server.health_port + offset)}

    grace = shared.server.grace + 5.0
    return [
        supervisor.Child(
            name,
            [sys.executable, *processes.ARGUMENTS[command]],
            environment(offset),
            grace,
            bind=shared.server.bind,
        )
        for name, (command, offset) in processes.TOGETHER.items()
    ]


def _invalid(environ: dict[str, str]) -> str:
    """Why the settings are invalid for every process; empty if they are valid."""
    try:
        plugins.configured(processes.load_settings(environ).plugins)
    except (settings.SettingsRefused, registry.ConfigurationRefused, exits.Failed) as refused:
        return str(refused)
    return ""


def _check_cluster(loaded: settings.Settings) -> None:
    from app.kube import errors
    from app.kube.client import credentials

    try:
        host = credentials.find(loaded.kube.kubeconfig or None, loaded.kube.context or None).shown
    except errors.Misconfigured as error:
        raise exits.Failed(exit_codes.SETTINGS, str(error)) from error
    _report(f"cluster: {host}")


def _check_ports(loaded: settings.Settings) -> None:
    """Another `topolog up` would answer in place of this one, and be taken for it."""
    from app.serving import errors, ports

    bind = loaded.server.bind
    for name, port in (("server.port", loaded.server.port), ("view.port", loaded.view_port)):
        try:
            ports.open_port(name, bind, port).close()
        except errors.PortTaken as taken:
            also = "does another `topolog up` run? Stop it, or set another port"
            raise exits.Failed(exit_codes.PORT_IN_USE, f"{taken} ({also})") from taken
        except errors.BadOptions as refused:
            raise exits.Failed(exit_codes.SETTINGS, str(refused)) from refused


def _names(loaded: settings.Settings, hosts: tuple[str, ...]) -> list[str]:
    """The names and addresses of this machine; the first without ``*`` is for kube-scheduler."""
    usual = (processes.bound_address(loaded), socket.gethostname(), "localhost", "127.0.0.1")
    return [name for name in dict.fromkeys([*hosts, *usual]) if name]


def _certificates(loaded: settings.Settings, names: Sequence[str]) -> dict[str, str]:
    """Create certificates for this machine and return their variables; empty if the settings name some."""
    if loaded.server.insecure or loaded.tls.cert or loaded.tls.keystore_path:
        return {}
    from app.serving import errors
    from app.serving.tls import certificate_issuer

    folder = certs.default_directory(loaded.cluster)
    try:
        certificate_issuer.issue(folder, names, replace=certificate_issuer.Replace.SIGNED)
    except (errors.ServingError, OSError) as error:
        raise exits.Failed(exit_codes.SETTINGS, f"cannot create certificates in {folder}: {error}") from error
    _report(f"certificates: {folder} (scheduler, viewer, operator; used by topolog get and explain)")
    return {
        "TOPOLOG_TLS_CERT": str(folder / "server.crt"),
        "TOPOLOG_TLS_KEY": str(folder / "server.key"),
        "TOPOLOG_TLS_CA": str(folder / "ca.crt"),
    }


@contextmanager
def _store(loaded: settings.Settings) -> Iterator[str]:
    """The URL of the configured store, or of a server that runs until the block ends."""
    from app.store import errors, keys, schemas
    from app.store.server import connections, embedded

    directory = pathlib.Path(loaded.store.embedded_dir) if loaded.store.embedded_dir else None
    try:
        # Append-only even in a temporary directory: a restarted server keeps its data.
        server = (
            None
            if loaded.store.url
            else embedded.Server(directory, append_only=True, synced=loaded.store.synced, bound=True)
        )
        with _stopped_at_exit(server):
            url = server.url if server is not None else loaded.store.url
            schema = plugins.catalog().schema
            names = keys.Keys(loaded.cluster, schema.forms)
            client = connections.connect(url, timeout=loaded.store.socket_timeout, names=names)
            if server is not None:
                schemas.migrate(client, names, schema)
            elif advice := schemas.status(client, names).advice:
                raise exits.Failed(exit_codes.STORE, f"the store is not as this version needs it: {advice}")
            client.close()
            _report(f"store: {settings.current(loaded)['store.url'] or url}")
            with supervisor.keep_running(server, report=_report) if server is not None else nullcontext():
                yield url
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error


@contextmanager
def _stopped_at_exit(server: "supervisor.Restartable | None") -> Iterator[None]:
    """Stop the server, if any, when the block ends."""
    try:
        yield
    finally:
        if server is not None:
            server.stop()


def _record(shared: settings.Settings, children: Sequence[supervisor.Child]) -> None:
    """Let `topolog status` find the processes; without a folder for that it tries the usual ports."""
    with suppress(OSError):
        processes.record_ports(
            shared.cluster, [child.health_port for child in children if child.health_port is not None]
        )


def _announce(shared: settings.Settings, children: Sequence[supervisor.Child], host: str) -> bool:
    """Print the addresses once the extender is ready; returns whether they were printed.

    ``host``: this machine, as kube-scheduler has to name it.
    """
    import urllib3

    ports = {child.name: child.health_port for child in children}
    port = ports.pop(_EXTENDER)
    health = f"{processes.local_url(shared, port or 0)}/readyz"
    try:
        # urllib would send this to the proxy of the environment.
        if urllib3.request("GET", health, timeout=1.0, retries=False).status != 200:
            return False
    except urllib3.exceptions.HTTPError:
        return False
    scheme = "http" if shared.server.insecure else "https"
    _report("ready")
    extender = processes.url(scheme, host, shared.server.port)
    _report(f"  extender:  {extender}   (urlPrefix for kube-scheduler)")
    view = processes.local_url(shared, shared.view_port, scheme=scheme)
    _report(f"  dashboard: topolog dashboard   ({view}, role viewer)")
    _report(f"  health:    {health}, /metrics")
    _report("             " + ", ".join(f"{name} :{port}" for name, port in ports.items()))
    _report("  try:       topolog get nodes; topolog get pending; topolog explain NAMESPACE/POD")
    return True


def _report(line: str) -> None:
    click.echo(f"topolog up: {line}", err=True)
