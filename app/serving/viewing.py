"""Questions to the introspection are answered by a process of their own, beside the extender's.

A thread of Python that computes takes turns with all others of its process: a question that takes 10 ms costs
each call to a verb as much. So the extender's worker only checks the caller and hands the question over, by a
socket in a directory that nobody else may enter; the process at the other end has its own follower, a lower
priority, and no way into the verbs.
"""

import contextlib
import io
import os
import pathlib
import select
import shutil
import socket
import struct
import sys
import tempfile
import threading
import wsgiref.types
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog

from app.serving import gates, identities

NICENESS: Final = 10
"""Where there is no policy for idle time."""
ANSWER_SECONDS: Final = 30.0
"""How long a question may take; then its connection is given up."""
LOOK_SECONDS: Final = 0.5
BACKLOG: Final = 128
SHARED_MEMORY: Final = pathlib.Path("/dev/shm")
_LENGTH: Final = struct.Struct("!Q")

log = structlog.get_logger(__name__)


def in_memory() -> bool:
    """Return whether files can be kept in memory: a read-only container has no other place for them."""
    return SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)


def give_way() -> None:
    """Let this process run in the time that nothing else on the machine's cores asks for.

    A lower priority alone does not do: Linux lets a process that computes finish its slice of some
    milliseconds, which is more than a whole call of a verb takes. Only SCHED_IDLE is preempted at once.
    """
    os.nice(NICENESS)
    if sys.platform == "linux":
        # A container may forbid it; then the niceness has to do.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Question(msgspec.Struct, array_like=True):
    """A request, as the extender's worker read it."""

    environ: dict[str, str]
    identity: identities.Identity | None
    body: bytes


class Answer(msgspec.Struct, array_like=True):
    """What the application says to it."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


_encode = msgspec.msgpack.Encoder().encode
_question = msgspec.msgpack.Decoder(Question).decode
_answer = msgspec.msgpack.Decoder(Answer).decode


class Port:
    """Where the answering process listens; made in the master, so that both sides know it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # A directory of mode 0700: whoever can reach the socket counts as the extender's worker.
        self._directory = tempfile.mkdtemp(prefix="topolog-", dir=SHARED_MEMORY if in_memory() else None)
        self.path = os.path.join(self._directory, "view")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(BACKLOG)

    def close(self) -> None:
        """Close it; the process that made it removes the directory too."""
        self.listener.close()
        if os.getpid() == self._owner:
            shutil.rmtree(self._directory, ignore_errors=True)


class Remote:
    """A WSGI application that has the answering process answer; each thread keeps a connection to it."""

    def __init__(self, path: str, *, seconds: float = ANSWER_SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._mine = threading.local()

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Hand a question over and wait for the answer; 503 if there is none."""
        identity = environ.get(gates.IDENTITY)
        question = Question(
            {name: value for name, value in environ.items() if type(value) is str},
            identity if isinstance(identity, identities.Identity) else None,
            environ["wsgi.input"].read(),
        )
        try:
            answer = _answer(self._exchanged(_encode(question)))
        except OSError as error:
            self.close()
            log.warning("no answer from the introspection", path=environ["PATH_INFO"], reason=str(error))
            return _unavailable(start)
        start(answer.status, answer.headers)
        return [answer.body]

    def _exchanged(self, question: bytes) -> bytes:
        kept: socket.socket | None = getattr(self._mine, "connection", None)
        if kept is not None:
            # One that was closed meanwhile fails here, and the question was not at work yet.
            try:
                _send(kept, question)
            except ConnectionError:
                self.close()
            else:
                return _receive(kept)
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._mine.connection = fresh
        fresh.settimeout(self._seconds)
        fresh.connect(self._path)
        _send(fresh, question)
        return _receive(fresh)

    def close(self) -> None:
        """Close the connection of this thread."""
        kept: socket.socket | None = getattr(self._mine, "connection", None)
        if kept is not None:
            kept.close()
            self._mine.connection = None


class Answering:
    """The other end: answers what comes, in a thread for each connection of the extender's workers."""

    def __init__(self, listener: socket.socket, application: wsgiref.types.WSGIApplication) -> None:
        self._listener = listener
        self._application = application

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Answer for as long as `goes_on` says so; it is asked twice a second."""
        self._listener.setblocking(False)
        while goes_on():
            if select.select([self._listener], [], [], LOOK_SECONDS)[0]:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    connection, _ = self._listener.accept()
                    connection.setblocking(True)
                    threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while True:
                _send(connection, _encode(self._answered(_question(_receive(connection)))))

    def _answered(self, question: Question) -> Answer:
        environ: wsgiref.types.WSGIEnvironment = {
            **question.environ,
            "wsgi.version": (1, 0),
            "wsgi.input": io.BytesIO(question.body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        if question.identity is not None:
            environ[gates.IDENTITY] = question.identity
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(
            status: str, headers: list[tuple[str, str]], _: object = None, /
        ) -> Callable[[bytes], object]:
            started.append((status, headers))
            return lambda _: None

        try:
            answer = self._application(environ, start)
            try:
                body = b"".join(answer)
            finally:
                getattr(answer, "close", lambda: None)()
            status, headers = started[-1]
        except Exception:
            log.exception("a question could not be answered", path=question.environ.get("PATH_INFO"))
            status, headers, body = "500 Internal Server Error", [("Content-Type", "application/json")], FAULT
        return Answer(status, headers, body)


FAULT: Final = msgspec.json.encode(
    {"message": "a fault of the server; its log has the details", "reasonCode": "InternalError"}
)


def _unavailable(start: wsgiref.types.StartResponse) -> Iterable[bytes]:
    said = {
        "message": "the process that answers questions is not there, or takes too long: try again",
        "reasonCode": "Unavailable",
    }
    body = msgspec.json.encode(said)
    headers = [("Content-Type", "application/json"), ("Retry-After", "1")]
    start("503 Service Unavailable", [*headers, ("Content-Length", str(len(body)))])
    return [body]


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _receive(connection: socket.socket) -> bytes:
    """One message; raises ConnectionResetError at the end of the connection."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return bytes(_exactly(connection, length))


def _exactly(connection: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    with memoryview(data) as view:
        filled = 0
        while filled < length:
            received = connection.recv_into(view[filled:])
            if not received:
                raise ConnectionResetError("the other end closed the connection")
            filled += received
    return data
