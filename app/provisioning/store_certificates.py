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
    found = _of_server(access, held)
    if own is None:
        return [*results, provisioners.Result(certificates.STORE, Outcome.KEPT, f"not made here; {found}")]
    return [replace(one, detail=f"{one.detail}; {found}") if one is own else one for one in results]


def _of_server(access: provisioners.SecretAccess, held: secrets.Secret) -> str:
    """What the server shows, and what was done about it, for a sentence."""
    urls = access.read(store_access.URLS)
    url = urls.data.get(store_access.CERTIFICATES_URL, b"").decode() if urls is not None else ""
    if not url:
        return f"Secret {store_access.URLS} has no user for that: {_RESTART}"
    parts = urllib.parse.urlsplit(url)
    wanted = ssl.PEM_cert_to_DER_cert(_first(held.data[certificates.CERTIFICATE].decode()))
    server = server_certificates.Server(
        parts.hostname or "", parts.port or 6379, held.data[certificates.TRUST].decode()
    )
    try:
        if server_certificates.shown(server) == wanted:
            return "the server shows it"
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
    except errors.StoreError as error:
        return f"the server does not take it up ({error}): {_RESTART}"
    return "the server still shows a former one, because its pod does not have the new files yet"


def _first(text: str) -> str:
    """The first certificate of a chain."""
    end = "-----END CERTIFICATE-----"
    return text.partition(end)[0] + end
