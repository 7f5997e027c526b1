"""Runs gunicorn, configured by options only.

A master process listens and supervises workers. The application is created in the worker, after the fork, so
that its threads and connections belong to the worker. `serve` does not return: it raises SystemExit, in the
master and in the workers.
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
    errors,
    gunicorn_master,
    gunicorn_worker,
    introspection,
    parent_exit,
    ports,
    probe_server,
)
from app.serving.access import authorization
from app.serving.http import bodies, conn_metrics, deadlines
from app.serving.tls import rotation

if typing.TYPE_CHECKING:
    from gunicorn import config

MAX_CONNECTIONS = 2048
SWITCH_SECONDS = 0.0005
"""Seconds after which a waiting thread gets the interpreter from a computing one; Python's default of 5 ms
is several times the duration of a call."""

log = structlog.get_logger(__name__)


def _nothing() -> None:
    """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Options of the server.

    host, port: the address for kube-scheduler and operators, as of ports.listen; setting: that of the port.
    health_port: the plain port for probes and metrics, or None. threads: concurrent verbs per worker; a bind
    that waits for the API server occupies one.
    introspection_threads: concurrent requests to the introspection API per worker.
    graceful_seconds: time for calls in flight after SIGTERM. insecure: plain HTTP without identities, on the
    loopback. small_body: size in bytes above which few bodies are processed concurrently.
    """

    host: str = ""
    port: int = 8443
    setting: str = "server.port"
    health_host: str = ""
    health_port: int | None = 8081
    threads: int = 64
    introspection_threads: int = gunicorn_worker.INTROSPECTION_THREADS
    workers: int = 1
    graceful_seconds: int = 10
    insecure: bool = False
    small_body: int = 4 * 1024**2
    limits: deadlines.Deadlines = dataclasses.field(default_factory=deadlines.Deadlines)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The served applications. Each callable runs in the worker.

    load: creates the application. health: creates the application of the plain port, after load.
    load_introspection: creates the application of an additional process, which listens at `port`; or None.
    started: called before the worker serves, to start threads. stopping: called when the worker exits.
    """

    load: Callable[[], authorization.Middleware]
    health: Callable[[], wsgiref.types.WSGIApplication] | None = None
    load_introspection: Callable[[], wsgiref.types.WSGIApplication] | None = None
    started: Callable[[], None] = _nothing
    stopping: Callable[[], None] = _nothing
    port: introspection.Endpoint | None = None


def serve(
    options: Options,
    parts: Parts,
    *,
    rotating: rotation.RotatingContext | None,
    meter: conn_metrics.ConnectionMetrics | None = None,
) -> typing.NoReturn:
    """Serve until a signal arrives, then raise SystemExit. Raises ServingError before serving.

    `rotating` holds the TLS material; None only with `options.insecure`.
    """
    with contextlib.closing(parts.port) if parts.port is not None else contextlib.nullcontext():
        check(options, rotating)
        with ports.open_port(options.setting, options.host, options.port) as listener:
            health = _health_listener(options) if parts.health else None
            meter = meter or conn_metrics.ConnectionMetrics(rotating)
            application = Application(options, parts, rotating, meter, listener, health)
        gunicorn_master.Master(application).run()
        raise SystemExit(0)


@contextlib.contextmanager
def serving_probes(options: Options, application: wsgiref.types.WSGIApplication) -> Iterator[None]:
    """Serve only the plain port while the block runs, before ``serve``. Raises BadOptions."""
    listener = _health_listener(options)
    if listener is None:
        yield
        return
    with probe_server.serving(listener, application):
        yield


def options_from(
    server: settings.Server,
    limits: settings.Limits | None = None,
    *,
    port: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
) -> Options:
    """Return the options of the settings, some of them replaced."""
    return Options(
        host=server.bind,
        port=port or server.port,
        health_host=server.bind,
        health_port=server.health_port,
        threads=threads or server.threads,
        workers=workers or server.workers,
        graceful_seconds=server.grace,
        insecure=server.insecure,
        small_body=(limits or settings.Limits()).names_body,
        limits=deadlines.Deadlines(age=server.connection_age),
    )


def check(options: Options, rotating: rotation.RotatingContext | None) -> None:
    """Raise BadOptions for options that would serve without identities by mistake."""
    if rotating is not None and options.insecure:
        raise errors.BadOptions("server.insecure and TLS files are both set: choose one")
    if rotating is None and not options.insecure:
        raise errors.BadOptions(
            "no TLS files are set: create them with `topolog certs` and set tls.*,"
            " or set server.insecure on a loopback address"
        )
    if options.insecure and not _is_loopback(options.host):
        raise errors.BadOptions(
            f"server.insecure requires a loopback address, not {options.host or 'all interfaces'}:"
            " any client of the port would be authorized"
        )
    if options.threads < 1 or options.workers < 1:
        raise errors.BadOptions("a server needs at least one worker and one thread")


class Application(base.BaseApplication):
    """gunicorn's application object; workers read `meter`, `limits` and the limiters from it."""

    cfg: "config.Config"

    def __init__(
        self,
        options: Options,
        parts: Parts,
        rotating: rotation.RotatingContext | None,
        meter: conn_metrics.ConnectionMetrics,
        listener: socket.socket,
        health_listener: socket.socket | None,
    ) -> None:
        self.meter = meter
        self.limits = options.limits
        self.verb_limiter = bodies.BodyLimiter(above=options.small_body)
        self.other_limiter = bodies.BodyLimiter(0, above=bodies.QUESTION, budget=bodies.OTHER_BUDGET)
        self.introspection_threads = options.introspection_threads
        self.port = parts.port
        self.serves_introspection = False
        """Set in the worker that serves the introspection API."""
        self._options = options
        self._parts = parts
        self._rotating = rotating
        # gunicorn closes the descriptor that it is given. It would wait for a port in use, and exit with 1.
        self._listener = listener.detach()
        self._health_listener = health_listener
        self._probes: probe_server.ProbeServer | None = None
        self._parent_watch = parent_exit.ParentWatch()
        super().__init__()

    def load_config(self) -> None:
        """Set gunicorn's settings; files and the environment are not read."""
        options = self._options
        settings: dict[str, object] = {
            "bind": [f"fd://{self._listener}"],
            "worker_class": gunicorn_worker.ExtenderWorker,
            "workers": options.workers + (self._parts.load_introspection is not None),
            "pre_fork": self._pre_fork,
            "threads": options.threads,
            "worker_connections": max_connections(options.threads),
            "keepalive": options.limits.idle,
            "graceful_timeout": options.graceful_seconds,
            "logger_class": Logger,
            "post_fork": self._post_fork,
            "post_worker_init": self._started,
            "worker_exit": self._stopping,
            # gunicorn's control socket in the home directory is not used; a read-only container
            # cannot create it.
            "control_socket_disable": True,
            # Forwarded headers are not trusted.
            "forwarded_allow_ips": "",
            "proxy_allow_ips": "",
            "proc_name": "topolog-extender",
        }
        if introspection.shared_memory_available():
            # The heartbeat file of a worker: never on a disk.
            settings["worker_tmp_dir"] = str(introspection.SHARED_MEMORY)
        if self._rotating is not None:
            settings["certfile"] = str(self._rotating.source.certificate)
            settings["ssl_context"] = self._context
            settings["do_handshake_on_connect"] = False
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Iterable[bytes]]:
        """Create the application, in the worker."""
        other = self._parts.load_introspection if self.serves_introspection else None
        return other() if other is not None else self._parts.load()

    def _pre_fork(self, master: arbiter.Arbiter, worker: gunicorn_worker.ExtenderWorker) -> None:
        """Assign the introspection API to the last worker, also when that one is replaced."""
        others = typing.cast(Iterable[gunicorn_worker.ExtenderWorker], master.WORKERS.values())
        serving = sum(not each.serves_introspection for each in others)
        worker.serves_introspection = (
            self._parts.load_introspection is not None and serving >= self._options.workers
        )

    def _context(self, _: object, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        if self._rotating is None:
            raise errors.BadOptions("no TLS files are set")
        return self._rotating.current()

    def _post_fork(self, _: object, worker: gunicorn_worker.ExtenderWorker) -> None:
        self.serves_introspection = worker.serves_introspection
        self._parent_watch.watch()

    def _started(self, _: object) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._parts.started()
        if self._parts.health and self._health_listener and not self.serves_introspection:
            self._probes = probe_server.ProbeServer(self._health_listener, self._parts.health())
            self._probes.start()

    def _stopping(self, _: object, __: object) -> None:
        if self._probes:
            self._probes.stop()
        self._parts.stopping()


class Logger(glogging.Logger):
    """Routes gunicorn's lines to the process's log; without access log, as each call is logged anyway."""

    def setup(self, cfg: "config.Config") -> None:
        """Use the process's handlers and format."""
        self.error_log = logging.getLogger("topolog.gunicorn")
        self.access_log = logging.getLogger("topolog.gunicorn.access")

    def access(self, *_: object) -> None:
        """Write nothing."""


def max_connections(threads: int) -> int:
    """Return the maximum number of connections per worker: half of the process's file descriptors."""
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
    listener = ports.open_port("server.health_port", options.health_host, options.health_port)
    log.info("serving probes and metrics", address=listener.getsockname()[:2])
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
