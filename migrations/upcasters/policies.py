"""PolicySeen and PolicyGone: from version 2 on they are the events of any object."""

from migrations.upcasters import steps

_KIND = "workloadpolicies"


def observed(fields: steps.Fields) -> steps.Fields:
    """PolicySeen 1 -> ObjectObserved 1: the policy is the data."""
    policy = fields["policy"]
    if not isinstance(policy, dict):
        raise LookupError("PolicySeen has no policy")
    namespace, name = str(policy["namespace"]), str(policy["name"])
    return {
        "type": "ObjectObserved",
        **_named(namespace, name),
        "uid": policy["uid"],
        "data": policy,
        **({"at": fields["at"]} if "at" in fields else {}),
    }


def gone(fields: steps.Fields) -> steps.Fields:
    """PolicyGone 1 -> ObjectGone 1."""
    namespace, name = str(fields["namespace"]), str(fields["name"])
    rest = {key: value for key, value in fields.items() if key not in ("type", "namespace", "name")}
    return {"type": "ObjectGone", **_named(namespace, name), **rest}


def _named(namespace: str, name: str) -> steps.Fields:
    identity = f"{namespace}/{name}"
    return {"kind": _KIND, "identity": identity, "subjects": [f"policy:{identity}", f"policies:{namespace}"]}
