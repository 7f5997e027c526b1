"""The probes of a container, sent from the node as a kubelet does."""

import http.client
import ssl
import threading
import time
from collections.abc import Callable

from tests.support.e2e import api_client
from tests.support.e2e.nodes import networks


class Prober:
    """Runs the probes of one container until `stop`: startup first, then liveness and readiness."""

    def __init__(
        self,
        container: api_client.Object,
        address: str,
        network: networks.Network,
        *,
        failed: Callable[[str], None],  # startup or liveness, with the reason
    ) -> None:
        self._container = container
        self._address = address
        self._network = network
        self._failed = failed
        self._ended = threading.Event()
        self.started = "startupProbe" not in container
        self.ready = self.started and "readinessProbe" not in container
        for kind in ("livenessProbe", "readinessProbe") if self.started else ("startupProbe",):
            self._begin(kind)

    def stop(self) -> None:
        """End all probes."""
        self._ended.set()
        self.ready = False

    def _begin(self, kind: str) -> None:
        if kind in self._container:
            threading.Thread(target=self._run, args=(kind,), name=kind, daemon=True).start()

    def _run(self, kind: str) -> None:
        probe, wrong, right = self._container[kind], 0, 0
        while not self._ended.is_set():
            problem = self._problem(probe)
            if self._ended.is_set():
                return
            wrong, right = (wrong + 1, 0) if problem else (0, right + 1)
            if kind == "startupProbe" and not problem:
                self.started = True
                self._begin("livenessProbe")
                self._begin("readinessProbe")
                self.ready = "readinessProbe" not in self._container
                return
            if wrong >= probe.get("failureThreshold", 3):
                if kind == "readinessProbe":
                    self.ready = False
                else:
                    self._failed(f"{kind}: {problem}")
                    return
            if kind == "readinessProbe" and right >= probe.get("successThreshold", 1):
                self.ready = True
            self._ended.wait(probe.get("periodSeconds", 10))

    def _problem(self, probe: api_client.Object) -> str:
        seconds, begun = probe.get("timeoutSeconds", 1), time.monotonic()
        action = probe.get("httpGet") or probe["tcpSocket"]
        connection = self._network.socket()
        connection.settimeout(seconds)
        try:
            connection.connect((self._address, self._port(action["port"])))
            if "tcpSocket" in probe:
                return ""
            if action.get("scheme") == "HTTPS":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                connection = context.wrap_socket(connection)
            connection.settimeout(max(0.1, seconds - (time.monotonic() - begun)))
            request = f"GET {action['path']} HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            return "" if 200 <= reply.status < 400 else f"{reply.status} {reply.read(300)!r}"
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        finally:
            connection.close()

    def _port(self, port: int | str) -> int:
        named = {each["name"]: each["containerPort"] for each in self._container["ports"]}
        return named[port] if isinstance(port, str) else port
