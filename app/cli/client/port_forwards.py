"""Reaches an extender or the view by the kubeconfig: kubectl forwards a port, a Secret has the certificate.

The way there (SPDY or WebSockets, proxies, exec plugins for credentials) is kubectl's own. The certificate is
that of a role, if the user may read its Secret; it is written to a directory that only this user can
read, and that is removed when the command ends.
"""

import base64
import binascii
import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, Final

from app import settings

_SECRETS: Final = "topolog-{role}-tls"
_PORTS: Final = {"extender": 8443, "view": 8444}
"""Component -> port of its pods (deploy/)."""
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
        named = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--namespace": self.namespace}
        return [part for name, value in named.items() if value for part in (name, value)]


@contextlib.contextmanager
def opened(loaded: settings.Settings, role: str, component: str) -> Iterator[settings.Client]:
    """A client of a ready ``extender`` or ``view`` in a role, while the context lasts. Raises NotFound."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise NotFound("kubectl, which would forward a port, is not on PATH")
    cluster = _Cluster(loaded.kube.kubeconfig, loaded.kube.context, loaded.client.namespace)
    name = _SECRETS.format(role=role)
    pod, secret = _found(loaded, cluster.namespace, component, name)
    with contextlib.ExitStack() as until:
        folder = pathlib.Path(until.enter_context(tempfile.TemporaryDirectory(prefix="topolog-")))
        client = replace(
            loaded.client,
            cert=_written(secret, name, "tls.crt", folder),
            key=_written(secret, name, "tls.key", folder),
            ca=_written(secret, name, "ca.crt", folder),
        )
        port = until.enter_context(_forwarded([kubectl, *cluster.arguments], pod, _PORTS[component]))
        server = client.server_name or f"topolog-{component}.{cluster.namespace}.svc"
        yield replace(client, url=f"https://127.0.0.1:{port}", server_name=server)


def _found(
    loaded: settings.Settings, namespace: str, component: str, name: str
) -> tuple[str, Mapping[str, Any]]:
    """The name of a ready pod of the component, and the Secret of that name."""
    from app.doctor import api_reader
    from app.kube import errors
    from app.kube.client import clients, credentials

    try:
        access = credentials.find(loaded.kube.kubeconfig or None, loaded.kube.context or None)
        reader = api_reader.ApiReader(clients.Client(access))
        pods = reader.items(f"/api/v1/namespaces/{namespace}/pods")
        ready = [str(pod["metadata"]["name"]) for pod in pods if _is(pod, component) and _is_ready(pod)]
        if not ready:
            raise NotFound(f"namespace {namespace} has no ready {component} (client.namespace)")
        secret = reader.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except api_reader.Unseen as unseen:
        raise NotFound(unseen.reason) from unseen
    except errors.KubeError as problem:
        raise NotFound(str(problem)) from problem
    return min(ready), secret


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


@contextlib.contextmanager
def _forwarded(kubectl: list[str], pod: str, remote: int) -> Iterator[int]:
    """The local port that kubectl forwards to the pod."""
    command = [*kubectl, "port-forward", "--address", "127.0.0.1", f"pod/{pod}", f":{remote}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            found = _FORWARDING.search(process.stdout.readline())
            if found is None:
                process.terminate()
                reason = " ".join(process.stderr.read().split())
                raise NotFound(f"kubectl port-forward pod/{pod}: {reason[:300] or 'no reason given'}")
            # A line for each connection: kubectl would wait until it is read.
            threading.Thread(target=_discard, args=(process.stdout,), daemon=True).start()
            threading.Thread(target=_discard, args=(process.stderr,), daemon=True).start()
            yield int(found[1])
        finally:
            process.terminate()


def _discard(lines: IO[str]) -> None:
    with contextlib.suppress(ValueError):  # The command has ended, and closed it.
        for _ in lines:
            pass
