"""An object store for tests: the part of the S3 protocol that an archive uses, over HTTP, in this process.

It checks no signatures. ``failing`` makes it answer with an error, ``silent`` never.
"""

import contextlib
import datetime
import http.server
import re
import threading
import urllib.parse
from collections.abc import Iterator
from xml.sax import saxutils

_CREATED = datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC)
_PAGE = 3
"""Names per reply, few, so that listings have pages."""


class Server(http.server.ThreadingHTTPServer):
    """Buckets in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        """By ``/BUCKET/KEY``."""
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.failing: dict[str, int] = {}
        """Method -> HTTP status of its replies."""
        self.silent = threading.Event()
        self.ending = threading.Event()
        self.calls: list[str] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def log_request(self, *_: object) -> None:
        """Nothing."""

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def do_GET(self) -> None:
        path, query = self._begin()
        if "list-type" in query:
            self._list(path.strip("/"), query)
            return
        content = self.server.objects.get(path)
        if content is None:
            self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if found is None:
            self._reply(200, content)
            return
        part = content[int(found[1]) : int(found[2]) + 1]
        last = int(found[1]) + len(part) - 1
        self._reply(206, part, {"Content-Range": f"bytes {found[1]}-{last}/{len(content)}"})

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        path, query = self._begin()
        if "uploadId" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = self._content
        else:
            self.server.objects[path] = self._content
        self._reply(200, b"")

    def do_POST(self) -> None:
        path, query = self._begin()
        if "uploads" in query:
            identity = f"upload{len(self.server.uploads)}"
            self.server.uploads[identity] = {}
            self._reply(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{identity}</UploadId>"
                "</InitiateMultipartUploadResult>".encode(),
            )
        elif "uploadId" in query:
            parts = self.server.uploads.pop(query["uploadId"])
            self.server.objects[path] = b"".join(parts[number] for number in sorted(parts))
            self._reply(
                200,
                b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>",
            )
        else:
            keys = re.findall(r"<Key>(.*?)</Key>", self._content.decode())
            for key in keys:
                self.server.objects.pop(f"{path.rstrip('/')}/{key}", None)
            removed = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._reply(200, f"<DeleteResult>{removed}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        path, query = self._begin()
        self.server.uploads.pop(query.get("uploadId", ""), None)
        if "uploadId" not in query:
            self.server.objects.pop(path, None)
        self._reply(204, b"")

    def _begin(self) -> tuple[str, dict[str, str]]:
        self._content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.calls.append(self.command)
        if self.server.silent.is_set():
            self.server.ending.wait()
            raise ConnectionError("the server ends")
        status = self.server.failing.get(self.command)
        if status is not None:
            self._reply(status, b"<Error><Code>Sorry</Code><StringToSign>cAn4ry</StringToSign></Error>")
            raise ConnectionError("refused")
        path, _, query = self.path.partition("?")
        return urllib.parse.unquote(path), dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        begin = f"/{bucket}/"
        keys = sorted(
            path.removeprefix(begin)
            for path in self.server.objects
            if path.startswith(begin + query.get("prefix", ""))
        )
        start = int(query.get("continuation-token", 0))
        page = keys[start : start + _PAGE]
        found = "".join(
            f"<Contents><Key>{saxutils.escape(key)}</Key><LastModified>{_CREATED.isoformat()}</LastModified>"
            f"<ETag>e</ETag><Size>{len(self.server.objects[begin + key])}</Size></Contents>"
            for key in page
        )
        more = start + _PAGE < len(keys)
        following = f"<NextContinuationToken>{start + _PAGE}</NextContinuationToken>" if more else ""
        self._reply(
            200,
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{following}{found}"
            "</ListBucketResult>".encode(),
        )

    def _reply(self, status: int, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Length": str(len(content)),
            "ETag": '"e"',
            "Last-Modified": _CREATED.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        }
        for name, value in (headers | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A server while the block runs."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()


def environment(server: Server) -> dict[str, str]:
    """The variables by which obstore finds the server."""
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "cAn4ry",
        "AWS_REGION": "eu-central-1",
    }
