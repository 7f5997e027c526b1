"""Wrong values of the chart: each has to be refused, with its path in the message."""

from typing import Any, Final, NamedTuple


class Wrong(NamedTuple):
    """A mistake in the values."""

    values: dict[str, Any]
    path: str
    """Where the message has to point, as in JSON Pointer."""


_EXISTING: Final = {"scheduler": {"mode": "existing"}}


def _scaled(**given: object) -> dict[str, Any]:
    """An autoscaler of the extenders with another value."""
    return {**_EXISTING, "extender": {"hpa": {"minReplicas": 2, "maxReplicas": 3, "targetCPU": 70, **given}}}


TABLE: Final = (
    Wrong({"cluster": "Production"}, "/cluster"),
    Wrong({"cluster": ""}, "/cluster"),
    Wrong({"clusterName": "a"}, ""),
    Wrong({"image": "localhost/topolog:0.1.0"}, "/image"),
    Wrong({"image": {"digest": "sha256:short"}}, "/image/digest"),
    Wrong({"image": {"tag": "a tag"}}, "/image/tag"),
    Wrong({"image": {"name": "topolog"}}, "/image"),
    Wrong({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    Wrong({"imagePullSecrets": ["registry"]}, "/imagePullSecrets/0"),
    Wrong({"config": {"logging": {"level": "verbose"}}}, "/config/logging/level"),
    Wrong({"config": {"loging": {"level": "debug"}}}, "/config"),
    Wrong({"config": {"server": {"workers": "two"}}}, "/config/server/workers"),
    Wrong({"config": {"server": {"workers": 0}}}, "/config/server/workers"),
    Wrong({"config": {"store": {"url": "redis://a:6379"}}}, "/config/store"),
    Wrong({"config": {"tls": {"cert": "/a"}}}, "/config"),
    Wrong({"config": {"server": {"port": 9443}}}, "/config/server"),
    Wrong({"config": {"election": {"recorder": "a"}}}, "/config/election"),
    Wrong({"scheduler": {"mode": "replace"}}, "/scheduler/mode"),
    Wrong({"networkPolicy": {"schedulerCIDRs": [""]}}, "/networkPolicy/schedulerCIDRs/0"),
    Wrong({"scheduler": {"resources": {"requests": {"cpu": "fast"}}}}, "/scheduler/resources/requests/cpu"),
    Wrong({"certificates": {"source": "cert-manager"}}, "/certificates/source"),
    Wrong({"certificates": {"issuerRef": {"kind": "ClusterIssuer"}}}, "/certificates/issuerRef"),
    Wrong({"certificates": {"extraHosts": ["[fd00::7]"]}}, "/certificates/extraHosts/0"),
    *(
        Wrong({"certificates": {"source": "certManager", "extraHosts": [each]}}, "/certificates/extraHosts/0")
        for each in ("10.0.0.7", "fd00::7")
    ),
    Wrong({"store": {"external": {"url": "redis://a:6379"}}}, "/store/external/url"),
    Wrong({"store": {"bundled": {"enabled": False}}, "cluster": "a"}, "/store/external"),
    Wrong(
        {
            "store": {"bundled": {"enabled": False, "tls": True}, "external": {"existingSecret": "a"}},
            "cluster": "a",
        },
        "/store/bundled/tls",
    ),
    Wrong(
        {"store": {"bundled": {"enabled": False}, "external": {"existingSecret": "urls"}}},
        "/cluster",
    ),
    Wrong(
        {
            "cluster": "a",
            "store": {
                "bundled": {"enabled": False},
                "external": {"url": "redis://a:6379", "existingSecret": "urls"},
            },
        },
        "/store/external",
    ),
    Wrong(
        {"cluster": "a", "store": {"bundled": {"enabled": False}, "external": {"url": "http://a"}}},
        "/store/external/url",
    ),
    Wrong({"store": {"bundled": {"maxMemory": "256Mi"}}}, "/store/bundled/maxMemory"),
    Wrong({"store": {"bundled": {"persistence": {"size": "large"}}}}, "/store/bundled/persistence/size"),
    Wrong({"archive": {"url": "/archive"}}, "/archive/url"),
    Wrong({"archive": {"url": "s3://key:secret@bucket"}}, "/archive/url"),
    Wrong({"archive": {"existingSecret": "keys"}}, "/archive/existingSecret"),
    Wrong({"archive": {"existingClaim": "a/b"}}, "/archive/existingClaim"),
    Wrong({"archive": {"existingClaim": "logs", "url": "s3://a"}}, "/archive/existingClaim"),
    Wrong({"archive": {"existingClaim": "logs", "existingSecret": "keys"}}, "/archive/existingSecret"),
    Wrong({"archive": {"existingClaim": "logs", "variables": {"AWS_REGION": "eu"}}}, "/archive/variables"),
    Wrong(
        {"archive": {"existingClaim": "logs"}, "config": {"compaction": {"archive": "/archive"}}},
        "/config/compaction/archive",
    ),
    Wrong(
        {"archive": {"url": "s3://a", "variables": {"AWS_SECRET_ACCESS_KEY": "a"}}},
        "/archive/variables/AWS_SECRET_ACCESS_KEY",
    ),
    Wrong({"archive": {"url": "s3://a", "variables": {"TOPOLOG_CLUSTER": "a"}}}, "/archive/variables"),
    Wrong({"archive": {"url": "s3://a", "ports": ["https"]}}, "/archive/ports/0"),
    Wrong(
        {"archive": {"url": "s3://a"}, "config": {"compaction": {"archive": "/archive"}}},
        "/config/compaction/archive",
    ),
    Wrong({"recorder": {"replicas": "2"}}, "/recorder/replicas"),
    Wrong({"recorder": {"replicas": -1}}, "/recorder/replicas"),
    Wrong({"controller": {"nodeSelector": {"disk": True}}}, "/controller/nodeSelector/disk"),
    Wrong({"extender": {"tolerations": {"key": "a"}}}, "/extender/tolerations"),
    Wrong({"extender": {"affinity": {"podAfinity": {}}}}, "/extender/affinity"),
    Wrong({"extender": {"extraEnv": [{"value": "a"}]}}, "/extender/extraEnv/0"),
    Wrong(
        {"extender": {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}},
        "/extender/podDisruptionBudget",
    ),
    Wrong({"extender": {"hpa": {"minReplicas": 2, "maxReplicas": 3, "targetCPU": 70}}}, "/extender/hpa"),
    Wrong(_scaled(minReplicas=0), "/extender/hpa/minReplicas"),
    Wrong(_scaled(targetCPU="70%"), "/extender/hpa/targetCPU"),
    Wrong(_scaled(behavior={}), "/extender/hpa"),
    Wrong({**_EXISTING, "extender": {"hpa": {"maxReplicas": 3}}}, "/extender/hpa"),
    Wrong({"view": {"enabled": "yes"}}, "/view/enabled"),
    Wrong({"admission": {"action": "Refuse"}}, "/admission/action"),
    Wrong({"admission": {"schedulerNames": []}}, "/admission/schedulerNames"),
    Wrong({"admission": {"schedulerNames": ["a,b"]}}, "/admission/schedulerNames/0"),
    Wrong({"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}}, "/networkPolicy/apiServerCIDRs/0"),
    Wrong({"networkPolicy": {"storePorts": []}}, "/networkPolicy/storePorts"),
    Wrong({"networkPolicy": {"apiServerPorts": ["https"]}}, "/networkPolicy/apiServerPorts/0"),
    Wrong({"networkPolicy": {"monitoringNamespace": "a.b"}}, "/networkPolicy/monitoringNamespace"),
    Wrong({"store": {"bundled": {"image": {"tag": ""}}}}, "/store/bundled/image/tag"),
    Wrong({"monitoring": {"podMonitor": True}}, "/monitoring/podMonitor"),
    Wrong({"monitoring": {"runbooks": "docs"}}, "/monitoring/runbooks"),
    Wrong({"tests": {"skip": ["cluster"]}}, "/tests/skip/0"),
)
