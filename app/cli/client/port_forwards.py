"""Reaches an extender or the view by the kubeconfig: kubectl forwards a port, a Secret has the certificate.

The way there (SPDY or WebSockets, proxies, exec plugins for credentials) is kubectl's own. The certificate is
that of a role, if the user may read its Secret; it is written to a directory that only this user can
read, and that is removed when the command ends, and by the next command if this one is killed.
"""

import base64
import binascii
import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final, Self

from app import interrupts, settings, temporary_folders

if TYPE_CHECKING:
    from app.doctor import api_reader

_SECRETS: Final = "topolog-{role}-tls"
_PORTS: Final = {"extender": 8443, "view": 8444}
"""Component -> port of its pods (deploy/)."""
_END: Final = 1.0
"""Seconds in which kubectl ends after it has lost its pod."""
_ERRORS: Final = 3
"""Lines of kubectl that are kept, for a message."""
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


class NotFound(Exception):
    """No such process can be reached in this way; the message has the reason."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    kubeconfig: str
    context: str
    namespace: str

    @property
    def arguments(self) -> list[str]:
        """The arguments of kubectl that select it."""
        named = {"--context": self.context, "--namespace": self.namespace}
        return [part for name, value in named.items() if value for part in (name, value)]

    @property
    def environ(self) -> dict[str, str]:
        """The variables of kubectl that select it: --kubeconfig takes one file, and expands no ``~``."""
        if not self.kubeconfig:
            return {}
        files = map(os.path.expanduser, self.kubeconfig.split(os.pathsep))
        return {"KUBECONFIG": os.pathsep.join(files)}


class Forward:
    """kubectl, which forwards a port of this machine to a ready pod; it ends when it loses the pod."""

    def __init__(
        self,
        kubectl: Sequence[str],
        pod: str,
        remote: int,
        *,
        other_pod: Callable[[], str],
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``other_pod``: the name of one that is ready, once the first has ended; raises NotFound.
        ``environ``: variables of kubectl beside those of this process."""
        self._kubectl = kubectl
        self._environ = environ
        self._pod = pod
        self._remote = remote
        self._other_pod = other_pod
        self._lock = threading.Lock()
        self._running = contextlib.ExitStack()
        self._missing = ""
        self.port = 0
        self.number = 0
        """Of the run of kubectl."""

    def __enter__(self) -> Self:
        """Raises NotFound."""
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def renewed(self, number: int) -> bool:
        """Whether the port leads to another pod than in the run with this number, because that one ended."""
        with self._lock:
            if self.number != number:
                return True
            if not self._missing and not self._ended():
                return False
            self._running.close()
            try:
                self._pod = self._other_pod()
                self._start()
            except NotFound as problem:
                self._missing = str(problem)
                return False
            return True

    def lost(self) -> str:
        """Why the port leads to no pod any more; empty if it does."""
        with self._lock:
            if not self._missing and self._ended():
                return self._reason()
            return self._missing

    def _start(self) -> None:
        command = [*self._kubectl, "port-forward", "--address", "127.0.0.1", f"pod/{self._pod}"]
        command.append(f"{self.port or ''}:{self._remote}")
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._environ},
        )
        self._process = self._running.enter_context(process)
        self._running.callback(process.terminate)
        assert process.stdout is not None
        assert process.stderr is not None
        self._errors: deque[str] = deque(maxlen=_ERRORS)
        # What kubectl writes for each connection: it would wait until that is read.
        self._reading = threading.Thread(target=_keep, args=(process.stderr, self._errors), daemon=True)
        self._reading.start()
        try:
            found = _FORWARDING.search(process.stdout.readline())
            if found is None:
                process.terminate()
                raise NotFound(self._reason())
        except BaseException:
            self._running.close()
            raise
        threading.Thread(target=_keep, args=(process.stdout, deque(maxlen=0)), daemon=True).start()
        self.port, self.number, self._missing = int(found[1]), self.number + 1, ""

    def _ended(self) -> bool:
        """Whether kubectl has ended. It does so just after the connection that it could not forward."""
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _reason(self) -> str:
        self._reading.join(_END)
        written = " ".join(" ".join(self._errors).split())
        return f"kubectl port-forward pod/{self._pod}: {written[:300] or 'no reason given'}"


@contextlib.contextmanager
def opened(loaded: settings.Settings, role: str, component: str) -> Iterator[tuple[settings.Client, Forward]]:
    """A client of a ready ``extender`` or ``view`` in a role, while the context lasts. Raises NotFound."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise NotFound("kubectl, which would forward a port, is not on PATH")
    cluster = _Cluster(loaded.kube.kubeconfig, loaded.kube.context, loaded.client.namespace)
    name = _SECRETS.format(role=role)
    ready_pod = functools.partial(_ready_pod, loaded, cluster.namespace, component)
    pod = ready_pod()
    with _api(loaded) as api:
        secret = api.get(f"/api/v1/namespaces/{cluster.namespace}/secrets/{name}")
    with contextlib.ExitStack() as until:
        # kubectl and the private key do not outlast the command.
        until.enter_context(interrupts.by_sigterm())
        folder = until.enter_context(temporary_folders.temporary_folder("topolog-forward-"))
        client = replace(
            loaded.client,
            cert=_written(secret, name, "tls.crt", folder),
            key=_written(secret, name, "tls.key", folder),
            ca=_written(secret, name, "ca.crt", folder),
        )
        command = [kubectl, *cluster.arguments]
        forward = until.enter_context(
            Forward(command, pod, _PORTS[component], other_pod=ready_pod, environ=cluster.environ)
        )
        server = client.server_name or f"topolog-{component}.{cluster.namespace}.svc"
        yield replace(client, url=f"https://127.0.0.1:{forward.port}", server_name=server), forward


@contextlib.contextmanager
def _api(loaded: settings.Settings) -> Iterator["api_reader.ApiReader"]:
    """A reader of the API server, whose errors are raised as NotFound."""
    from app.doctor import api_reader
    from app.kube import errors
    from app.kube.client import clients, credentials

    try:
        access = credentials.find(loaded.kube.kubeconfig or None, loaded.kube.context or None)
        with contextlib.closing(clients.Client(access)) as client:
            yield api_reader.ApiReader(client)
    except api_reader.Unseen as unseen:
        raise NotFound(unseen.reason) from unseen
    except errors.KubeError as problem:
        raise NotFound(str(problem)) from problem


def _ready_pod(loaded: settings.Settings, namespace: str, component: str) -> str:
    """The name of a ready pod of the component. Raises NotFound."""
    with _api(loaded) as api:
        pods = api.items(f"/api/v1/namespaces/{namespace}/pods")
    ready = [str(pod["metadata"]["name"]) for pod in pods if _is(pod, component) and _is_ready(pod)]
    if not ready:
        raise NotFound(f"namespace {namespace} has no ready {component} (client.namespace)")
    return min(ready)


def _is(pod: Mapping[str, Any], component: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    found = (labels.get("app.kubernetes.io/name"), labels.get("app.kubernetes.io/component"))
    return found == ("topolog", component)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False  # It stays ready until its containers have ended.
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _written(secret: Mapping[str, Any], name: str, part: str, folder: pathlib.Path) -> str:
    """The file with a part of the Secret. Raises NotFound."""
    try:
        content = base64.b64decode((secret.get("data") or {})[part], validate=True)
    except (KeyError, binascii.Error, ValueError) as problem:
        raise NotFound(f"Secret {name} has no {part}") from problem
    path = folder / part
    path.touch(mode=0o600)
    path.write_bytes(content)
    return str(path)


def _keep(lines: IO[str], kept: deque[str]) -> None:
    with contextlib.suppress(ValueError):  # The command has ended, and closed it.
        kept.extend(lines)
