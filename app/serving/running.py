"""The server process: gunicorn, set up from options alone.

A master process listens and keeps worker processes; the application is made in the worker, after the fork,
so that its threads and connections are the worker's own. `serve` does not return: it ends, in the master
and in the workers alike, by SystemExit.
"""

import contextlib
import dataclasses
import ipaddress
import logging
import resource
import socket
import ssl
import sys
import typing
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator

import structlog
from gunicorn import arbiter, glogging
from gunicorn.app import base

from app import settings
from app.serving import (
    accepting,
    bodies,
    contexts,
    deadlines,
    errors,
    gates,
    lifelines,
    metering,
    ports,
    probing,
    viewing,
)

if typing.TYPE_CHECKING:
    from gunicorn import config

MAX_CONNECTIONS = 2048
SWITCH_SECONDS = 0.0005
"""How long a thread that answers waits, after each read, for one at work behind the scenes; Python's own
5 ms would be several times the whole answer."""

log = structlog.get_logger(__name__)


def _nothing() -> None:
    """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Where and how to serve.

    host, port: where kube-scheduler and operators call. health_port: the plain port for probes and metrics;
    None for none. threads: how many verbs are worked on at a time in each worker; every bind that waits for
    the API server holds one. graceful_seconds: how long calls may go on after SIGTERM. insecure: plain HTTP
    and no identities, on the loopback. small_body: of bodies with more bytes, few are taken at a time.
    """

    host: str = "0.0.0.0"
    port: int = 8443
    health_host: str = "0.0.0.0"
    health_port: int | None = 8081
    threads: int = 64
    workers: int = 1
    graceful_seconds: int = 10
    insecure: bool = False
    small_body: int = 4 * 1024**2
    limits: deadlines.Deadlines = dataclasses.field(default_factory=deadlines.Deadlines)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What is served. Each is called in the worker.

    load: makes the application. health: makes the application of the plain port, after load.
    view: makes the application of one more process, which answers at `port`; None for none.
    started: called once the worker is about to serve, the place to start threads. stopping: called as it
    ends.
    """

    load: Callable[[], gates.Gate]
    health: Callable[[], wsgiref.types.WSGIApplication] | None = None
    view: Callable[[], wsgiref.types.WSGIApplication] | None = None
    started: Callable[[], None] = _nothing
    stopping: Callable[[], None] = _nothing
    port: viewing.Port | None = None


def serve(
    options: Options,
    parts: Parts,
    *,
    rotating: contexts.Rotating | None,
    meter: metering.Meter | None = None,
) -> typing.NoReturn:
    """Serve until a signal says otherwise, then raise SystemExit. Before that: ServingError.

    `rotating` holds the TLS material; None only with `options.insecure`.
    """
    with contextlib.closing(parts.port) if parts.port is not None else contextlib.nullcontext():
        check(options, rotating)
        listener = _health_listener(options) if parts.health else None
        application = Application(options, parts, rotating, meter or metering.Meter(rotating), listener)
        arbiter.Arbiter(application).run()
        raise SystemExit(0)


@contextlib.contextmanager
def probed(options: Options, application: wsgiref.types.WSGIApplication) -> Iterator[None]:
    """Serve the plain port alone while the block runs, before ``serve``. Raises BadOptions."""
    listener = _health_listener(options)
    if listener is None:
        yield
        return
    with listener:
        prober = probing.Prober(listener, application)
        prober.start()
        try:
            yield
        finally:
            prober.stop(wait=True)


def options_of(server: settings.Server, limits: settings.Limits | None = None) -> Options:
    """Return the options that settings ask for."""
    return Options(
        host=server.bind,
        port=server.port,
        health_host=server.bind,
        health_port=server.health_port,
        threads=server.threads,
        workers=server.workers,
        graceful_seconds=server.grace,
        insecure=server.insecure,
        small_body=(limits or settings.Limits()).names_body,
        limits=deadlines.Deadlines(age=server.connection_age),
    )


def check(options: Options, rotating: contexts.Rotating | None) -> None:
    """Refuse options that would serve without identities by mistake, with BadOptions."""
    if rotating is not None and options.insecure:
        raise errors.BadOptions("insecure serving and TLS files are both asked for: choose one")
    if rotating is None and not options.insecure:
        raise errors.BadOptions(
            "there are no TLS files to serve with: make some with `topolog certs`,"
            " or ask for insecure serving on the loopback"
        )
    if options.insecure and not _is_loopback(options.host):
        raise errors.BadOptions(
            f"insecure serving is for the loopback, not for {options.host}:"
            " whoever reaches the port could call"
        )
    if options.threads < 1 or options.workers < 1:
        raise errors.BadOptions("a server needs at least one worker and one thread")


class Application(base.BaseApplication):
    """gunicorn's view of the server. The worker finds `meter`, `limits` and `turnstile` here."""

    cfg: "config.Config"

    def __init__(
        self,
        options: Options,
        parts: Parts,
        rotating: contexts.Rotating | None,
        meter: metering.Meter,
        health_listener: socket.socket | None,
    ) -> None:
        self.meter = meter
        self.limits = options.limits
        self.turnstile = bodies.Turnstile(above=options.small_body)
        self.port = parts.port
        self.viewing = False
        """Set in a worker that is the one for the questions."""
        self._options = options
        self._parts = parts
        self._rotating = rotating
        self._health_listener = health_listener
        self._prober: probing.Prober | None = None
        self._lifeline = lifelines.Lifeline()
        super().__init__()

    def load_config(self) -> None:
        """Set gunicorn's settings; nothing is read from files or the environment."""
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        settings: dict[str, object] = {
            "bind": [f"{host}:{options.port}"],
            "worker_class": accepting.Worker,
            "workers": options.workers + (self._parts.view is not None),
            "pre_fork": self._forking,
            "threads": options.threads,
            "worker_connections": max_connections(options.threads),
            "keepalive": options.limits.idle,
            "graceful_timeout": options.graceful_seconds,
            "logger_class": Logger,
            "post_fork": self._forked,
            "post_worker_init": self._started,
            "worker_exit": self._stopping,
            # A socket in the home directory, for a command that is not used: a read-only
            # container has no place for it.
            "control_socket_disable": True,
            # Nobody is believed about the path, the scheme or the address of somebody else.
            "forwarded_allow_ips": "",
            "proxy_allow_ips": "",
            "proc_name": "topolog-extender",
        }
        if viewing.in_memory():
            # The file by which the master sees that a worker lives: never on a disk.
            settings["worker_tmp_dir"] = str(viewing.SHARED_MEMORY)
        if self._rotating is not None:
            settings["certfile"] = str(self._rotating.source.certificate)
            settings["ssl_context"] = self._context
            settings["do_handshake_on_connect"] = False
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Iterable[bytes]]:
        """Make the application, in the worker."""
        return self._parts.view() if self.viewing and self._parts.view else self._parts.load()

    def _forking(self, master: arbiter.Arbiter, worker: accepting.Worker) -> None:
        """Say which of the workers is the one for the questions: the last one, whenever it is replaced."""
        others = typing.cast(Iterable[accepting.Worker], master.WORKERS.values())
        serving = sum(not each.viewing for each in others)
        worker.viewing = self._parts.view is not None and serving >= self._options.workers

    def _context(self, _: object, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        if self._rotating is None:
            raise errors.BadOptions("there are no TLS files to serve with")
        return self._rotating.current()

    def _forked(self, _: object, __: object) -> None:
        self._lifeline.hold()

    def _started(self, _: object) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._parts.started()
        if self._parts.health and self._health_listener and not self.viewing:
            self._prober = probing.Prober(self._health_listener, self._parts.health())
            self._prober.start()

    def _stopping(self, _: object, __: object) -> None:
        if self._prober:
            self._prober.stop()
        self._parts.stopping()


class Logger(glogging.Logger):
    """Sends gunicorn's own lines where all others go. No access log: each call logs its one line."""

    def setup(self, cfg: "config.Config") -> None:
        """Leave handlers and format to the process."""
        self.error_log = logging.getLogger("topolog.gunicorn")
        self.access_log = logging.getLogger("topolog.gunicorn.access")

    def access(self, *_: object) -> None:
        """Write nothing."""


def max_connections(threads: int) -> int:
    """Return how many connections a worker may hold: half of the descriptors that the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS
    if soft < wanted and (hard == resource.RLIM_INFINITY or hard > soft):
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    allowed = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft // 2
    return max(threads + 1, min(MAX_CONNECTIONS, allowed))


def _health_listener(options: Options) -> socket.socket | None:
    if options.health_port is None:
        return None
    host, port = options.health_host, options.health_port
    try:
        listener = ports.opened(lambda: probing.listen(host, port), f"server.health_port {host}:{port}")
    except OSError as error:
        raise errors.BadOptions(
            f"the health port {host}:{port} cannot be opened: {error.strerror}"
        ) from error
    log.info("probes and metrics", address=listener.getsockname()[:2])
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
