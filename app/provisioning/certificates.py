"""The CA and the certificates of an installation, each in a Secret of the type kubernetes.io/tls.

A certificate is renewed once two thirds of its life have passed, as cert-manager does by default, so that
months remain to notice that renewal fails. The CA is never replaced: kube-scheduler reads it only once.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from app.kube.writes import secrets
from app.provisioning import decisions
from app.provisioning.decisions import Decision, Outcome
from app.serving import certificate_checks, errors, issuing, roles

AUTHORITY: Final = "topolog-ca"
AUTHORITY_DAYS: Final = 3650
SERVER: Final = "topolog-tls"
CLIENTS: Final = {f"topolog-{role}-tls": role for role in roles.ROLES}
"""Secret -> role of its certificate."""

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
TRUST: Final = "ca.crt"
_PAIR: Final = (CERTIFICATE, KEY)
_ALL: Final = (*_PAIR, TRUST)
_MALFORMED: Final = (ValueError, errors.BadMaterial)


@dataclass(frozen=True, slots=True)
class Terms:
    """How certificates are issued."""

    hosts: Sequence[str]
    """DNS names and addresses of the extender."""
    days: int
    """Days of validity."""
    now: datetime.datetime


def authority(current: secrets.Secret | None, now: datetime.datetime, *, dependents: str) -> Decision:
    """What is done with the CA. ``dependents``: the Secrets that were signed by it, for a sentence."""
    if current is None:
        if dependents:
            return decisions.refused(
                f"is missing, but {dependents} exist: nothing can be issued or renewed. Restore it from a"
                f" backup, or delete {dependents} to start with a new CA, and restart extenders and"
                " kube-schedulers"
            )
        pair = issuing.new_authority(now, AUTHORITY_DAYS)
        data = {CERTIFICATE: pair.certificate_pem(), KEY: pair.key_pem()}
        return Decision(Outcome.CREATED, f"a CA, {_until(pair.certificate)}", data, secrets.TLS)
    if lacking := decisions.lacking(current, _PAIR):
        return decisions.refused(f"lacks {lacking}: it must hold the CA's certificate and private key")
    try:
        pair = load(current)
    except _MALFORMED as error:
        return decisions.refused(f"cannot be used: {error}")
    flaw = certificate_checks.flaw_of_authority(pair.certificate)
    if flaw := flaw or certificate_checks.flaw_of_time(pair.certificate, now):
        return decisions.refused(f"cannot be used: {flaw}")
    return Decision(Outcome.KEPT, f"a CA, {_until(pair.certificate)}")


def load(secret: secrets.Secret) -> issuing.Pair:
    """The certificate and key of a complete Secret. Raises BadMaterial."""
    return issuing.load_pair(secret.data[CERTIFICATE], secret.data[KEY])


def certificate(
    name: str, current: secrets.Secret | None, signer: issuing.Pair | None, terms: Terms
) -> Decision:
    """What is done with the Secret of the server or of a client; without a signer nothing is issued."""
    if current is None:
        if signer is None:
            return Decision(
                Outcome.SKIPPED,
                f"not issued: topolog bootstrap did not issue {SERVER}, which would not trust it. If a pod"
                f" needs it, issue it as {SERVER} was",
            )
        return _issued(name, signer, terms, Outcome.CREATED)
    own = decisions.made_here(current)
    remedy = "delete it, and it is issued again" if own else "it was not made by topolog bootstrap: repair it"
    if lacking := decisions.lacking(current, _ALL):
        return decisions.refused(f"lacks {lacking}: {remedy}")
    try:
        held = x509.load_pem_x509_certificate(current.data[CERTIFICATE])
        x509.load_pem_x509_certificates(current.data[TRUST])
        if not own:
            return _of_another(held, terms.now)
        load(current)
    except _MALFORMED as error:
        return decisions.refused(f"cannot be used ({error}): {remedy}")
    if signer is not None and not _signed(held, signer):
        return decisions.refused(f"is not signed by the CA in {AUTHORITY}: {remedy}")
    if signer is not None and _due(name, held, terms):
        return _issued(name, signer, terms, Outcome.RENEWED)
    return Decision(Outcome.KEPT, _described(held))


def _signed(held: x509.Certificate, signer: issuing.Pair) -> bool:
    try:
        held.verify_directly_issued_by(signer.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _of_another(held: x509.Certificate, now: datetime.datetime) -> Decision:
    if flaw := certificate_checks.flaw_of_time(held, now):
        return decisions.refused(f"{flaw}; topolog bootstrap did not issue it, so its issuer has to renew it")
    return Decision(Outcome.KEPT, f"not issued by topolog bootstrap; {_described(held)}")


def _issued(name: str, signer: issuing.Pair, terms: Terms, outcome: Outcome) -> Decision:
    if name == SERVER:
        pair = issuing.server_pair(signer, terms.hosts, terms.now, terms.days)
    else:
        pair = issuing.client_pair(signer, CLIENTS[name], terms.now, terms.days)
    data = {
        CERTIFICATE: pair.certificate_pem(),
        KEY: pair.key_pem(),
        TRUST: signer.certificate_pem(),
    }
    return Decision(outcome, _described(pair.certificate), data, secrets.TLS)


def _due(name: str, held: x509.Certificate, terms: Terms) -> bool:
    if name == SERVER and not set(_spelled(terms.hosts)) <= set(certificate_checks.hosts(held)):
        return True
    life = held.not_valid_after_utc - held.not_valid_before_utc
    return terms.now >= held.not_valid_before_utc + life * 2 / 3


def _spelled(hosts: Sequence[str]) -> list[str]:
    """The names as they are in a certificate."""
    return [str(each.value) for each in issuing.alternative_names(hosts)]


def _described(held: x509.Certificate) -> str:
    names = certificate_checks.alternative_names(held)
    found = [str(each.value) for each in names or ()]
    return f"for {', '.join(found) or 'no names'}; {_until(held)}"


def _until(held: x509.Certificate) -> str:
    return f"valid until {held.not_valid_after_utc:%Y-%m-%d}"
