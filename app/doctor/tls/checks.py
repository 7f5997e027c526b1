"""Checks of certificates: pure functions of what was loaded, and of the time."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cryptography import exceptions, x509
from cryptography.x509 import oid

from app import clocks, plurals
from app.doctor.tls import catalog
from app.framework import doctor_checks
from app.serving.access import roles
from app.serving.tls import certificate_checks, certificate_issuer, role_names

SOON: Final = datetime.timedelta(days=14)
_OTHERS = 0o007
_PASSWORD: Final = "another TLS_KEYSTORE_PASSWORD, and stores that are encrypted with it"
_LONGEST_CHAIN = 8
_PROPAGATION: Final = datetime.timedelta(minutes=2)
"""How long the kubelet takes to update the files of a Secret that a pod mounts already."""

Name = Literal["extender", "kube-scheduler", "store"]


@dataclass(frozen=True, slots=True)
class Side:
    """The TLS material of one side, as it was loaded."""

    name: Name
    source: str
    """Where it was read: files or a Secret."""
    chain: tuple[x509.Certificate, ...]
    """The certificate, followed by its intermediates."""
    key: certificate_checks.PrivateKey | None = field(repr=False)
    """None if it was not read."""
    authorities: tuple[x509.Certificate, ...]
    revocations: tuple[x509.CertificateRevocationList, ...] = ()
    modes: Mapping[str, int] = field(default_factory=dict)
    """File with a private key -> its permission bits."""
    well_known: bool = False
    """A password is `changeit`."""
    trust: str = ""
    """Where the CAs were read; empty: ``source``."""
    folder: str = ""
    """The directory of its files."""
    secret: tuple[str, str] | None = None
    """Namespace and name of its Secret, if it was not read from files."""
    created: float = 0.0
    """Seconds since 1970 of the creation of its Secret; 0 if it was read from files."""

    @property
    def subject(self) -> str:
        """The side in results."""
        return f"{self.name}, {self.source}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A running kube-scheduler that does not mount the Secret of its certificate."""

    pod: str
    """NAMESPACE/NAME."""
    node: str
    at: datetime.datetime
    """When it was started."""
    restart: str
    """How it is restarted."""


def renewal(side: Side, hosts: Collection[str], *, force: bool = False) -> str:
    """What renews a certificate; ``hosts``: the names of the extender's; ``force``: the CA, too."""
    if side.secret is not None:
        return recreation(*side.secret) if force else _RENEW_SECRET.format(*side.secret)
    named = " ".join(f"--host {host}" for host in hosts) or "with a --host for each name of the extender,"
    option = "--force" if force else "--renew"
    return f"topolog certs {side.folder} {named} {option}, or let its issuer sign it again"


def recreation(namespace: str, secret: str) -> str:
    """What creates a Secret once more."""
    return (
        f"kubectl -n {namespace} delete secret {secret}; kubectl -n {namespace} rollout restart"
        f" deployment/topolog-bootstrap creates it; without topolog-bootstrap replace it"
    )


_RENEW_SECRET: Final = (
    "kubectl -n {0} rollout restart deployment/topolog-bootstrap renews what is due; without"
    " topolog-bootstrap let the issuer of Secret {1} renew it, or replace it"
)


def times(
    side: Side,
    now: datetime.datetime,
    chains: Collection[Sequence[x509.Certificate]],
    hosts: Collection[str] = (),
) -> Iterator[doctor_checks.Result]:
    """T01: one result for each certificate, CA and list that is not well, or one for all.

    ``chains``: the certificates of the sides that are at hand, each followed by its intermediates. ``hosts``:
    the names of the extender's certificate.
    """
    needed = [one for one in side.authorities if not _replaced(one, side.authorities, now, chains)]
    wrong = [*_times(side, needed, now, hosts)]
    if not wrong:
        ends = [one.not_valid_after_utc for one in (*side.chain, *needed)]
        wrong = [catalog.TIME.ok(side.subject, f"valid until {_at(min(ends))}")] if ends else []
    yield from wrong


def _replaced(
    former: x509.Certificate,
    authorities: Sequence[x509.Certificate],
    now: datetime.datetime,
    chains: Collection[Sequence[x509.Certificate]],
) -> bool:
    """Whether every certificate is signed by another CA that is valid, and ends later than this one."""
    return any(
        one.not_valid_before_utc <= now <= one.not_valid_after_utc
        and one.not_valid_after_utc > former.not_valid_after_utc
        and all(_issued_by(chain, (one,)) for chain in chains)
        for one in authorities
    )


def _times(
    side: Side, authorities: Sequence[x509.Certificate], now: datetime.datetime, hosts: Collection[str]
) -> Iterator[doctor_checks.Result]:
    labelled = [("the certificate", one) for one in side.chain[:1]]
    labelled += [("an intermediate", one) for one in side.chain[1:]]
    labelled += [("the CA", one) for one in authorities]
    for label, one in labelled:
        end, begin = one.not_valid_after_utc, one.not_valid_before_utc
        fix = renewal(side, hosts, force=label == "the CA")
        if now > end:
            # A CA that has ended beside a valid one is harmless, unless clients have certificates of it.
            others = [
                each for each in side.authorities if each is not one and now <= each.not_valid_after_utc
            ]
            verdict = catalog.TIME.warning if label == "the CA" and others else catalog.TIME.problem
            yield verdict(side.subject, f"{label} ended at {_at(end)}", fix=fix)
        elif now < begin:
            yield catalog.TIME.problem(
                side.subject,
                f"{label} begins at {_at(begin)}; it is {_at(now)} here",
                fix=f"compare the clocks; if this one is right: {fix}",
            )
        elif end < now + SOON:
            yield catalog.TIME.warning(side.subject, f"{label} ends at {_at(end)}", fix=fix)
    for each in side.revocations:
        due = each.next_update_utc
        if due is not None and due < now + SOON:
            late = due < now
            verdict = catalog.TIME.problem if late else catalog.TIME.warning
            yield verdict(
                side.subject,
                f"the revocation list {'ended' if late else 'ends'} at {_at(due)}",
                why="an outdated list refuses every client",
                fix="let the CA issue the list again, and replace the file of tls.crl",
            )


def server(side: Side, now: datetime.datetime) -> doctor_checks.Result:
    """T02 for the extender's certificate; time is T01's."""
    leaf = side.chain[0]
    if side.key is None:
        return catalog.FIT.unsure(side.subject, "the private key was not read", fix="name it in tls.key")
    flaw = certificate_checks.flaw_of_server(leaf, side.key, max(now, leaf.not_valid_before_utc))
    if flaw and not certificate_checks.flaw_of_time(leaf, now):
        fix = renewal(side, certificate_checks.hosts(leaf), force=True)
        return catalog.FIT.problem(side.subject, flaw, fix=fix)
    return catalog.FIT.ok(side.subject, f"names: {', '.join(certificate_checks.hosts(leaf)) or 'none'}")


def named(side: Side, subject: str, host: str) -> doctor_checks.Result:
    """T02 for a further name of the extender's certificate."""
    names = certificate_checks.hosts(side.chain[0])
    wildcard = f"*.{host.partition('.')[2]}"
    if host in names or wildcard in names:
        return catalog.FIT.ok(subject, f"the certificate of {side.source} is for {host}")
    return catalog.FIT.warning(
        subject,
        f"the certificate of {side.source} lacks the name {host}",
        why="clients have to pass --server-name",
        fix="topolog bootstrap adds it; otherwise sign the certificate again with this name",
    )


def client(
    side: Side, names: Mapping[str, Collection[str]], hosts: Collection[str] = ()
) -> doctor_checks.Result:
    """T02 for kube-scheduler's certificate; ``names``: further names by role, of the settings.

    ``hosts``: the names of the extender's certificate.
    """
    fix = renewal(side, hosts, force=True)
    leaf = side.chain[0]
    if side.key is None:
        return catalog.FIT.unsure(side.subject, "the private key was not read", fix="name it with --dir")
    if _public(side.key) != certificate_checks.public_bytes(leaf.public_key()):
        return catalog.FIT.problem(
            side.subject, "the private key does not belong to the certificate", fix=fix
        )
    usages = certificate_checks.extended_usages(leaf)
    if usages and not usages & {
        oid.ExtendedKeyUsageOID.CLIENT_AUTH,
        oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }:
        return catalog.FIT.problem(side.subject, "its extended key usage lacks clientAuth", fix=fix)
    identity = roles.RoleBindings(names).identity_of(_peer(leaf))
    if role_names.SCHEDULER not in identity.roles:
        return catalog.FIT.problem(
            side.subject,
            f"no name of it has the role scheduler: {identity.name}",
            fix=f"sign it with the URI {role_names.uri(role_names.SCHEDULER)},"
            " or add its name to identities.scheduler",
        )
    return catalog.FIT.ok(side.subject, f"role scheduler, by {identity.name}")


def trusted(side: Side, other: Side) -> doctor_checks.Result:
    """T03: whether ``other`` trusts the certificate of ``side``."""
    subject = f"{side.name}'s certificate, trusted by {other.name}"
    issuer, trust = side.chain[0].issuer.rfc4514_string(), other.trust or other.source
    if not other.authorities:
        return catalog.CHAIN.problem(subject, f"{trust} has no CA")
    if _issued_by(side.chain, other.authorities):
        return catalog.CHAIN.ok(subject, f"issued by {issuer}, which is in {trust}")
    named = any(one.subject == side.chain[0].issuer for one in other.authorities)
    seen = f"issued by {issuer}, which is not in {trust}"
    if named:
        seen = f"{trust} has a CA of the name {issuer}, with another key"
    return catalog.CHAIN.problem(subject, seen)


def loaded(
    side: Side, started: Mapping[str, tuple[datetime.datetime | None, str]]
) -> Iterator[doctor_checks.Result]:
    """T04; ``started``: pod of a kube-scheduler -> when it was started, and how it is restarted.

    None: it does not run, and reads its CA when it is started; that is unsure only if none runs.
    """
    idle = all(at is None for at, _ in started.values())
    newest = max((one.not_valid_before_utc for one in side.authorities), default=None)
    created = datetime.datetime.fromtimestamp(side.created, datetime.UTC)
    since = _delivered(created, newest) if newest else None
    for pod, (at, restart) in sorted(started.items()):
        if at is None:
            if idle:
                namespace, _, name = pod.partition("/")
                yield catalog.LOADED.unsure(
                    f"pod {pod}",
                    f"the container that mounts {side.source} does not run",
                    fix=f"kubectl -n {namespace} describe pod {name} has the reason; repeat the check when it"
                    " runs",
                )
        elif newest is not None and since is not None and newest <= at < created and since < created:
            yield catalog.LOADED.unsure(
                f"pod {pod}",
                f"kube-scheduler started at {_at(at)}; the CA of {side.source} begins at {_at(newest)}, and"
                f" the Secret was created at {_at(created)}: which CA its files had at the start is not seen",
                fix=f"if the Secret of that time had another CA: {restart}",
            )
        elif newest is not None and since is not None and at < since:
            yield catalog.LOADED.warning(
                f"pod {pod}",
                f"kube-scheduler started at {_at(at)}; a CA of {side.source} begins at {_at(newest)}, and is"
                f" in its files since {_at(since)} at the latest",
                fix=restart,
            )
        else:
            yield catalog.LOADED.ok(
                f"pod {pod}", f"kube-scheduler started at {_at(at)}, after its CA was created"
            )


def not_seen(side: Side, elsewhere: Sequence[Elsewhere]) -> Iterator[doctor_checks.Result]:
    """T04 where no kube-scheduler mounts the Secret of a side: they trust a copy of its CA.

    ``elsewhere``: the kube-schedulers of the cluster.
    """
    for one in elsewhere:
        yield catalog.LOADED.unsure(
            f"pod {one.pod}",
            f"kube-scheduler started at {_at(one.at)}; since when the CA of {side.source} is in its files is"
            " not seen, because it does not mount that Secret",
            fix=f"on node {one.node} compare the file of tlsConfig.caFile with ca.crt of {side.source}; if it"
            f" was written after that start: {one.restart}",
        )
    if not elsewhere:
        yield catalog.LOADED.unsure(
            "kube-scheduler",
            f"no pod runs one, with {side.source} or without",
            fix=f"where it runs, compare the file of tlsConfig.caFile with ca.crt of {side.source}, and"
            " restart a kube-scheduler that was started before the file was written",
        )


def _delivered(created: datetime.datetime, begin: datetime.datetime) -> datetime.datetime:
    """By when the CA that begins then is in the files of every pod that mounts the Secret, as created then.

    A CA begins before it is created, by SKEW at most. A container starts after the Secrets that it mounts
    were created: the moment of a Secret that was created with this CA is exact. One that is created later
    takes the place of another one, which may have had the CA.
    """
    latest = begin + certificate_issuer.SKEW + _PROPAGATION
    return created if begin <= created <= latest else latest


def secrecy(side: Side) -> doctor_checks.Result:
    """T05 for files."""
    open_files = [file for file, mode in side.modes.items() if mode & _OTHERS]
    if open_files:
        spelled = ", ".join(f"{file} ({side.modes[file] & 0o777:04o})" for file in open_files)
        return catalog.SECRECY.problem(
            side.subject, f"readable by every user: {spelled}", fix=f"chmod 0640 {' '.join(open_files)}"
        )
    if side.well_known:
        return catalog.SECRECY.warning(side.subject, "the password of the store is well known", fix=_PASSWORD)
    return catalog.SECRECY.ok(side.subject, "private keys are readable by owner and group only")


def mounted(side: Side, modes: Mapping[str, int]) -> doctor_checks.Result:
    """T05 for a Secret; ``modes``: its private key in a volume of a pod -> permission bits."""
    others = [f"{key} ({mode & 0o777:04o})" for key, mode in sorted(modes.items()) if mode & _OTHERS]
    if others:
        return catalog.SECRECY.warning(
            side.subject,
            f"readable by every user of a container: {plurals.listed(others)}",
            fix="defaultMode: 0440 in these volumes, in what the pods are made from, with"
            " securityContext.fsGroup there if a container does not run as root: it could not read the key",
        )
    if not modes:
        return catalog.SECRECY.unsure(
            side.subject,
            "no pod of its namespace mounts the private key: who can read its copies is not seen",
            fix="chmod 0640 on each copy of tls.key; without copies not applicable (--skip T05)",
        )
    volumes = plurals.counted(len(modes), "volume")
    return catalog.SECRECY.ok(side.subject, f"readable by owner and group only, in {volumes}")


def _issued_by(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether a path of signatures leads from the first certificate to an authority."""
    current, rest = chain[0], list(chain[1:])
    for _ in range(_LONGEST_CHAIN):
        if any(_signed(current, one) for one in authorities):
            return True
        following = next((one for one in rest if _signed(current, one)), None)
        if following is None:
            return False
        rest.remove(following)
        current = following
    return False


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, exceptions.InvalidSignature):
        return False
    return True


def _peer(certificate: x509.Certificate) -> dict[str, object]:
    """The names of a certificate in the form of ``ssl.SSLSocket.getpeercert``."""
    names = certificate_checks.alternative_names(certificate)
    if names is None:
        return {}
    uris = (("URI", uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier))
    hosts = (("DNS", host) for host in names.get_values_for_type(x509.DNSName))
    return {"subjectAltName": (*uris, *hosts)}


def _public(key: certificate_checks.PrivateKey) -> bytes:
    return certificate_checks.public_bytes(key.public_key())


def _at(when: datetime.datetime) -> str:
    return clocks.rfc3339(when.timestamp())
