"""A token of OpenID Connect that has expired, renewed at its provider over TLS."""

import base64
import http.server
import json
import pathlib
import ssl
import threading
import urllib.parse
from collections.abc import Iterator

import pytest

from app.serving.tls import certificate_issuer
from tests.support import commands

ASKED = """
import sys
from app.kube.client import credentials
print("requests" in sys.modules)
access = credentials.find(sys.argv[1])
print(access.authorization())
access.renew()
print(access.authorization())
access.renew()
print(access.authorization())
"""


def token(**claims: object) -> str:
    """A JSON web token whose signature is not checked here."""
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signature"))


RENEWED = {"first": ("second", token(sub="me", exp=2)), "second": ("third", token(sub="me"))}
"""By the refresh token: the next one, and a token. The first of them expires at once."""


class Provider(http.server.BaseHTTPRequestHandler):
    """Names its endpoint, and gives a token for the refresh token there."""

    def do_GET(self) -> None:
        """The document that names the endpoint."""
        assert self.path == "/.well-known/openid-configuration"
        self._send({"token_endpoint": f"https://{self.headers['Host']}/token"})

    def do_POST(self) -> None:
        """The new token."""
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        assert form["grant_type"] == ["refresh_token"]
        (refresh,) = form["refresh_token"]
        following, made = RENEWED[refresh]
        access = {"access_token": "a", "token_type": "bearer"}
        self._send({"id_token": made, "refresh_token": following, **access})

    def _send(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing."""


@pytest.fixture
def provider(tmp_path: pathlib.Path) -> Iterator[str]:
    """The URL of a provider whose certificate is of the CA in the folder of the test."""
    certificate_issuer.issue(tmp_path, ["localhost", "127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    with http.server.HTTPServer(("127.0.0.1", 0), Provider) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_expired_token_is_renewed_by_modules_that_are_imported_for_it(
    provider: str, tmp_path: pathlib.Path
) -> None:
    settings = {
        "idp-issuer-url": provider,
        "idp-certificate-authority": str(tmp_path / "ca.crt"),
        "client-id": "me",
        "client-secret": "mine",
        "id-token": token(exp=1),
        "refresh-token": "first",
    }
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {"auth-provider": {"name": "oidc", "config": settings}}}],
            }
        )
    )
    done = commands.run(["-c", ASKED, str(path)])
    assert done.stderr == ""
    (_, first), (_, second) = RENEWED.values()
    assert done.stdout.splitlines() == ["False", *(f"Bearer {made}" for made in (first, second, second))]
