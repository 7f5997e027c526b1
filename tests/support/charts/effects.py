"""What each value of the chart changes in the rendered objects, as tests for helm-unittest.

tests/deploy/charts compares the values here with those of values.yaml; tests/e2e/deploy/test_chart.py runs
the suite.
"""

import base64
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import app
from tests.support.charts import golden, parts, values

Object = dict[str, Any]
Check = Literal["equal", "contains", "exists"]

_HOME: Final = "topolog-system"
_PLACEMENT: Final[Mapping[str, Any]] = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "infra",
}
"""Value of a process -> what is set; it is the field of the pod of that name."""
_INITIALIZED: Final = ("recorder", "valkey")
"""Templates of pods with an init container."""
_FURTHER: Final[Mapping[str, Object]] = {
    "extraEnv": {"name": "TZ", "value": "UTC"},
    "extraVolumes": {"name": "more", "emptyDir": {}},
    "extraVolumeMounts": {"name": "more", "mountPath": "/more"},
}
"""Value of a pod -> an item of it."""
_URL: Final = "rediss://store.internal:6380"
_CIDR: Final = "10.1.0.0/16"
_DIGEST: Final = "sha256:" + "ab" * 32
_OWN_STORE: Final[Object] = {"cluster": "production", "store.bundled.enabled": False}
_ARCHIVE: Final[Object] = {"archive.url": "s3://logs"}


class Effect(NamedTuple):
    """A value, and what follows from it in one object."""

    path: str
    value: object
    template: str
    """Without its suffix."""
    owner: tuple[str, str]
    """Kind and name; without a name the first of the kind, where names have a hash."""
    at: str
    """The field, as helm-unittest writes it; empty: whether the object is there."""
    check: Check
    expected: object
    """What the field equals or contains with the value, or whether it exists; not so without the value."""
    given: Mapping[str, object] = {}
    """What has to be set for the value to matter; of the same path: another value, in place of none."""
    added: Mapping[str, object] = {}
    """What has to be set with the value, and may not be without it."""


def leaves(given: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """The paths of values that hold no further value."""
    for key, value in given.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{where}{key}.")
        else:
            yield f"{where}{key}"


@functools.cache
def effects() -> tuple[Effect, ...]:
    """Those of every value."""
    return (
        *_of_images(),
        *(one for process in parts.PROCESSES for one in _of_process(process)),
        *_of_store(),
        *_of_archive(),
        *_of_scheduler_and_certificates(),
        *_of_autoscaler(),
        *_of_objects(),
        *_of_network_policies(),
    )


def suite() -> Object:
    """A suite of helm-unittest: a test for each effect, and one that it is absent without the value."""
    return {
        "suite": "values",
        "release": {"namespace": _HOME},
        "capabilities": {
            **dict(zip(("majorVersion", "minorVersion"), golden.KUBERNETES.split("."), strict=False)),
            "apiVersions": ["monitoring.coreos.com/v1"],
        },
        "tests": [test for one in effects() for test in _tests(one)],
    }


def _tests(one: Effect) -> Iterator[Object]:
    for name, given, holds in (
        (one.path, {**one.given, **one.added, one.path: one.value}, True),
        (f"{one.path} is not set", one.given, False),
    ):
        yield {
            "it": name,
            "set": dict(given),
            "templates": [f"templates/{one.template}.yaml"],
            "asserts": [_assertion(one, holds)],
        }


def _assertion(one: Effect, holds: bool) -> Object:
    kind, name = one.owner
    there = holds if one.check != "exists" else one.expected is holds
    if not one.at:
        count = {"count": 1, "filterAware": True} if there else {"count": 0, "filterAware": True}
        return {
            "hasDocuments": count,
            "documentSelector": _selector(kind, name) | {"skipEmptyTemplates": True},
        }
    selected: Object = {"documentSelector": _selector(kind, name)} if name else {"documentIndex": 0}
    if one.check == "exists":
        return {"exists" if there else "notExists": {"path": one.at}, **selected}
    field = "content" if one.check == "contains" else "value"
    return {one.check: {"path": one.at, field: one.expected}, "not": not holds, **selected}


def _selector(kind: str, name: str) -> Object:
    return {"path": f'$[?(@.kind == "{kind}")].metadata.name', "value": name, "matchMany": True}


# -- processes and images


def _of_image(path: str, template: str, owner: tuple[str, str], container: str, tag: str) -> Iterator[Effect]:
    image = functools.reduce(
        lambda found, key: found[key], path.split("."), values.of_overlay(values.DEFAULT)
    )
    registry, repository = image["registry"], image["repository"]
    for name, value, expected in (
        ("registry", "registry.internal:5000", f"registry.internal:5000/{repository}:{tag}"),
        ("repository", "mirrored/it", f"{registry}/mirrored/it:{tag}"),
        ("tag", "v7.8.9", f"{registry}/{repository}:v7.8.9"),
        ("digest", _DIGEST, f"{registry}/{repository}@{_DIGEST}"),
    ):
        yield Effect(f"{path}.{name}", value, template, owner, f"{container}.image", "equal", expected)
    pull = f"{container}.imagePullPolicy"
    yield Effect(f"{path}.pullPolicy", "Always", template, owner, pull, "equal", "Always")


def _of_images() -> Iterator[Effect]:
    recorder = ("recorder", ("Deployment", "topolog-recorder"))
    yield from _of_image("image", *recorder, _container(), app.__version__)
    secrets = [{"name": "registry"}]
    pod = "spec.template.spec.imagePullSecrets"
    yield Effect("imagePullSecrets", secrets, *recorder, pod, "equal", secrets)
    extender = ("extender", ("Deployment", "topolog-extender"))
    minor = golden.KUBERNETES.rpartition(".")[0]
    yield from _of_image("scheduler.image", *extender, _container(1), f"v{minor}.0")
    yield from _of_resources("scheduler.resources", *extender, f"{_container(1)}.resources")


def _container(number: int = 0, kind: str = "containers") -> str:
    return f"spec.template.spec.{kind}[{number}]"


def _of_resources(path: str, template: str, owner: tuple[str, str], at: str) -> Iterator[Effect]:
    for name, value in (("requests.cpu", "3333m"), ("requests.memory", "3Gi"), ("limits.memory", "5Gi")):
        yield Effect(f"{path}.{name}", value, template, owner, f"{at}.{name}", "equal", value)


def _of_pod(path: str, template: str, owner: tuple[str, str]) -> Iterator[Effect]:
    """The values that all processes and the bundled store have."""
    yield from _of_resources(f"{path}.resources", template, owner, f"{_container()}.resources")
    for name, value in _PLACEMENT.items():
        yield Effect(f"{path}.{name}", value, template, owner, f"spec.template.spec.{name}", "equal", value)
    notes = {"team": "platform"}
    annotations = "spec.template.metadata.annotations"
    yield Effect(f"{path}.podAnnotations", notes, template, owner, annotations, "equal", notes)
    yield from _further(path, template, owner, "spec.template.spec", "containers")
    if template in _INITIALIZED:
        yield from _further(path, template, owner, "spec.template.spec", "initContainers")


def _further(path: str, template: str, owner: tuple[str, str], pod: str, kind: str) -> Iterator[Effect]:
    places = (f"{pod}.{kind}[0].env", f"{pod}.volumes", f"{pod}.{kind}[0].volumeMounts")
    for at, (name, added) in zip(places, _FURTHER.items(), strict=True):
        yield Effect(f"{path}.{name}", [added], template, owner, at, "contains", added)


def _of_process(process: str) -> Iterator[Effect]:
    owner = ("Deployment", f"topolog-{process}")
    default = values.of_overlay(values.DEFAULT)[process]
    yield Effect(f"{process}.replicas", 5, process, owner, "spec.replicas", "equal", 5)
    yield from _of_pod(process, process, owner)
    for path in leaves({"strategy": default["strategy"]}):
        value: object = {"type": "Recreate"}
        given: Object = {}
        if path.endswith(".type"):
            # This type has no rollingUpdate; Helm removes it by null.
            value, given = "Recreate", {f"{process}.strategy.rollingUpdate": None}
        elif "." in path:
            value = 3
        yield Effect(f"{process}.{path}", value, process, owner, f"spec.{path}", "equal", value, given)
    if "podDisruptionBudget" in default:
        budget = ("PodDisruptionBudget", f"topolog-{process}")
        path, value = f"{process}.podDisruptionBudget", {"maxUnavailable": 1}
        given = {path: {"maxUnavailable": 2}}
        yield Effect(path, value, process, budget, "spec.maxUnavailable", "equal", 1, given)
    if "migration" in default:
        at = f"{_container(kind='initContainers')}.resources"
        yield from _of_resources(f"{process}.migration.resources", process, owner, at)


# -- the parts


def _of_store() -> Iterator[Effect]:
    path, owner = "store.bundled", ("StatefulSet", "topolog-valkey")
    server = ("valkey", owner)
    tag = values.of_overlay(values.DEFAULT)["store"]["bundled"]["image"]["tag"]
    outside = {"cluster": "a", "store.external.url": _URL}
    yield Effect(f"{path}.enabled", False, *server, "", "exists", False, added=outside)
    yield Effect(f"{path}.tls", True, *server, f"{_container()}.args", "contains", "--tls-port")
    yield from _of_image(f"{path}.image", *server, _container(), tag)
    yield Effect(f"{path}.maxMemory", "77mb", *server, f"{_container()}.args", "contains", "77mb")
    claim = "spec.volumeClaimTemplates[0].spec"
    size = f"{claim}.resources.requests.storage"
    yield Effect(f"{path}.persistence.size", "77Gi", *server, size, "equal", "77Gi")
    yield Effect(
        f"{path}.persistence.storageClass", "fast", *server, f"{claim}.storageClassName", "equal", "fast"
    )
    at = f"{_container(kind='initContainers')}.resources"
    yield from _of_resources(f"{path}.users.resources", *server, at)
    yield from _of_pod(path, *server)
    stored = base64.b64encode(_URL.encode()).decode()
    secret = ("store", ("Secret", ""))
    given = {**_OWN_STORE, "store.external.url": "rediss://another:6380"}
    yield Effect("store.external.url", _URL, *secret, "data.recorder-url", "equal", stored, given)
    named = f"{_container()}.env[0].valueFrom.secretKeyRef.name"
    recorder = ("recorder", ("Deployment", "topolog-recorder"))
    given = {**_OWN_STORE, "store.external.existingSecret": "others"}
    at = f"{_container(kind='initContainers')}.env"
    cluster = {"name": "TOPOLOG_CLUSTER", "value": "production"}
    yield Effect("cluster", "production", *server, at, "contains", cluster)
    config = {"store": {"placements": "fsync"}}
    placements = {"name": "TOPOLOG_STORE_PLACEMENTS", "value": "fsync"}
    yield Effect("config", config, *server, at, "contains", placements)
    yield Effect("store.external.existingSecret", "urls", *recorder, named, "equal", "urls", given)


def _of_archive() -> Iterator[Effect]:
    compactor = ("compactor", ("Deployment", "topolog-compactor"))
    settings = ("settings", ("ConfigMap", ""))
    policy = ("networkpolicy-archive", ("NetworkPolicy", "topolog-archive"))
    account = ("accounts", ("ServiceAccount", "topolog-compactor"))
    notes, secret = {"team": "platform"}, {"secretRef": {"name": "keys"}}
    yield Effect("archive.url", "s3://a", *settings, "data.TOPOLOG_COMPACTION_ARCHIVE", "equal", "s3://a")
    volume = {"name": "archive", "persistentVolumeClaim": {"claimName": "logs"}}
    at = "spec.template.spec.volumes"
    yield Effect("archive.existingClaim", "logs", *compactor, at, "contains", volume)
    at = f"{_container()}.envFrom"
    yield Effect("archive.existingSecret", "keys", *compactor, at, "contains", secret, _ARCHIVE)
    variables = {"AWS_REGION": "eu"}
    yield Effect("archive.variables", variables, *settings, "data.AWS_REGION", "equal", "eu", _ARCHIVE)
    at = "metadata.annotations"
    yield Effect("archive.serviceAccountAnnotations", notes, *account, at, "equal", notes, _ARCHIVE)
    at = "spec.template.metadata.labels.team"
    yield Effect("archive.podLabels", notes, *compactor, at, "equal", "platform", _ARCHIVE)
    at = "spec.egress[0].ports[0].port"
    yield Effect("archive.ports", [9000], *policy, at, "equal", 9000, _ARCHIVE)
    at = "spec.egress[0].to[0].ipBlock.cidr"
    yield Effect("archive.cidrs", [_CIDR], *policy, at, "equal", _CIDR, _ARCHIVE)


def _of_scheduler_and_certificates() -> Iterator[Effect]:
    settings = ("settings", ("ConfigMap", ""))
    yield Effect("cluster", "production", *settings, "data.TOPOLOG_CLUSTER", "equal", "production")
    config = {"logging": {"level": "debug"}}
    yield Effect("config", config, *settings, "data.TOPOLOG_LOGGING_LEVEL", "equal", "debug")
    extender = ("extender", ("Deployment", "topolog-extender"))
    account = "spec.template.spec.serviceAccountName"
    yield Effect("scheduler.mode", "existing", *extender, account, "equal", "topolog-extender")
    configuration = ("settings", ("ConfigMap", "topolog-kube-scheduler"))
    yield Effect("scheduler.mode", "existing", *configuration, "", "exists", True)
    bootstrap = ("bootstrap", ("Deployment", "topolog-bootstrap"))
    args = f"{_container()}.args"
    yield Effect("certificates.source", "existing", *bootstrap, args, "contains", "--no-certificates")
    host = "topolog.internal"
    yield Effect("certificates.extraHosts", [host], *bootstrap, args, "contains", f"--host={host}")
    certificate = ("certificates", ("Certificate", "topolog-tls"))
    issuer, ours = {"kind": "ClusterIssuer", "name": "internal"}, {"certificates.source": "certManager"}
    yield Effect("certificates.issuerRef", issuer, *certificate, "spec.issuerRef", "equal", issuer, ours)


def _of_autoscaler() -> Iterator[Effect]:
    path, owner = "extender.hpa", ("autoscaler", ("HorizontalPodAutoscaler", "topolog-extender"))
    given: Object = {"scheduler.mode": "existing"}
    few = {"minReplicas": 2, "maxReplicas": 3, "targetCPU": 50}
    many = {"minReplicas": 4, "maxReplicas": 9, "targetCPU": 70}
    yield Effect(path, many, *owner, "", "exists", True, given)
    extender = ("extender", ("Deployment", "topolog-extender"))
    yield Effect(path, many, *extender, "spec.replicas", "exists", False, given)
    target = "spec.metrics[0].resource.target.averageUtilization"
    for at, expected in (("spec.minReplicas", 4), ("spec.maxReplicas", 9), (target, 70)):
        yield Effect(path, many, *owner, at, "equal", expected, {**given, path: few})


def _of_objects() -> Iterator[Effect]:
    definition = ("crds", ("CustomResourceDefinition", "workloadpolicies.kosmos.io"))
    yield Effect("crds.install", False, *definition, "", "exists", False)
    yield Effect("crds.keep", False, *definition, "metadata.annotations", "exists", False)
    role = ("accounts", ("ClusterRole", "topolog-recorder"))
    yield Effect("rbac.create", False, *role, "", "exists", False)
    at = 'metadata.labels["rbac.authorization.k8s.io/aggregate-to-view"]'
    viewer = ("people", ("ClusterRole", "topolog-view"))
    yield Effect("rbac.aggregate", False, *viewer, at, "exists", False)
    quota = ("resourcequota", ("ResourceQuota", "topolog-critical-pods"))
    yield Effect("resourceQuota.enabled", False, *quota, "", "exists", False)
    yield Effect("view.enabled", False, "view", ("Deployment", "topolog-view"), "", "exists", False)
    settings = ("admission", ("ConfigMap", "topolog-admission"))
    yield Effect("admission.enabled", False, *settings, "", "exists", False)
    names = ["a", "b"]
    yield Effect("admission.schedulerNames", names, *settings, "data.schedulerNames", "equal", "a,b")
    binding = ("admission", ("ValidatingAdmissionPolicyBinding", "topolog-escaping-pods"))
    yield Effect("admission.action", "Deny", *binding, "spec.validationActions", "contains", "Deny")
    for path, template, kind, name in (
        ("quotaAnnotations.enabled", "quota-annotations", "ClusterRole", "topolog-quota-annotations"),
        ("evictions.enabled", "evictions", "ClusterRole", "topolog-evictions"),
        ("monitoring.podMonitor.enabled", "monitoring", "PodMonitor", "topolog"),
        ("monitoring.prometheusRule.enabled", "monitoring", "PrometheusRule", "topolog"),
        ("monitoring.dashboards.enabled", "monitoring", "ConfigMap", "topolog-dashboards"),
    ):
        yield Effect(path, True, template, (kind, name), "", "exists", True)
    monitor = ("monitoring", ("PodMonitor", "topolog"))
    given = {"monitoring.podMonitor.enabled": True}
    labels = {"release": "prometheus"}
    at = "metadata.labels.release"
    yield Effect("monitoring.labels", labels, *monitor, at, "equal", "prometheus", given)
    rule = ("monitoring", ("PrometheusRule", "topolog"))
    given = {"monitoring.prometheusRule.enabled": True}
    base, section = "https://git.example/topolog/v1/docs", "how-to/monitoring.md#topologextenderdown"
    at = "spec.groups[0].rules[0].annotations.runbook_url"
    yield Effect("monitoring.runbooks", f"{base}/", *rule, at, "equal", f"{base}/{section}", given)
    doctor = ("tests/doctor", ("Pod", "topolog-test"))
    yield Effect("tests.enabled", False, *doctor, "", "exists", False)
    yield Effect("tests.skip", ["C07"], *doctor, "spec.containers[0].args", "contains", "--skip=C07")
    yield from _further("tests", *doctor, "spec", "containers")


def _of_network_policies() -> Iterator[Effect]:
    policy = ("networkpolicy", ("NetworkPolicy", "topolog"))
    yield Effect("networkPolicy.enabled", False, *policy, "", "exists", False)
    extender = ("networkpolicy-extender", ("NetworkPolicy", "topolog-extender"))
    yield Effect("networkPolicy.schedulerCIDRs", [_CIDR], *extender, "", "exists", True)
    # Without peers the rule admits any address.
    peers, existing = "spec.ingress[0].from", {"scheduler.mode": "existing"}
    yield Effect("networkPolicy.schedulerCIDRs", [_CIDR], *extender, peers, "exists", True, existing)
    block = f"{peers}[0].ipBlock.cidr"
    yield Effect("networkPolicy.schedulerCIDRs", [_CIDR], *extender, block, "equal", _CIDR, existing)
    yield Effect("scheduler.mode", "existing", *extender, "", "exists", True)
    for number, name in ((1, "apiServer"), (2, "store")):
        rule = f"spec.egress[{number}]"
        path = f"networkPolicy.{name}"
        block = f"{rule}.to[0].ipBlock.cidr"
        yield Effect(f"{path}CIDRs", [_CIDR], *policy, block, "equal", _CIDR)
        yield Effect(f"{path}Ports", [9999], *policy, f"{rule}.ports[0].port", "equal", 9999)
    peer = 'spec.ingress[0].from[0].namespaceSelector.matchLabels["kubernetes.io/metadata.name"]'
    yield Effect("networkPolicy.monitoringNamespace", "seen", *policy, peer, "equal", "seen")
