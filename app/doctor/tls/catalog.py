"""The checks of certificates: what has to be so, why it matters, and how it is fixed."""

from typing import Final

from app.framework import doctor_checks

_PAGE: Final = "how-to/certificates.md"
_RENEW: Final = "topolog certs DIRECTORY --host NAME --renew, then replace the files or the Secret"

TIME = doctor_checks.Check(
    "T01",
    "Certificates, CAs and revocation lists are valid by the clock of this machine, for 14 days or more.",
    "from that moment on every handshake fails, and no pod under a policy is scheduled",
    f"{_RENEW}; compare the clocks if it begins in the future",
    f"{_PAGE}#renew",
)
FIT = doctor_checks.Check(
    "T02",
    "Each certificate fits its key and its purpose: names or role, and extended key usage.",
    "Go refuses such a server, and the extender answers a caller without the role 403",
    "topolog certs DIRECTORY --host NAME --force, or sign it again with these fields",
    f"{_PAGE}#create",
)
CHAIN = doctor_checks.Check(
    "T03",
    "Each side trusts the CA that has signed the certificate of the other.",
    "every handshake fails",
    "put the CA that signed it into the other side's ca.crt",
    f"{_PAGE}#renew",
)
LOADED = doctor_checks.Check(
    "T04",
    "kube-scheduler was started after its CA was created.",
    "kube-scheduler reads its CA once: it still trusts the former one only",
    "kubectl -n NAMESPACE rollout restart deployment/NAME",
    f"{_PAGE}#renew",
)
SECRECY = doctor_checks.Check(
    "T05",
    "Only the owner and the group can read private keys, and passwords are not well known.",
    "any reader of the key can call the verbs, or impersonate the extender",
    "chmod 0640 FILES; another TLS_KEYSTORE_PASSWORD",
    f"{_PAGE}#create",
)
HANDSHAKE = doctor_checks.Check(
    "T06",
    "A handshake with a running extender succeeds from here, and the certificate has a role.",
    "clients with these files cannot ask it",
    "the cause is in what was seen; through a port-forward add --server-name",
    f"{_PAGE}#ask-an-extender-from-a-workstation",
)

CHECKS: Final = (TIME, FIT, CHAIN, LOADED, SECRECY, HANDSHAKE)
