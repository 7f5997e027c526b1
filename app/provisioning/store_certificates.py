"""Checks that the bundled store shows the certificate of its Secret; if not, it has to read its files again.

The kubelet brings a changed Secret into the pod after a while, so that a certificate is often taken up by the
run after the one that renewed it. Months are left then.
"""

import ssl
import urllib.parse
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from app.kube.writes import secrets
from app.provisioning import certificates, decisions, provisioners, store_access
from app.provisioning.decisions import Outcome
from app.store import errors
from app.store.server import server_certificates

FOLDER: Final = "/etc/valkey-tls"
"""Where the server's pod mounts the Secret."""
_UNUSABLE: Final = (Outcome.REFUSED, Outcome.SKIPPED)
_RESTART: Final = "restart its pod for it to read its certificate"


def taken_up(
    access: provisioners.SecretAccess, results: Sequence[provisioners.Result]
) -> list[provisioners.Result]:
    """The results of a run, with what the server shows in the detail of its certificate."""
    held = access.read(certificates.STORE)
    own = next((one for one in results if one.name == certificates.STORE), None)
    if held is None or decisions.lacking(held, certificates.ALL) or (own and own.outcome in _UNUSABLE):
        return list(results)
    given = own or provisioners.Result(certificates.STORE, Outcome.KEPT, "not made here")
    try:
        found = replace(given, detail=f"{given.detail}; {_of_server(access, held)}")
    except errors.StoreError as error:
        problem = f"{given.detail}; the server does not take it up ({error}): {_RESTART}"
        found = replace(given, outcome=Outcome.REFUSED, detail=problem)
    return [*(one for one in results if one is not own), found]


def _of_server(access: provisioners.SecretAccess, held: secrets.Secret) -> str:
    """What the server shows, and what was done about it, for a sentence.

    Raises StoreError if the server shows another certificate than one of the CA, refuses to read it, or
    should read it and there is no user for that.
    """
    urls = access.read(store_access.URLS)
    given = urls.data if urls is not None else {}
    own = given.get(store_access.CERTIFICATES_URL, b"")
    # Each URL has the address of the server.
    url = own or next((given[key] for key in store_access.KEYS.values() if given.get(key)), b"")
    if not url:
        return f"Secret {store_access.URLS} has no URL of the server: {_RESTART}"
    parts = urllib.parse.urlsplit(url.decode())
    wanted = ssl.PEM_cert_to_DER_cert(_first(held.data[certificates.CERTIFICATE].decode()))
    server = server_certificates.Server(
        parts.hostname or "", parts.port or 6379, held.data[certificates.TRUST].decode()
    )
    try:
        if server_certificates.shown(server) == wanted:
            return "the server shows it"
        if not own:
            raise errors.StoreError(f"Secret {store_access.URLS} lacks {store_access.CERTIFICATES_URL}")
        server_certificates.read_again(
            server,
            user=urllib.parse.unquote(parts.username or ""),
            password=urllib.parse.unquote(parts.password or ""),
            path=f"{FOLDER}/{certificates.CERTIFICATE}",
        )
        if server_certificates.shown(server) == wanted:
            return "the server has read it"
    except errors.StoreAway as error:
        return f"the server is not reached ({errors.cause(error)}), and reads it when it starts"
    return "the server still shows a former one, because its pod does not have the new files yet"


def _first(text: str) -> str:
    """The first certificate of a chain."""
    end = "-----END CERTIFICATE-----"
    return text.partition(end)[0] + end
