"""Finds the cause of a failed TLS connection to an extender, for the sentence that the operator reads.

OpenSSL reports that a certificate was not verified. Whether the name, the CA or the date is wrong, and what
to change, follows from the certificates on both sides. The server's is read by a second handshake, which
verifies nothing and sends nothing.
"""

import datetime
import pathlib
import re
import socket
import ssl
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509

from app import clocks

_NAME_MISMATCH = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_SHOWN_NAMES = 4


@dataclass(frozen=True, slots=True)
class Connection:
    """What a client connects to, and the files that it uses; empty: none."""

    host: str
    port: int
    name: str
    """The name that the server's certificate must have."""
    ca: str
    cert: str
    key: str
    timeout: float


def of(connection: Connection, error: OSError, process: str = "the extender") -> str:
    """The cause of the error and its remedy; empty if nothing is known about it. ``process``: the server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_server(connection, error)
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens there: does {process} run, or a port-forward to it?"
    text = str(error).lower()
    if not isinstance(error, ssl.SSLError | ConnectionError):
        return ""
    if "alert" not in text and _served(connection) is None:
        return "the port does not speak TLS: is it the health port? The API is on server.port"
    return _of_client(connection, text)


# -- the server's certificate --------------------------------------------------------------------


def _of_server(connection: Connection, error: ssl.SSLCertVerificationError) -> str:
    server = _served(connection)
    if server is None:
        return ""
    now = datetime.datetime.now(datetime.UTC)
    if error.verify_code in _NAME_MISMATCH:
        return _of_name(connection, server)
    if server.not_valid_after_utc < now:
        return (
            f"the extender's certificate expired at {_at(server.not_valid_after_utc)}: renew it"
            " (`topolog certs --renew`)"
        )
    if server.not_valid_before_utc > now:
        start = _at(server.not_valid_before_utc)
        return f"the extender's certificate is valid from {start} on: compare the clocks"
    return _of_authority(connection, server, now)


def _of_name(connection: Connection, server: x509.Certificate) -> str:
    names = _names(server)
    if not names:
        return "the extender's certificate has no subject alternative name: create another (`topolog certs`)"
    shown = ", ".join(names[:_SHOWN_NAMES]) + (" ..." if len(names) > _SHOWN_NAMES else "")
    plain = next((name for name in names if "*" not in name), "NAME")
    return (
        f"the extender's certificate is for {shown}, not for {connection.name}: through a port-forward or a"
        f" proxy, use --server-name {plain}"
    )


def _of_authority(connection: Connection, server: x509.Certificate, now: datetime.datetime) -> str:
    issuer = server.issuer.rfc4514_string()
    if not connection.ca:
        return (
            f"the extender's certificate was issued by {issuer}, which this machine does not trust: use --ca"
        )
    trusted = _certificates(connection.ca)
    named = [each for each in trusted if each.subject == server.issuer]
    expired = [each for each in named if each.not_valid_after_utc < now]
    if expired and len(expired) == len(named):
        return (
            f"the CA {issuer} in {connection.ca} expired at {_at(expired[0].not_valid_after_utc)}: create"
            " another (`topolog certs --force`)"
        )
    if named:
        return (
            f"{connection.ca} has a CA of the name {issuer} with another key: copy the ca.crt that the"
            " extender's certificate was issued with"
        )
    return f"the extender's certificate was issued by {issuer}, which is not in {connection.ca}: use --ca"


def _served(connection: Connection) -> x509.Certificate | None:
    """The certificate that the server presents, verified in no way."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((connection.host, connection.port), connection.timeout) as raw,
            context.wrap_socket(raw, server_hostname=connection.name) as secured,
        ):
            presented = secured.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(presented) if presented else None
    except (OSError, ValueError):
        return None


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]


# -- the client's certificate --------------------------------------------------------------------


def _of_client(connection: Connection, text: str) -> str:
    if not connection.cert:
        return "the extender requires a client certificate: use --cert and --key"
    own = next(iter(_certificates(connection.cert)), None)
    if own is None:
        return ""
    now = datetime.datetime.now(datetime.UTC)
    if own.not_valid_after_utc < now:
        return (
            f"the client certificate {connection.cert} expired at {_at(own.not_valid_after_utc)}: renew it"
            " (`topolog certs --renew`)"
        )
    if own.not_valid_before_utc > now:
        return (
            f"the client certificate {connection.cert} is valid from {_at(own.not_valid_before_utc)} on:"
            " compare the clocks"
        )
    if "revoked" in text:
        return f"the client certificate {connection.cert} is revoked: use another"
    if re.search(r"unknown ca|decrypt error|bad certificate", text):
        return (
            f"the extender does not trust the issuer of {connection.cert}, {own.issuer.rfc4514_string()}:"
            " it must be a CA of the extender's tls.ca"
        )
    return f"the extender refused the client certificate {connection.cert}: its log states the reason"


def _certificates(path: str) -> Iterable[x509.Certificate]:
    """The certificates of a PEM file; none if it cannot be read."""
    try:
        with warnings.catch_warnings(action="ignore"):  # A hint names no flaws of other certificates.
            return x509.load_pem_x509_certificates(pathlib.Path(path).read_bytes())
    except (OSError, ValueError):
        return []


def _at(when: datetime.datetime) -> str:
    return clocks.rfc3339(when.timestamp())
