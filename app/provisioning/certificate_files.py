"""The certificates of an installation, made of the files of ``topolog certs`` instead of issued here.

The CA's key stays where it is, so nothing here renews what was made of files: after `topolog certs --renew`
another run takes the new files. Secrets made of files have a label of their own, so a run writes no others.
"""

import datetime
import pathlib
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from app.kube.writes import secrets
from app.provisioning import authorities, certificates, decisions
from app.provisioning.decisions import Outcome, SecretDecision
from app.serving.tls import certificate_checks

LABELS: Final = {**decisions.LABELS, decisions.MANAGED_BY: "topolog-certs"}
"""The labels of a Secret that was made of files."""
FILES: Final = {certificates.SERVER: "server"} | certificates.CLIENTS
"""Secret -> name of its files."""
_OWN: Final = (certificates.CERTIFICATE, certificates.KEY)


def decide(
    name: str, current: secrets.Secret | None, folder: pathlib.Path, now: datetime.datetime
) -> SecretDecision:
    """What is done with the Secret of the server or of a client. ``folder``: where the files are."""
    paths = {
        certificates.CERTIFICATE: folder / f"{FILES[name]}.crt",
        certificates.KEY: folder / f"{FILES[name]}.key",
        certificates.TRUST: folder / "ca.crt",
    }
    try:
        data = {key: path.read_bytes() for key, path in paths.items()}
    except OSError as error:
        if name in certificates.CLIENTS and not any(paths[each].exists() for each in _OWN):
            outcome = Outcome.SKIPPED if current is None else Outcome.KEPT
            return SecretDecision(outcome, f"{folder} has no {FILES[name]}.crt")
        return decisions.refused(f"is not written: {error.filename}: {error.strerror}")
    try:
        held, *chain = x509.load_pem_x509_certificates(data[certificates.CERTIFICATE])
        key = serialization.load_pem_private_key(data[certificates.KEY], None)
        trusted = x509.load_pem_x509_certificates(data[certificates.TRUST])
    except (ValueError, TypeError) as error:
        return decisions.refused(f"is not written: {paths[certificates.CERTIFICATE]} or its key: {error}")
    flaw = certificate_checks.flaw_of_time(held, now)
    public = (certificate_checks.public_bytes(each) for each in (held.public_key(), key.public_key()))
    if len(set(public)) > 1:
        flaw = f"is not of the key in {paths[certificates.KEY]}"
    elif not flaw and not any(authorities.is_signed_by(held, each) for each in (*chain, *trusted)):
        flaw = f"is not signed by a CA in {paths[certificates.TRUST]}"
    if flaw:
        return decisions.refused(f"is not written: {paths[certificates.CERTIFICATE]}: {flaw}")
    detail = f"of {paths[certificates.CERTIFICATE]}; {authorities.until(held)}"
    if current is None:
        return SecretDecision(Outcome.CREATED, detail, data, secrets.TLS, LABELS)
    if current.data == data:
        return SecretDecision(Outcome.KEPT, detail)
    if current.labels.get(decisions.MANAGED_BY) != LABELS[decisions.MANAGED_BY]:
        return decisions.refused("was not made of files: delete it, and the next run makes it of them")
    return SecretDecision(Outcome.UPDATED, detail, data)
