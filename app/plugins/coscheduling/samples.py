"""Examples of what the views return, for the API's document, and a name for the demo."""

VIEWS = "plugins/Coscheduling/gangs"
"""Where the introspection API shows gangs."""

SUMMARY = {
    "name": "ml/train",
    "family": "sigs",
    "key": "sigs/ml/train",
    "state": "waiting",
    "waitTime": 600,
    "createTime": "2026-07-01T00:00:00Z",
    "mode": "Strict",
    "gangMatchPolicy": "once-satisfied",
    "minRequiredNumber": 8,
    "totalChildrenNum": 8,
    "gangGroup": ["ml/train"],
    "children": ["ml/train-0", "ml/train-1"],
    "pendingChildren": ["ml/train-0", "ml/train-1"],
    "waitingForBindChildren": [],
    "boundChildren": [],
    "onceResourceSatisfied": False,
    "gangFrom": "GangFromPodGroupCrd",
    "hasGangInit": True,
    "definedBy": "PodGroup ml/train",
    "members": 8,
    "placed": 0,
    "domain": "",
    "conflicts": [],
    "errors": [],
    "reason": "gang sigs/ml/train: no capacity for 8 members together",
    "missing": "6 of 8 seats in zone-a; nvidia.com/gpu 2 of 8 missing",
}
GANG = {
    **SUMMARY,
    "plan": {
        "domain": ["zone-a"],
        "layers": ["topology.kubernetes.io/zone"],
        "members": [{"pod": "ml/train-0", "node": "n1"}],
    },
    "domains": [{"path": ["zone-a"], "slots": 6, "existing": 0}],
    "seats": [{"pod": "ml/train-0", "node": "n1", "state": "placed", "at": "2026-07-01T00:00:00Z"}],
}
