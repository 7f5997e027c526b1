"""Examples of what the views return, for the API's document, and names for the demo."""

from app.plugins.elastic_quota import kinds

COLLECTION = kinds.QUOTAS.resource
"""The plural under which an API server stores quotas."""
VIEWS = "plugins/ElasticQuota/quotas"
"""Where the introspection API shows them."""

SUMMARY = {
    "key": "team-a",
    "name": "team-a",
    "namespace": "quotas",
    "valid": True,
    "errors": [],
    "warnings": [],
    "parentName": "koordinator-root-quota",
    "tree": "",
    "isParent": False,
    "allowLentResource": True,
    "runtimeVersion": 1042,
    "max": {"cpu": "90", "memory": "200Gi"},
    "min": {"cpu": "30", "memory": "100Gi"},
    "sharedWeight": {"cpu": "90", "memory": "200Gi"},
    "used": {"cpu": "40", "memory": "64Gi"},
    "nonPreemptibleUsed": {"cpu": "0", "memory": "0"},
    "nonPreemptibleRequest": {"cpu": "0", "memory": "0"},
    "selfUsed": {"cpu": "40", "memory": "64Gi"},
    "selfNonPreemptibleUsed": {"cpu": "0", "memory": "0"},
    "selfRequest": {"cpu": "80", "memory": "128Gi"},
    "selfNonPreemptibleRequest": {"cpu": "0", "memory": "0"},
    "autoScaleMin": {"cpu": "30", "memory": "100Gi"},
    "request": {"cpu": "80", "memory": "128Gi"},
    "childRequest": {"cpu": "80", "memory": "128Gi"},
    "allocated": {"cpu": "0", "memory": "0"},
    "guaranteed": {"cpu": "0", "memory": "0"},
    "runtime": {"cpu": "42", "memory": "128Gi"},
    "limit": {"cpu": "42", "memory": "128Gi"},
    "headroom": {"cpu": "2", "memory": "64Gi"},
    "over": {},
}
POD = {
    "namespace": "team-a",
    "name": "train-0",
    "isAssigned": True,
    "preemptible": True,
    "priority": 100,
    "resource": {"cpu": "4", "memory": "8Gi"},
}
QUOTA = {
    **SUMMARY,
    "children": [],
    "overuse": [],
    "preemption": {
        "action": "report",
        "pod": "team-a/train-1",
        "node": "n7",
        "violations": 0,
        "victims": [{"namespace": "team-a", "name": "batch-3", "priority": 0}],
    },
    "derivation": {
        "cpu": {
            "divided": "90",
            "among": ["team-a", "team-b", "team-c"],
            "request": "80",
            "scaledMin": "30",
            "base": "30",
            "weight": 90000,
            "rounds": [{"left": "20", "share": "12", "open": True}],
            "runtime": "42",
        }
    },
}
ADMISSION = {
    "namespace": "team-a",
    "name": "train-1",
    "quota": "team-a",
    "parents": [],
    "warning": "",
    "namespaceQuota": "",
    "isAssigned": False,
    "limited": True,
    "reason": "elastic quota team-a: no capacity in cpu",
    "tests": [
        {
            "quota": "team-a",
            "resource": "cpu",
            "against": "limit",
            "used": "40",
            "request": "4",
            "limit": "42",
            "fits": False,
        }
    ],
    "eviction": {
        "node": "n7",
        "decidedBy": "fewest victims",
        "violations": 0,
        "victims": [{"namespace": "team-a", "name": "batch-3", "priority": 0}],
    },
    "reclaim": None,
}
