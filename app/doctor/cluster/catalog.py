"""The checks of a cluster: what has to be so, why it matters, and how it is fixed."""

from typing import Final

from app.framework import doctor_checks

_PAGE: Final = "how-to/find-out-what-is-wrong.md#check-the-cluster"

VERSION = doctor_checks.Check(
    "C01",
    "The API server is of a version that Topolog is tested with.",
    "nothing is known about its behaviour",
    "see the tested versions (docs/reference/versions.md)",
    _PAGE,
)
RIGHTS = doctor_checks.Check(
    "C02",
    "Each process has the permissions that it uses.",
    "it fails once it uses one, minutes or days after its start",
    "kubectl apply -k deploy/rbac, or helm upgrade: ClusterRoleBinding and RoleBinding PROCESS grant it",
    _PAGE,
)
EXCESS = doctor_checks.Check(
    "C03",
    "No process has permissions that do harm and that it does not use.",
    "a process that is taken over can do more than it has to",
    "kubectl get clusterrolebindings,rolebindings -A -o wide | grep topolog: remove the one that grants it,"
    " and use the service accounts of deploy/rbac",
    _PAGE,
)
DEFINITIONS = doctor_checks.Check(
    "C04",
    "The custom resources that plugins read are defined, in a version that they read.",
    "objects of the kind cannot be created, or their status cannot be written",
    "kubectl apply -k deploy/crds",
    _PAGE,
)
IDENTITY = doctor_checks.Check(
    "C05",
    "The store holds the log of this cluster.",
    "the facts of two clusters would mix, so nothing is recorded, decided, bound, repaired or trimmed here,"
    " and no process is ready",
    "give one of the two clusters another name (setting cluster), or a store of its own; only if the store"
    " was changed by hand, run the command that the recorder's error names",
    "how-to/store.md#two-clusters-of-one-name",
)
PODS = doctor_checks.Check(
    "C06",
    "Topolog's pods, and those of its bootstrap and its bundled store, run and are ready.",
    "the process does no work: without the store none does, and without bootstrap no certificate is renewed",
    "kubectl -n NAMESPACE describe pod POD; kubectl -n NAMESPACE logs POD --all-containers --previous",
    _PAGE,
)
SPREAD = doctor_checks.Check(
    "C07",
    "Two extenders run on two nodes, with a PodDisruptionBudget and a priority class.",
    "the end of one node, a drain, or a preemption stops scheduling",
    "kubectl apply -k deploy/overlays/ha, or helm upgrade with --values values-ha.yaml: two replicas on two"
    " nodes, a PodDisruptionBudget and a priority class",
    _PAGE,
)
LEASES = doctor_checks.Check(
    "C08",
    "The Leases of recorders and controllers are held and renewed, by epochs that the store accepts.",
    "no facts are written, or no pod is woken",
    "kubectl -n NAMESPACE logs deployment/topolog-PROCESS; where it runs elsewhere, the log of the PROCESS",
    "how-to/monitoring.md#topolognoleader",
)
ADDRESSES = doctor_checks.Check(
    "C09",
    "NetworkPolicies name addresses of this cluster.",
    "kube-scheduler, the API server or the store cannot be reached",
    "kubectl -n NAMESPACE edit networkpolicy POLICY: the addresses of control plane, API server and store;"
    " with Helm networkPolicy.schedulerCIDRs, apiServerCIDRs and storeCIDRs",
    _PAGE,
)
EVICTIONS = doctor_checks.Check(
    "C10",
    "The controller may evict pods if an argument of a plugin requests it, and only then.",
    "nothing is evicted: each attempt is refused, and pods wait for capacity that others exceed",
    "kubectl apply -k with deploy/components/evictions in the kustomization, or evictions.enabled of the Helm"
    " chart",
    "how-to/quotas.md#evict-pods-for-quotas",
)
SCRAPES = doctor_checks.Check(
    "C11",
    "NetworkPolicies admit another namespace of the cluster, or an address, to the health ports.",
    "Prometheus in another namespace reads no metrics, and no alert can fire",
    "kubectl apply -k with deploy/components/networkpolicies in the kustomization, or helm upgrade with"
    " networkPolicy.enabled; the namespace there, networkPolicy.monitoringNamespace, is that of Prometheus",
    "how-to/monitoring.md#load-the-alerts",
)
INSTALLER = doctor_checks.Check(
    "C12",
    "With `--pre`: the user may create each kind of object that the installation has.",
    "the installation ends in the middle",
    "install as a user with the ClusterRole cluster-admin; without a right on resourcequotas:"
    " resourceQuota.enabled: false in the chart",
    _PAGE,
)
VACANT = doctor_checks.Check(
    "C13",
    "With `--pre`: the namespace has no installation.",
    "this is an upgrade: the store has to be migrated, and in a certain order",
    "see docs/how-to/upgrade.md, or name another namespace with --namespace",
    "how-to/upgrade.md",
)
STORAGE = doctor_checks.Check(
    "C14",
    "With `--pre`, and without store.url: there is a default StorageClass.",
    "the bundled store waits for a volume, and every process for the store",
    "kubectl annotate storageclass CLASS storageclass.kubernetes.io/is-default-class=true, or set store.url"
    " to a server of your own",
    _PAGE,
)

USUAL: Final = (
    *(VERSION, RIGHTS, EXCESS, DEFINITIONS, IDENTITY, PODS),
    *(SPREAD, LEASES, ADDRESSES, EVICTIONS, SCRAPES),
)
PRE: Final = (VERSION, DEFINITIONS, INSTALLER, VACANT, STORAGE)
"""The checks before an installation."""
CHECKS: Final = tuple(dict.fromkeys((*USUAL, *PRE)))
