"""``topolog up``: all processes and a store, on one machine, under one Ctrl-C."""

import http.client
import pathlib
import socket
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import click

from app import plugins, settings, telemetry
from app.cli import exits, families, places, processes
from app.framework import configuring, registry

_EXTENDER = "extender"


@click.command("up", short_help="Run it all beside a cluster, on this machine.")
@click.option("--kubeconfig", metavar="FILE", help="The cluster. [kube.kubeconfig]")
@click.option("--context", metavar="NAME", help="The kubeconfig's context. [kube.context]")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further name or address by which kube-scheduler reaches this machine; may be repeated.",
)
@click.pass_obj
def up_command(
    config: str | None, kubeconfig: str | None, context: str | None, hosts: tuple[str, ...]
) -> None:
    """Run Topolog beside a cluster, on this machine; Ctrl-C ends all of it.

    Starts a recorder, a controller, a compactor, an auditor and an extender against a kubeconfig. Without
    store.url it starts a Redis or Valkey server too, whose data lasts as long as store.embedded_dir
    says. Without tls.* it makes certificates and says where they are. A process that dies is started
    again.
    """
    given = {"TOPOLOG_KUBE_KUBECONFIG": kubeconfig, "TOPOLOG_KUBE_CONTEXT": context}
    changes = {name: value for name, value in given.items() if value}
    chosen = settings.load(None, processes.environment(config, changes))
    telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process="up")
    _check_plugins(chosen)
    _check_cluster(chosen)
    changes |= _certificates(chosen, hosts)
    with _store(chosen) as url:
        environ = processes.environment(config, {**changes, "TOPOLOG_STORE_URL": url})
        # What is told to the processes is checked before any of them is started.
        told = processes.told(environ)
        children = _children(told, environ)
        family = families.Family(children, say=_say, refused=lambda: _refused(environ))
        code = family.run(ready=lambda: _announce(told, children))
    if code:
        _say(f"ended with exit code {code}")
    click.get_current_context().exit(code)


def _children(told: settings.Settings, environ: dict[str, str]) -> list[families.Child]:
    """In the order in which they start; each has a health port of its own."""

    def environment(at: int) -> dict[str, str]:
        return {**environ, families.HEALTH_PORT: str(told.server.health_port + at)}

    grace = told.server.grace + 5.0
    commands = {
        "recorder": (processes.RECORDER, 1),
        "controller": (processes.CONTROLLER, 2),
        "compactor": (processes.COMPACTOR, 3),
        "auditor": (processes.AUDITOR, 4),
        _EXTENDER: (processes.EXTENDER, 0),
    }
    return [
        families.Child(name, [sys.executable, *command], environment(at), grace, bind=told.server.bind)
        for name, (command, at) in commands.items()
    ]


def _check_plugins(chosen: settings.Settings) -> None:
    """Raises ConfigurationRefused."""
    configuring.build(
        plugins.IN_TREE,
        enabled=chosen.plugins.enabled,
        weights=chosen.plugins.weights,
        score_max=chosen.plugins.score_max,
        args=chosen.plugins.args,
    )


def _refused(environ: dict[str, str]) -> str:
    """Why the settings, as they are read now, are wrong for every process; empty if they are not."""
    try:
        _check_plugins(processes.told(environ))
    except (settings.SettingsRefused, registry.ConfigurationRefused, exits.Failed) as refused:
        return str(refused)
    return ""


def _check_cluster(chosen: settings.Settings) -> None:
    from app.kube import accessing, errors

    try:
        host = accessing.find(chosen.kube.kubeconfig or None, chosen.kube.context or None).shown
    except errors.KubeError as error:
        raise exits.Failed(exits.AWAY, str(error)) from error
    _say(f"cluster: {host}")


def _certificates(chosen: settings.Settings, hosts: tuple[str, ...]) -> dict[str, str]:
    """The variables that name the certificates made for this machine; none if the settings name some."""
    if chosen.server.insecure or chosen.tls.cert or chosen.tls.keystore_path:
        return {}
    from app.serving import errors, issuing

    folder = places.certificates(chosen.cluster)
    names = dict.fromkeys([*hosts, socket.gethostname(), "localhost", "127.0.0.1"])
    try:
        issuing.issue(folder, [name for name in names if name], replace=issuing.Replace.SIGNED)
    except (errors.ServingError, OSError) as error:
        raise exits.Failed(exits.SETTINGS, f"cannot make certificates in {folder}: {error}") from error
    _say(f"certificates: {folder} (scheduler, viewer, operator; topolog get and explain find them there)")
    return {
        "TOPOLOG_TLS_CERT": str(folder / "server.crt"),
        "TOPOLOG_TLS_KEY": str(folder / "server.key"),
        "TOPOLOG_TLS_CA": str(folder / "ca.crt"),
    }


@contextmanager
def _store(chosen: settings.Settings) -> Iterator[str]:
    """The URL of the store: the one of the settings, or that of a server that ends with us."""
    from app.store import connecting, embedded, errors, keys, opening

    directory = pathlib.Path(chosen.store.embedded_dir) if chosen.store.embedded_dir else None
    try:
        # Append-only even where it is temporary: a server that died comes back with what it had.
        server = None if chosen.store.url else embedded.Server(directory, append_only=True)
        with server_ends(server):
            url = server.url if server is not None else chosen.store.url
            names = keys.Keys(chosen.cluster)
            client = connecting.connect(url, timeout=chosen.store.socket_timeout, names=names)
            if server is not None:
                opening.migrate(client, names)
            elif not opening.status(client, names).ready:
                raise exits.Failed(
                    exits.STORE, "the store does not have this version's schema: run `topolog migrate up`"
                )
            client.close()
            _say(f"store: {settings.current(chosen)['store.url'] or url}")
            with families.kept_alive(server, say=_say) if server is not None else nullcontext():
                yield url
    except errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error


@contextmanager
def server_ends(server: "families.Restartable | None") -> Iterator[None]:
    """End the server, if there is one, when the block ends."""
    try:
        yield
    finally:
        if server is not None:
            server.stop()


def _announce(told: settings.Settings, children: Sequence[families.Child]) -> bool:
    """Say where things are once the extender is ready; True when that was said."""
    ports = {child.name: child.health_port for child in children}
    port = ports.pop(_EXTENDER)
    local = told.server.bind if told.server.bind not in ("0.0.0.0", "::") else "127.0.0.1"
    try:
        urllib.request.urlopen(f"http://{local}:{port}/readyz", timeout=1).close()
    except (OSError, ValueError, http.client.HTTPException):
        return False
    scheme = "http" if told.server.insecure else "https"
    _say("ready")
    _say(f"  extender:  {scheme}://{told.server.bind}:{told.server.port}   (urlPrefix for kube-scheduler)")
    _say(f"  health:    http://{local}:{port}/readyz, /metrics")
    _say("             " + ", ".join(f"{name} :{port}" for name, port in ports.items()))
    _say("  try:       topolog get nodes; topolog get pending; topolog explain NAMESPACE/POD")
    return True


def _say(line: str) -> None:
    click.echo(f"topolog up: {line}", err=True)
    sys.stderr.flush()
