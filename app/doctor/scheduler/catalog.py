"""The checks of kube-scheduler: what has to be so, why it matters, and how it is fixed."""

from typing import Final

from app.framework import doctor_checks

_PAGE: Final = "how-to/kube-scheduler.md"
EXAMPLE: Final = "deploy/scheduler/kube-scheduler-service.yaml"
PRESENT = doctor_checks.Check(
    "S01",
    "The configuration has an entry for the extender.",
    "kube-scheduler asks no extender: pods are placed regardless of every policy",
    f"add the entry `extenders` of {EXAMPLE}, and restart kube-scheduler",
    f"{_PAGE}#settings",
)
PERCENTAGE = doctor_checks.Check(
    "S02",
    "`percentageOfNodesToScore` is 100, above 100 nodes.",
    "kube-scheduler offers a rotating sample of the nodes: pods stay pending although a node would fit, and"
    " each change of the counts in their messages makes it retry them at once",
    "percentageOfNodesToScore: 100",
    f"{_PAGE}#settings",
)
IGNORABLE = doctor_checks.Check(
    "S03",
    "`ignorable` is false.",
    "while the extender is unavailable, pods are placed anywhere, regardless of quotas",
    "ignorable: false",
    f"{_PAGE}#settings",
)
BINDER = doctor_checks.Check(
    "S04",
    "`bindVerb` is set, and by no other extender.",
    "quotas are enforced when a pod is bound: without bind they do not hold",
    "bindVerb: bind",
    f"{_PAGE}#settings",
)
PREEMPT = doctor_checks.Check(
    "S05",
    "`preemptVerb` is set.",
    "kube-scheduler evicts pods from a node that filter refuses afterwards, and then from the next one",
    "preemptVerb: preempt",
    f"{_PAGE}#settings",
)
TIMEOUT = doctor_checks.Check(
    "S06",
    "`httpTimeout` is longer than `budgets.filter`, and a second longer than `budgets.bind`.",
    "a call that times out stops all scheduling for as long, and its reply is lost",
    "httpTimeout: 5s, or lower budgets.filter and budgets.bind",
    f"{_PAGE}#settings",
)
NAMES = doctor_checks.Check(
    "S07",
    "`nodeCacheCapable` is true.",
    "each call carries whole nodes: megabytes in a large cluster",
    "nodeCacheCapable: true",
    f"{_PAGE}#settings",
)
TRANSPORT = doctor_checks.Check(
    "S08",
    "The extender is called by https, verified by a CA, with a client certificate from files.",
    "the extender refuses a caller without a certificate; without a CA kube-scheduler verifies nothing, and"
    " inline data is neither renewed nor kept out of its log",
    "urlPrefix with https://, enableHTTPS: true, and tlsConfig with caFile, certFile and keyFile",
    f"{_PAGE}#settings",
)
NAME = doctor_checks.Check(
    "S09",
    "The extender's certificate has the name by which kube-scheduler calls it, and the name can be resolved.",
    "every call fails, and no pod is scheduled",
    "tlsConfig.serverName: a name of the certificate",
    f"{_PAGE}#on-the-host-network",
)
WEIGHT = doctor_checks.Check(
    "S10",
    "`weight` lets the scores of policies outweigh those of kube-scheduler's own plugins.",
    "the scores of Preferred policies make hardly a difference, or none",
    "weight: 100",
    f"{_PAGE}#settings",
)
OWN_PODS = doctor_checks.Check(
    "S11",
    "Topolog's own pods are placed by another scheduler than the one that calls them.",
    "no scheduler places them while none of them is running",
    "schedulerName of another scheduler in Topolog's pods, or a profile with a name of its own",
    f"{_PAGE}#a-separate-scheduler-or-the-default-one",
)
LEASE = doctor_checks.Check(
    "S12",
    "Schedulers of one name share a Lease, and those of other names have another one.",
    "two of one name without a common Lease place the same pods at once: Bindings conflict, and pods wait for"
    " the next attempt; of those with different names and one Lease only one is active, and the pods of the"
    " others wait",
    "leaderElection.leaderElect: true, with one resourceName in all schedulers of a name, and another one in"
    " those of another name, whose account needs a right on that Lease",
    f"{_PAGE}#several-schedulers",
)
SKEW = doctor_checks.Check(
    "S13",
    "kube-scheduler is of the API server's version, or one minor version older.",
    "Kubernetes does not support another skew, and the two may disagree about fields of pods and nodes",
    "the tag of kube-scheduler's image: the API server's version",
    f"{_PAGE}#several-schedulers",
)
CURRENT = doctor_checks.Check(
    "S14",
    "kube-scheduler runs with the configuration of its file.",
    "kube-scheduler reads its file only when it starts: what was changed since has no effect",
    "kubectl -n NAMESPACE rollout restart deployment/NAME",
    f"{_PAGE}#several-schedulers",
)
CALLS = doctor_checks.Check(
    "S15",
    "kube-scheduler has called the extender about each pod for which its own plugins leave a node.",
    "the pod waits for a call that does not arrive: kube-scheduler does not run, cannot reach the extender,"
    " or has no entry for it",
    "see kube-scheduler's log, and `topolog explain NAMESPACE/POD`",
    f"{_PAGE}#several-schedulers",
)
READ = doctor_checks.Check(
    "S16",
    "kube-scheduler can read the configuration.",
    "kube-scheduler reads it strictly and exits at the start",
    f"correct the field; {EXAMPLE} shows each one",
    f"{_PAGE}#settings",
)
VERBS = doctor_checks.Check(
    "S17",
    "Each verb, and the path of `urlPrefix`, is one that the extender serves.",
    "the call is answered 404: kube-scheduler schedules no pod, or ignores the scores",
    "filterVerb: filter, prioritizeVerb: prioritize, bindVerb: bind, preemptVerb: preempt, and a urlPrefix"
    " without a path",
    f"{_PAGE}#settings",
)
MANAGED = doctor_checks.Check(
    "S18",
    "Each resource of `managedResources` is ignored by kube-scheduler itself.",
    "pods that request it wait for a node that provides it",
    "ignoredByScheduler: true",
    f"{_PAGE}#only-pods-that-request-a-resource",
)
GANGS = doctor_checks.Check(
    "S19",
    "The gate `GenericWorkload` is on in kube-scheduler and in the API server, or in neither.",
    "kube-scheduler binds the members of a PodGroup one by one, and does not preempt for it as a whole: it"
    " may run in part, unless a plugin of Topolog keeps it together",
    "--feature-gates=GenericWorkload=true at kube-scheduler, too",
    "how-to/gangs.md#with-kube-schedulers-own-gangs",
)

CHECKS: Final = (
    *(PRESENT, PERCENTAGE, IGNORABLE, BINDER, PREEMPT, TIMEOUT, NAMES, TRANSPORT, NAME, WEIGHT),
    *(OWN_PODS, LEASE, SKEW, CURRENT, CALLS, READ, VERBS, MANAGED, GANGS),
)
NEED_THE_CLUSTER: Final = (OWN_PODS, LEASE, SKEW, CURRENT, CALLS, GANGS)
"""Checks that a file alone cannot answer."""
