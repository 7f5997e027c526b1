"""Asks a running kube-scheduler for its configuration: GET /configz and /metrics on its secure port."""

import dataclasses
import ipaddress
import re
import ssl
import urllib.parse
import warnings
from collections.abc import Callable

import urllib3

from app.doctor import api_reader
from app.doctor.scheduler import configurations, feature_gates
from app.kube import errors
from app.kube.client import credentials

_SECONDS = 10.0
_STARTED = re.compile(r"^process_start_time_seconds ([0-9.e+]+)$", re.MULTILINE)
_FORWARD = "forward port 10259 of kube-scheduler's pod to this machine, and name its URL here in --configz"


def ask(
    url: str, access: credentials.Access, *, ca: str = "", forward: Callable[[], str] = str
) -> configurations.SchedulerConfiguration:
    """The configuration that a kube-scheduler runs with.

    ``forward`` returns how one is asked from here, or nothing if that is not known.

    Its certificate is verified by ``ca``. Without one, or without TLS, it is not verified, and only a
    loopback address is asked: the request carries the credentials of the kubeconfig. Raises Unseen, or
    Unreadable.
    """
    parts = urllib.parse.urlsplit(url)
    verified = bool(ca) and parts.scheme == "https"
    if not verified and not _loopback(parts.hostname or ""):
        raise api_reader.Unseen(
            f"{url} is not asked: its certificate could not be verified, and the request carries credentials",
            f"name it by https, and its CA in --configz-ca; or {forward() or _FORWARD}",
        )
    base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    address = f"{base}/configz"
    try:
        headers = {"Accept": "application/json"}
        if authorization := access.authorization():
            headers["Authorization"] = authorization
        with (
            warnings.catch_warnings(),
            urllib3.PoolManager(ssl_context=_context(access, ca), timeout=_SECONDS, retries=False) as pool,
        ):
            # Without a CA, and on loopback only: as described above.
            warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
            reply = pool.request("GET", address, headers=headers, redirect=False)
            headers["Accept"] = "text/plain"
            measured = pool.request("GET", f"{base}/metrics", headers=headers, redirect=False)
    except (urllib3.exceptions.HTTPError, OSError, errors.KubeError, ValueError) as problem:
        raise api_reader.Unseen(f"{address} does not answer: {problem}", forward() or _FORWARD) from problem
    if reply.status != 200:
        raise api_reader.Unseen(
            f"{address} answers {reply.status}",
            f"use a kubeconfig whose user may get /configz (ClusterRole {api_reader.ROLE})",
        )
    found = configurations.read(reply.data, address)[0]
    if measured.status != 200:
        return found
    text = measured.data.decode(errors="replace")
    started = _STARTED.search(text)
    return dataclasses.replace(
        found, gangs=feature_gates.of_metrics(text), started=float(started[1]) if started else 0.0
    )


def _context(access: credentials.Access, ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca or None)
    if not ca:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.tls.cert_file:
        context.load_cert_chain(access.tls.cert_file, access.tls.key_file)
    return context


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
