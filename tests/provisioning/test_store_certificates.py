"""What bootstrap reports about the certificate of a store whose users are of others."""

import contextlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from tests.support.provisioning import namespaces, secrets_of

TLS = "topolog-valkey-tls"


@contextlib.contextmanager
def showing(folder: pathlib.Path, data: dict[str, bytes]) -> Iterator[int]:
    """A server that shows a certificate, and answers nothing; its port."""
    for key in ("tls.crt", "tls.key"):
        (folder / key).write_bytes(data[key])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30.0)
        port = listener.getsockname()[1]

        def show() -> None:
            with contextlib.suppress(OSError), context.wrap_socket(listener, server_side=True) as secure:
                secure.accept()[0].close()

        thread = threading.Thread(target=show)
        thread.start()
        yield port
        thread.join()


@pytest.mark.parametrize("renewed", [False, True])
def test_a_certificate_that_no_user_lets_the_server_read_fails_the_run_once_it_is_renewed(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path, renewed: bool
) -> None:
    namespace.provision(store_hosts=["127.0.0.1"])
    former = secrets_of.data(namespace.secrets()[TLS])
    if renewed:
        namespace.delete(TLS)
        namespace.provision(store_hosts=["127.0.0.1"])
    with showing(tmp_path, former) as port:
        urls = {f"{role}-url": f"rediss://u:p@127.0.0.1:{port}".encode() for role in secrets_of.USERS}
        namespace.delete("topolog-store")
        namespace.put("topolog-store", urls)
        done = namespace.bootstrap(f"--store-url=redis://127.0.0.1:{port}", "--store-tls")
    if renewed:
        assert done.returncode == 1
        assert "does not take it up (Secret topolog-store lacks certificates-url)" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "the server shows it" in done.stdout
