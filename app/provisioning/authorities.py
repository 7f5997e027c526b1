"""The CA of an installation, and its replacement by time.

kube-scheduler reads its CA once, so that nothing may be signed by a CA that it has not read. The Secret holds
the CA that signs, and around the end of its life a second one:

1. After two thirds of its life the following CA is made. Every Secret trusts both from then on; the old one
   signs.
2. Halfway from there to the end the following CA takes over, and every certificate is issued again. Whatever
   was restarted since the first step trusts it: with a life of ten years, 20 months.
3. The former CA is trusted until it ends.

An operator may have each step taken at once.
"""

import datetime
import enum
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from app.kube.writes import secrets
from app.provisioning import decisions
from app.provisioning.decisions import Outcome, SecretDecision
from app.serving import errors
from app.serving.tls import certificate_checks, certificate_issuer

SECRET: Final = "topolog-ca"
DAYS: Final = 3650
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_FOLLOWING: Final = ("next.crt", "next.key")
FORMER: Final = "former.crt"


class AuthorityStep(enum.StrEnum):
    """A step of the CA's replacement that is taken now instead of when it is due."""

    ANNOUNCE = "announce"
    """Make the following CA."""
    TAKE_OVER = "take-over"
    """Let it sign."""
    DROP = "drop"
    """Trust the former CA no longer."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA that signs, and those that are trusted beside it."""

    signer: certificate_issuer.Pair
    following: certificate_issuer.Pair | None = None
    former: tuple[x509.Certificate, ...] = ()

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """Every CA, the signing one first."""
        following = (self.following.certificate,) if self.following else ()
        return (self.signer.certificate, *following, *self.former)

    def bundle(self) -> bytes:
        """The trusted CAs in PEM."""
        return _pem(self.trusted)

    def signed(self, held: x509.Certificate) -> bool:
        """Whether a certificate is of the CA that signs; of the following one after another run."""
        following = (self.following.certificate,) if self.following else ()
        return any(is_signed_by(held, each) for each in (self.signer.certificate, *following))

    def trusts(self, held: x509.Certificate) -> bool:
        """Whether a certificate is of one of the CAs."""
        return any(is_signed_by(held, each) for each in self.trusted)


def decide(
    current: secrets.Secret | None,
    now: datetime.datetime,
    *,
    dependents: str,
    days: float = DAYS,
    step: AuthorityStep | None = None,
    replaces: bool = True,
) -> SecretDecision:
    """What is done with the CA. ``dependents``: the Secrets that were signed by it, for a sentence.

    ``replaces``: whether it is replaced when that is due; a server of another issuer trusts no following CA.
    """
    if current is None:
        if dependents:
            return decisions.refused(
                f"is missing, but {dependents} exist: nothing can be issued or renewed."
                f" {_remedy(dependents, replaces)}"
            )
        made = Authority(certificate_issuer.new_authority(now, days))
        return SecretDecision(
            Outcome.CREATED, f"a CA, {until(made.signer.certificate)}", _data(made), secrets.TLS
        )
    if lacking := decisions.lacking(current, (CERTIFICATE, KEY)):
        return decisions.refused(f"lacks {lacking}: it must hold the CA's certificate and private key")
    try:
        held = load(current)
    except (ValueError, errors.BadMaterial) as error:
        return decisions.refused(f"cannot be used: {error}")
    own = replaces and decisions.made_here(current)
    # After a pause the CA that signs may have ended, and the following one takes over.
    following = held.following if own and held.following and now >= _takeover(held) else None
    authority = (following or held.signer).certificate
    flaw = certificate_checks.flaw_of_authority(authority)
    if flaw := flaw or certificate_checks.flaw_of_time(authority, now):
        everything = ", ".join(filter(None, ("it", dependents)))
        return decisions.refused(f"cannot be used: {flaw}. {_remedy(everything, replaces)}")
    if own:
        return _advanced(held, now, days, step)
    if step:
        return decisions.refused("was not made by topolog bootstrap, which replaces no CA of others")
    return SecretDecision(Outcome.KEPT, f"a CA, {until(authority)}")


def load(secret: secrets.Secret) -> Authority:
    """The CAs in a complete Secret. Raises BadMaterial or ValueError."""
    signer = certificate_issuer.load_pair(secret.data[CERTIFICATE], secret.data[KEY])
    following = None
    if all(secret.data.get(key) for key in _FOLLOWING):
        following = certificate_issuer.load_pair(*(secret.data[key] for key in _FOLLOWING))
    former = x509.load_pem_x509_certificates(secret.data[FORMER]) if secret.data.get(FORMER) else ()
    return Authority(signer, following, tuple(former))


def _remedy(obsolete: str, replaces: bool) -> str:
    if not replaces:
        return (
            f"Restore it from a backup, or delete {obsolete} and have them issued as the server's certificate"
        )
    return (
        f"Restore it from a backup, or delete {obsolete} to start with a new CA, and restart extenders and"
        " kube-schedulers"
    )


def until(held: x509.Certificate) -> str:
    """The end of a certificate, for a sentence."""
    return f"valid until {held.not_valid_after_utc:%Y-%m-%d}"


def _advanced(
    held: Authority, now: datetime.datetime, days: float, step: AuthorityStep | None
) -> SecretDecision:
    """The next step that is due, one in each run, so that no step is skipped after a long pause."""
    authority, former = held.signer.certificate, held.former
    valid = tuple(
        each for each in former if now <= each.not_valid_after_utc and step is not AuthorityStep.DROP
    )
    if held.following is None and (now >= due(authority) or step is AuthorityStep.ANNOUNCE):
        made = Authority(held.signer, certificate_issuer.new_authority(now, days), valid)
        return SecretDecision(
            Outcome.UPDATED,
            f"a CA, {until(authority)}, and the one that follows: restart kube-schedulers until"
            f" {_takeover(made):%Y-%m-%d}, when it takes over",
            _data(made),
        )
    if held.following is not None and (now >= _takeover(held) or step is AuthorityStep.TAKE_OVER):
        made = Authority(held.following, None, (authority, *valid))
        return SecretDecision(
            Outcome.RENEWED,
            f"a CA, {until(made.signer.certificate)}; the former one is trusted until it ends",
            _data(made),
        )
    if valid != former:
        made = Authority(held.signer, held.following, valid)
        return SecretDecision(
            Outcome.UPDATED, f"a CA, {until(authority)}; a former one is trusted no longer", _data(made)
        )
    # After a run that was killed, the step may have been taken.
    if step is AuthorityStep.TAKE_OVER and not former:
        return decisions.refused("has no following CA that could take over: announce one first")
    also = f"; another one follows on {_takeover(held):%Y-%m-%d}" if held.following else ""
    return SecretDecision(Outcome.KEPT, f"a CA, {until(authority)}{also}")


def due(held: x509.Certificate) -> datetime.datetime:
    """When a certificate must be replaced: after two thirds of its life, as cert-manager does by default."""
    life = held.not_valid_after_utc - held.not_valid_before_utc
    return held.not_valid_before_utc + life * 2 / 3


def _takeover(held: Authority) -> datetime.datetime:
    """Halfway from the announcement of the following CA to the end of the one that signs."""
    assert held.following is not None
    announced, end = (
        held.following.certificate.not_valid_before_utc,
        held.signer.certificate.not_valid_after_utc,
    )
    return announced + (end - announced) / 2


def _data(held: Authority) -> dict[str, bytes]:
    data = {CERTIFICATE: held.signer.certificate_pem(), KEY: held.signer.key_pem()}
    if held.following:
        pair = (held.following.certificate_pem(), held.following.key_pem())
        data |= dict(zip(_FOLLOWING, pair, strict=True))
    if held.former:
        data[FORMER] = _pem(held.former)
    return data


def _pem(certificates: tuple[x509.Certificate, ...]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def is_signed_by(held: x509.Certificate, by: x509.Certificate) -> bool:
    """Whether a certificate is directly signed by another one, which is its issuer by name."""
    try:
        held.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
