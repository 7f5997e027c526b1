"""An extender that records which nodes kube-scheduler offers for each pod, and refuses them all.

It is independent of Topolog: what it records is what kube-scheduler's own filters return.
"""

import http.server
import json
import threading
import types

from tests.support.e2e import api_client


class OfferRecorder:
    """Serves filter over plain HTTP on the loopback; pods that it refuses stay pending."""

    def __init__(self) -> None:
        self.offers: dict[str, frozenset[str]] = {}
        """Pod uid -> the nodes of its latest offer."""
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one write

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = asked["NodeNames"]
                recorder.offers[asked["Pod"]["metadata"]["uid"]] = frozenset(names)
                refused = dict.fromkeys(names, "recorded")
                body = json.dumps({"NodeNames": [], "FailedAndUnresolvableNodes": refused}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "OfferRecorder":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def configuration(self, scheduler: str) -> api_client.Object:
        """The configuration of a kube-scheduler that calls this extender."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": scheduler}],
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{self._server.server_address[1]}/",
                    "filterVerb": "filter",
                    "nodeCacheCapable": True,
                }
            ],
        }
