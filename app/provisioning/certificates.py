"""The CA and the certificates of an installation, each in a Secret of the type kubernetes.io/tls.

A certificate is renewed once two thirds of its life have passed, as cert-manager does by default, so that
months remain to notice that renewal fails. Each Secret trusts every CA of the installation (authorities).
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from app.kube.writes import secrets
from app.provisioning import authorities, decisions
from app.provisioning.decisions import Outcome, SecretDecision
from app.serving import errors
from app.serving.tls import certificate_checks, certificate_issuer, role_names

SERVER: Final = "topolog-tls"
STORE: Final = "topolog-valkey-tls"
"""The server certificate of the bundled store."""
CLIENTS: Final = {f"topolog-{role}-tls": role for role in role_names.ROLES}
"""Secret -> role of its certificate."""

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
TRUST: Final = "ca.crt"
ALL: Final = (CERTIFICATE, KEY, TRUST)
_MALFORMED: Final = (ValueError, errors.BadMaterial)
_READ_WITHIN: Final = datetime.timedelta(minutes=65)
"""Time in which the store's server gets a new certificate: an hourly run, and the kubelet's minutes."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How certificates are issued."""

    hosts: Sequence[str]
    """DNS names and addresses of the extender."""
    days: float
    """Days of validity."""
    now: datetime.datetime
    authority_days: float = authorities.DAYS
    """Days of validity of a CA."""
    authority_step: authorities.AuthorityStep | None = None
    """What is done with the CA now, although it is not due."""
    store_hosts: Sequence[str] = ()
    """DNS names of the bundled store; none: it is reached without TLS."""

    namespace: str = "topolog-system"
    """Where the Secrets are, for the commands of an operator."""

    @property
    def reissue(self) -> str:
        """What has an unusable certificate issued again."""
        return (
            "delete it, and run topolog bootstrap again; where its Deployment runs,"
            f" `kubectl -n {self.namespace} rollout restart deployment/topolog-bootstrap`"
        )

    def named(self, name: str) -> Sequence[str]:
        """The names in a server's certificate; none for a client's."""
        return {SERVER: self.hosts, STORE: self.store_hosts}.get(name, ())


def certificate(
    name: str,
    current: secrets.Secret | None,
    signer: authorities.Authority | None,
    terms: Terms,
    *,
    serves: bool,
) -> SecretDecision:
    """What is done with the Secret of the server or of a client; without a signer nothing is issued.

    ``serves``: the server's certificate is of the signer. If not, Secrets that exist are renewed, and trust
    what they trusted: the operator has put the CA of the other issuer there.
    """
    if current is None:
        if signer is None or not serves:
            return SecretDecision(
                Outcome.SKIPPED,
                f"not issued: topolog bootstrap did not issue {SERVER}, which would not trust it. If a pod"
                f" needs it, issue it as {SERVER} was",
            )
        return _issued(name, terms.named(name), signer, signer.bundle(), terms, Outcome.CREATED)
    own = decisions.made_here(current)
    remedy = terms.reissue if own else "it was not made by topolog bootstrap: repair it"
    if lacking := decisions.lacking(current, ALL):
        return decisions.refused(f"lacks {lacking}: {remedy}")
    try:
        held = x509.load_pem_x509_certificate(current.data[CERTIFICATE])
        x509.load_pem_x509_certificates(current.data[TRUST])
        if not own:
            return _of_another(held, terms.now)
        certificate_issuer.load_pair(current.data[CERTIFICATE], current.data[KEY])
    except _MALFORMED as error:
        return decisions.refused(f"cannot be used ({error}): {remedy}")
    if signer is not None:
        if not signer.trusts(held):
            return decisions.refused(f"is not signed by the CA in {authorities.SECRET}: {remedy}")
        trust = signer.bundle() if serves else current.data[TRUST]
        if not signer.signed(held) or _due(name, held, terms):
            # The names that an earlier run was given stay.
            names = certificate_issuer.with_names_of(held, terms.named(name))
            return _issued(name, names, signer, trust, terms, Outcome.RENEWED)
        if current.data[TRUST] != trust:
            # Before the certificate of the other side changes, and without a new key.
            return SecretDecision(Outcome.UPDATED, _described(held), {**current.data, TRUST: trust})
    return SecretDecision(Outcome.KEPT, _described(held))


def undroppable(
    authority: secrets.Secret | None, existing: Mapping[str, secrets.Secret], terms: Terms
) -> str:
    """Why the former CA may not be dropped yet, for a sentence; empty if it may.

    A certificate may still be of it: one that was not issued again, because the run that let the other CA
    take over was killed, or the one that the store shows.
    """
    if authority is None or not authority.data.get(authorities.FORMER):
        return ""
    if decisions.lacking(authority, (CERTIFICATE, KEY)):
        return ""
    try:
        signer = authorities.load(authority)
    except _MALFORMED:
        return ""
    made = {name: _held(each) for name, each in existing.items() if decisions.made_here(each)}
    held = {name: each for name, each in made.items() if each is not None}
    if stranded := [name for name, each in held.items() if not signer.signed(each)]:
        return (
            "holds a CA that has to be trusted until these certificates are issued again:"
            f" {', '.join(stranded)}. Run topolog bootstrap without --ca, and drop it afterwards"
        )
    store = held.get(STORE)
    if store is None:
        return ""
    until = store.not_valid_before_utc + certificate_issuer.SKEW + _READ_WITHIN
    if terms.now >= until:
        return ""
    return (
        f"holds a CA that the certificate of the bundled store may still be of: drop it after"
        f" {until:%Y-%m-%d %H:%M} UTC, when an hourly run has made the server read {STORE}"
    )


def _held(secret: secrets.Secret) -> x509.Certificate | None:
    """The certificate of a Secret; None if it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(secret.data.get(CERTIFICATE, b""))
    except ValueError:
        return None


def _of_another(held: x509.Certificate, now: datetime.datetime) -> SecretDecision:
    if flaw := certificate_checks.flaw_of_time(held, now):
        return decisions.refused(f"{flaw}; topolog bootstrap did not issue it, so its issuer has to renew it")
    return SecretDecision(Outcome.KEPT, f"not issued by topolog bootstrap; {_described(held)}")


def _issued(
    name: str,
    hosts: Sequence[str],
    authority: authorities.Authority,
    trust: bytes,
    terms: Terms,
    outcome: Outcome,
) -> SecretDecision:
    if hosts:
        pair = certificate_issuer.server_pair(authority.signer, hosts, terms.now, terms.days)
    else:
        pair = certificate_issuer.client_pair(authority.signer, CLIENTS[name], terms.now, terms.days)
    data = {
        CERTIFICATE: pair.certificate_pem(),
        KEY: pair.key_pem(),
        TRUST: trust,
    }
    return SecretDecision(outcome, _described(pair.certificate), data, secrets.TLS)


def _due(name: str, held: x509.Certificate, terms: Terms) -> bool:
    if not set(certificate_issuer.spelled(terms.named(name))) <= set(certificate_checks.hosts(held)):
        return True
    # One that is not valid yet was issued by a clock that was ahead.
    return terms.now >= authorities.due(held) or terms.now < held.not_valid_before_utc


def _described(held: x509.Certificate) -> str:
    names = certificate_checks.alternative_names(held)
    found = [str(each.value) for each in names or ()]
    return f"for {', '.join(found) or 'no names'}; {authorities.until(held)}"
