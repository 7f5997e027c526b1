"""The checks of a running installation: what has to be so, why it matters, and how it is fixed."""

from typing import Final

from app.framework import doctor_checks
from app.telemetry import metrics

_PAGE: Final = "how-to/monitoring.md"

READY = doctor_checks.Check(
    "R01",
    "Each process answers, and is ready.",
    "an extender that is not ready gets no calls; another process does no work until it is",
    "LOG, which has the reason of what was seen",
    f"{_PAGE}#topologextenderdown",
)
LACKING: Final = {
    metrics.EXTENDER: "without an extender kube-scheduler gets no answer, and pods under hard quotas stay"
    " pending",
    metrics.RECORDER: "without a recorder nothing is recorded",
    metrics.CONTROLLER: "without a controller no pod is woken",
    metrics.AUDITOR: "without an auditor nothing is compared",
    metrics.COMPACTOR: "without a compactor the log grows without bound",
}
"""Role -> what is lost without a process of it."""
COMMANDS: Final = {
    metrics.EXTENDER: "extender",
    metrics.RECORDER: "record",
    metrics.CONTROLLER: "control",
    metrics.AUDITOR: "audit",
    metrics.COMPACTOR: "compact",
}
"""Role -> the command of topolog that starts a process of it."""
COMPLETE = doctor_checks.Check(
    "R02",
    "There is a process of each kind.",
    "; ".join(LACKING.values()),
    "topolog COMMAND",
    "how-to/find-out-what-is-wrong.md#check-an-installation-that-runs",
)
LEADER = doctor_checks.Check(
    "R03",
    "One recorder and one controller lead.",
    "without a leader no facts are written and no pod is woken; two are usual for seconds only",
    "see the Leases (kubectl -n NAMESPACE get leases) and the logs of REPLICAS",
    f"{_PAGE}#topolognoleader",
)
VERSION = doctor_checks.Check(
    "R04",
    "All processes are of one version, 15 minutes after an upgrade has begun.",
    "half an upgrade: the behaviour depends on which replica answers",
    "finish the upgrade: kubectl -n NAMESPACE get deployments -l app.kubernetes.io/name=topolog",
    f"{_PAGE}#topologmixedversions",
)
CONFIGURATION = doctor_checks.Check(
    "R05",
    "All processes have the same plugins, with the same arguments.",
    "replicas decide differently",
    "one ConfigMap for all processes, and a restart of those that have other settings",
    f"{_PAGE}#topologmixedconfiguration",
)
WATCHING = doctor_checks.Check(
    "R06",
    "The recorder has received something of each kind within three minutes.",
    "the log is behind the cluster: decisions are made on an outdated state",
    "LOG, which has the failures of its watches",
    f"{_PAGE}#topologwatchstale",
)
FOLLOWING = doctor_checks.Check(
    "R07",
    "Extenders and controllers are at the head of the log.",
    "calls wait until the missing events are read, or fail",
    "see the store's latency (topolog doctor store) and the processor time of the process",
    f"{_PAGE}#topologsnapshotbehind",
)
CONSISTENT = doctor_checks.Check(
    "R08",
    "Counts, log and API server agree, by an audit of the last five minutes.",
    "a quota may be exceeded or not used up",
    "topolog get consistency",
    "how-to/consistency.md#read-the-report",
)
RECORDED = doctor_checks.Check(
    "R09",
    "No decision records were dropped.",
    "these decisions cannot be explained later",
    "see the store's latency (topolog doctor store)",
    "how-to/consistency.md#read-the-report",
)
CALLED = doctor_checks.Check(
    "R10",
    "kube-scheduler calls the extender while pods wait.",
    "a pod waits for a call that does not arrive",
    "topolog doctor scheduler",
    "how-to/kube-scheduler.md#settings",
)
ARCHIVE = doctor_checks.Check(
    "R11",
    "Extenders read the archive that the compactor writes.",
    "?at= of a trimmed moment is answered 410",
    "set compaction.archive in the extenders, to the same directory or bucket",
    "how-to/history.md",
)
STORE = doctor_checks.Check(
    "R12",
    "The store answers each process.",
    "pods under hard quotas stay pending, and nothing is recorded",
    "topolog doctor store",
    f"{_PAGE}#topologstoreaway",
)
CERTIFICATES = doctor_checks.Check(
    "R13",
    "The TLS files that extenders serve, and the certificate that kube-scheduler shows, are valid, for seven"
    " days or more.",
    "kube-scheduler can no longer call the extender",
    "topolog doctor tls: it names the files or the Secret, and what renews them",
    f"{_PAGE}#topologcertificateexpiressoon",
)
COPY: Final = (
    "copy the certificate of the Secret topolog-scheduler-tls to the nodes of kube-scheduler again (how-to/"
    "install-existing-scheduler.md)"
)
"""What renews the certificate that a kube-scheduler shows, if it is not that of the mounted Secret."""
MEMORY = doctor_checks.Check(
    "R14",
    "The store uses less than 85 % of its memory limit.",
    "a full store rejects every append",
    "topolog doctor store",
    f"{_PAGE}#topologstorememory",
)
QUARANTINED = doctor_checks.Check(
    "R15",
    "The recorder can decode every object that it receives.",
    "decisions are based on the last valid state of such an object, or as if it did not exist",
    "topolog get events --where type=Quarantined: correct the objects that it names, and restart the"
    " recorder, which then counts those that are left",
    f"{_PAGE}#topologobjectquarantined",
)

CHECKS: Final = (
    *(READY, COMPLETE, LEADER, VERSION, CONFIGURATION, WATCHING, FOLLOWING, CONSISTENT, RECORDED),
    *(CALLED, ARCHIVE, STORE, CERTIFICATES, MEMORY, QUARANTINED),
)
