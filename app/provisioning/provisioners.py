"""Brings the Secrets of an installation about, one after the other.

Each Secret is written by one request, whole, and only if it is missing or made here. A run that is killed
leaves complete Secrets, and the next one makes the others. Of two runs at once, the API server accepts the
first write to a Secret; the other run reads it and continues with what it holds.
"""

import functools
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.kube.writes import secrets
from app.provisioning import (
    authorities,
    certificate_files,
    certificates,
    decisions,
    password_steps,
    store_access,
)
from app.provisioning.decisions import Outcome, SecretDecision

ATTEMPTS = 10
"""How often a Secret is decided about again because another client has written it."""

Decide = Callable[[secrets.Secret | None], SecretDecision]


class Contended(Exception):
    """Another client keeps writing a Secret."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Secret {name} is written by another client again and again")


class SecretAccess(Protocol):
    """Where Secrets are kept."""

    def read(self, name: str) -> secrets.Secret | None:
        """The Secret; None if it does not exist."""
        ...

    def write(self, secret: secrets.Secret) -> bool:
        """Create it, or replace the one that was read; False if another client was first."""
        ...


class DryRun:
    """Reads Secrets, and collects what would be written."""

    def __init__(self, access: SecretAccess) -> None:
        self._access = access
        self.written: dict[str, secrets.Secret] = {}

    def read(self, name: str) -> secrets.Secret | None:
        """The Secret as it would be."""
        return self.written.get(name) or self._access.read(name)

    def write(self, secret: secrets.Secret) -> bool:
        """Collect the Secret."""
        self.written[secret.name] = secret
        return True


@dataclass(frozen=True, slots=True)
class Plan:
    """What the installation needs."""

    cluster: str
    terms: certificates.Terms
    store: str = ""
    """URL of the bundled server without a user; empty: the store is not made here."""
    certificates: bool = True
    """False: another program makes the certificates, and those that are missing are not made here."""
    files: pathlib.Path | None = None
    """A directory of ``topolog certs`` that has the certificates; None: they are issued here."""
    password_step: password_steps.PasswordStep | None = None
    """What is done with the passwords of the store; then nothing else is."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was done with one Secret."""

    name: str
    outcome: Outcome
    detail: str


def provision(access: SecretAccess, plan: Plan) -> Sequence[Result]:
    """Make what is missing and renew what is due. Raises Contended and what ``access`` raises."""
    run = _Run(access)
    if step := plan.password_step:
        run.settle(store_access.URLS, lambda current: password_steps.decide(current, step, access))
        if run.results[-1].outcome is not Outcome.REFUSED:
            run.hashes()
        return run.results
    # First: pods that mount a new certificate of the store then find the URLs that need it.
    if plan.store:
        tls = bool(plan.terms.store_hosts)
        decide = functools.partial(store_access.urls, server=plan.store, cluster=plan.cluster, tls=tls)
        run.settle(store_access.URLS, decide)
        run.hashes()
    if plan.files:
        for name in certificate_files.FILES:
            of_files = functools.partial(certificate_files.decide, folder=plan.files, now=plan.terms.now)
            run.settle(name, functools.partial(of_files, name))
    elif plan.certificates:
        run.certificates(plan.terms)
    return run.results


class _Run:
    def __init__(self, access: SecretAccess) -> None:
        self._access = access
        self.results: list[Result] = []

    def hashes(self) -> None:
        given = self._access.read(store_access.URLS)
        self.settle(store_access.HASHES, lambda current: store_access.hashes(current, given))

    def certificates(self, terms: certificates.Terms) -> None:
        # Before the CA is read: a certificate that exists here was signed by a CA that exists then.
        names = (certificates.SERVER, *certificates.CLIENTS, certificates.STORE)
        existing = {name: found for name in names if (found := self._access.read(name)) is not None}
        # A run by hand may not name the store; its certificate is of the same CA.
        of_store = existing.get(certificates.STORE)
        if not terms.store_hosts and (of_store is None or not decisions.made_here(of_store)):
            names = names[:-1]
        if terms.authority_step is authorities.AuthorityStep.DROP:
            authority = self._access.read(authorities.SECRET)
            if reason := certificates.undroppable(authority, existing, terms):
                self.results.append(Result(authorities.SECRET, Outcome.REFUSED, reason))
                return
        server = existing.get(certificates.SERVER)
        serves = server is None or decisions.made_here(server)
        if terms.authority_step and not serves:
            detail = (
                f"{certificates.SERVER} was not made by topolog bootstrap, which replaces no CA of others"
            )
            self.results.append(Result(authorities.SECRET, Outcome.REFUSED, detail))
            return
        signed = ", ".join(name for name, each in existing.items() if decisions.made_here(each))
        signer = None
        # Beside a server of another issuer, what was made here is still renewed, and nothing else is made.
        if serves or signed:
            decide = functools.partial(
                authorities.decide,
                now=terms.now,
                dependents=signed,
                days=terms.authority_days,
                step=terms.authority_step,
                replaces=serves,
            )
            self.settle(authorities.SECRET, decide)
            if self.results[-1].outcome is Outcome.REFUSED:
                return
            held = self._access.read(authorities.SECRET)
            if held is None:
                raise Contended(authorities.SECRET)
            signer = authorities.load(held)
        decide_one = functools.partial(certificates.certificate, signer=signer, terms=terms, serves=serves)
        for name in names:
            self.settle(name, functools.partial(decide_one, name))

    def settle(self, name: str, decide: Decide) -> None:
        """Decide about a Secret until it is as decided."""
        for _ in range(ATTEMPTS):
            current = self._access.read(name)
            decision = decide(current)
            if not decision.writes or self._access.write(_secret(name, current, decision)):
                self.results.append(Result(name, decision.outcome, decision.detail))
                return
        raise Contended(name)


def _secret(name: str, current: secrets.Secret | None, decision: SecretDecision) -> secrets.Secret:
    """The Secret to write; a Secret that was read keeps its type, which cannot be changed."""
    if current is not None:
        return replace(current, data=decision.data)
    return secrets.Secret(name, decision.data, decision.type, decision.labels)
