"""Loads the TLS material of both sides: from files, from PKCS12 stores, or from the Secrets of a cluster."""

import base64
import binascii
import dataclasses
import datetime
import pathlib
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from app import settings
from app.doctor import api_reader, own_pods, restarts, scheduler_containers, times
from app.doctor.tls import checks
from app.serving import errors
from app.serving.tls import certificate_checks, keystores

_SECRETS: Mapping[checks.Name, str] = {
    "extender": "topolog-tls",
    "kube-scheduler": "topolog-scheduler-tls",
    "store": "topolog-valkey-tls",
}
_KEY: Final = "tls.key"
_MODE: Final = 0o644
"""Permission bits of a file in a volume that sets none."""


class Broken(api_reader.Unseen):
    """The material is there, and no process can use it."""


def _create(folder: pathlib.Path) -> str:
    return f"topolog certs {folder} with the name by which kube-scheduler calls the extender as --host"


def of_directory(folder: pathlib.Path) -> tuple[checks.Side, checks.Side]:
    """Both sides from a directory that ``topolog certs`` wrote. Raises Unseen."""
    return (
        of_files("extender", folder / "server.crt", folder / "server.key", folder / "ca.crt"),
        of_files("kube-scheduler", folder / "scheduler.crt", folder / "scheduler.key", folder / "ca.crt"),
    )


def of_files(
    name: checks.Name, certificate: pathlib.Path, key: pathlib.Path, ca: pathlib.Path
) -> checks.Side:
    """One side from PEM files. Raises Unseen."""
    contents = {file: _read(file) for file in (certificate, key, ca)}
    made = _create(certificate.parent)
    return checks.Side(
        name,
        str(certificate),
        _certificates(contents[certificate], str(certificate), made),
        _key(contents[key], str(key), made),
        _certificates(contents[ca], str(ca), made),
        modes={str(key): stat.S_IMODE(key.stat().st_mode)},
        trust=str(ca),
        folder=str(certificate.parent),
    )


def of_settings(tls: settings.Tls) -> checks.Side | None:
    """The extender's side from the files of the settings; None if they name none. Raises Unseen."""
    if tls.cert and tls.key and tls.ca:
        made = of_files("extender", pathlib.Path(tls.cert), pathlib.Path(tls.key), pathlib.Path(tls.ca))
        if not tls.crl:
            return made
        return dataclasses.replace(made, revocations=_lists(tls.crl))
    try:
        source = keystores.source_from(tls)
        if source is None:
            return None
        material = keystores.read(source, hosts_required=False)
    except errors.BadMaterial as problem:
        raise Broken(str(problem), _create(_folder(tls))) from problem
    return checks.Side(
        "extender",
        str(source.certificate),
        material.chain,
        _key(material.key_pem, str(source.certificate), _create(source.certificate.parent)),
        material.authorities,
        material.revocations,
        {str(source.certificate): stat.S_IMODE(source.certificate.stat().st_mode)},
        keystores.WELL_KNOWN_PASSWORD in (source.password, source.trust_password),
        str(source.trust),
        str(source.certificate.parent),
    )


def _folder(tls: settings.Tls) -> pathlib.Path:
    return pathlib.Path(tls.cert or tls.keystore_path or ".").parent


def of_secret(reader: api_reader.ApiReader, namespace: str, name: checks.Name) -> checks.Side:
    """One side from its Secret. Raises Unseen, or Missing."""
    source = f"Secret {namespace}/{_SECRETS[name]}"
    document = reader.get(f"/api/v1/namespaces/{namespace}/secrets/{_SECRETS[name]}")
    data = document.get("data") or {}
    made = checks.recreation(namespace, _SECRETS[name])
    contents = {}
    for key in ("tls.crt", _KEY, "ca.crt"):
        try:
            contents[key] = base64.b64decode(str(data[key]), validate=True)
        except KeyError as problem:
            raise Broken(f"{source} has no key {key}", made) from problem
        except binascii.Error as problem:
            raise Broken(f"{key} of {source} is not base64", made) from problem
    return checks.Side(
        name,
        source,
        _certificates(contents["tls.crt"], f"tls.crt of {source}", made),
        _key(contents[_KEY], f"{_KEY} of {source}", made),
        _certificates(contents["ca.crt"], f"ca.crt of {source}", made),
        secret=(namespace, _SECRETS[name]),
        created=times.seconds(str(document["metadata"].get("creationTimestamp", ""))),
    )


def modes(reader: api_reader.ApiReader, namespace: str, name: checks.Name) -> dict[str, int]:
    """Private key of a Secret in a volume of a pod -> its permission bits. Raises Unseen."""
    return {
        f"{_KEY} in volume {volume['name']} of pod {namespace}/{pod['metadata']['name']}": mode
        for pod in reader.items(f"/api/v1/namespaces/{namespace}/pods")
        if not own_pods.ended(pod)
        for volume in pod["spec"].get("volumes") or ()
        for mode in _modes(volume, _SECRETS[name])
    }


def _modes(volume: Mapping[str, Any], secret: str) -> Iterator[int]:
    """The permission bits of the private key of a Secret in a volume; none if it is not there."""
    for source, usual in _parts(volume, secret):
        given = [one.get("mode") for one in source.get("items") or () if one.get("key") == _KEY]
        for mode in given if source.get("items") else [None]:
            yield next((int(one) for one in (mode, usual) if one is not None), _MODE)


def _parts(volume: Mapping[str, Any], secret: str) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    """What a volume has of a Secret: the source, and the permission bits that it has for all files."""
    own, projected = volume.get("secret") or {}, volume.get("projected") or {}
    if own.get("secretName") == secret:
        yield own, own.get("defaultMode")
    for one in projected.get("sources") or ():
        part = one.get("secret") or {}
        if part.get("name") == secret:
            yield part, projected.get("defaultMode")


def starts(reader: api_reader.ApiReader, namespace: str) -> dict[str, tuple[datetime.datetime | None, str]]:
    """Pod with a container that mounts kube-scheduler's Secret -> its start, and how it is restarted.

    The start is that of the container, which may be later than that of its pod; None if it does not run.
    Raises Unseen.
    """
    found: dict[str, tuple[datetime.datetime | None, str]] = {}
    for pod in reader.items(f"/api/v1/namespaces/{namespace}/pods"):
        mounting = [] if own_pods.ended(pod) else _mounting(pod)
        if mounting:
            at = min(filter(None, (times.started(pod, name) for name in mounting)), default=0.0)
            start = datetime.datetime.fromtimestamp(at, datetime.UTC) if at else None
            found[f"{namespace}/{pod['metadata']['name']}"] = (start, restarts.of_pod(pod))
    return found


def elsewhere(reader: api_reader.ApiReader) -> list[checks.Elsewhere]:
    """The running kube-schedulers of the cluster, whatever they mount. Raises Unseen."""
    return [
        checks.Elsewhere(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
            str(pod["spec"].get("nodeName", "")),
            datetime.datetime.fromtimestamp(at, datetime.UTC),
            restarts.of_pod(pod),
        )
        for pod in reader.items("/api/v1/pods")
        for container in pod["spec"]["containers"]
        if scheduler_containers.arguments(container) is not None
        if (at := times.started(pod, str(container["name"])))
    ]


def _mounting(pod: Mapping[str, Any]) -> list[str]:
    """The containers that mount kube-scheduler's Secret."""
    secret, spec = _SECRETS["kube-scheduler"], pod["spec"]
    volumes = {one["name"] for one in spec.get("volumes") or () if any(_parts(one, secret))}
    return [
        one["name"]
        for one in spec["containers"]
        if any(mount["name"] in volumes for mount in one.get("volumeMounts") or ())
    ]


def _read(file: pathlib.Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise api_reader.Unseen(
            f"{file} cannot be read: {problem.strerror}", _create(file.parent)
        ) from problem


def _certificates(content: bytes, label: str, fix: str) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except ValueError as problem:
        raise Broken(f"{label} contains no readable certificate in PEM", fix) from problem


def _key(content: bytes, label: str, fix: str) -> certificate_checks.PrivateKey:
    try:
        return serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError) as problem:
        raise Broken(f"{label} contains no readable private key in PEM", fix) from problem


def _lists(crl: str) -> tuple[x509.CertificateRevocationList, ...]:
    mark = b"-----BEGIN X509 CRL-----"
    pieces = _read(pathlib.Path(crl)).split(mark)[1:]
    try:
        return tuple(x509.load_pem_x509_crl(mark + piece) for piece in pieces)
    except ValueError as problem:
        raise Broken(f"{crl} contains no readable revocation list in PEM", "renew it") from problem
