"""The schema of the chart's values: by the values of all overlays, and by the settings for ``config``."""

from collections.abc import Mapping
from typing import Any, Final

from app import settings
from app.settings import json_schemas
from tests.support.charts import values

Schema = dict[str, Any]

_GROUPS_ELSEWHERE: Final = frozenset({"tls", "kube", "client"})
"""Groups that the manifests set, or that no process in the cluster reads."""
FIXED: Final = frozenset(
    (
        *("server.bind", "server.port", "server.health_port", "view.port"),
        *("election.namespace", "election.recorder", "election.controller"),
    )
)
"""Settings that ports, probes, Services and Roles of the manifests repeat: another value could not work."""
_QUANTITY: Final[Schema] = {
    "type": ["string", "integer"],
    "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
    "minimum": 0,
}
_CIDR: Final[Schema] = {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}
_CIDRS: Final = ("schedulerCIDRs", "apiServerCIDRs", "storeCIDRs", "cidrs")
_PORTS: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 1, "maximum": 65535},
}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_NAME: Final = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_AMOUNTS: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {each: _QUANTITY for each in ("cpu", "memory", "ephemeral-storage")},
}
_REPLICAS: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 100}
_SCALE: Final[Schema] = {
    "minReplicas": _REPLICAS,
    "maxReplicas": _REPLICAS,
    "targetCPU": {"type": "integer", "minimum": 1},
}
_OWN: Final[Mapping[str, Schema]] = {
    "resources": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    },
    "replicas": {"type": "integer", "minimum": 0, "maximum": 100},
    # That no minimum is above its maximum is checked by the template.
    "hpa": {
        "type": "object",
        "additionalProperties": False,
        "properties": _SCALE,
        "dependencies": {each: list(_SCALE) for each in _SCALE},
    },
    **{each: _STRINGS for each in ("nodeSelector", "podAnnotations", "labels")},
    "affinity": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            each: {"type": "object"} for each in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        },
    },
    "strategy": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "type": {"enum": ["RollingUpdate", "Recreate"]},
            "rollingUpdate": {"type": ["object", "null"]},
        },
    },
    "podDisruptionBudget": {
        "type": "object",
        "additionalProperties": False,
        "maxProperties": 1,
        "properties": {
            each: {"type": ["integer", "string"], "pattern": "^[0-9]+%$", "minimum": 0}
            for each in ("minAvailable", "maxUnavailable")
        },
    },
    "tolerations": {"type": "array", "items": {"type": "object"}},
    "topologySpreadConstraints": {"type": "array", "items": {"type": "object", "required": ["topologyKey"]}},
    "imagePullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string"}},
        },
    },
    **{
        each: {"type": "array", "items": {"type": "object", "required": ["name"]}}
        for each in ("extraEnv", "extraVolumes", "extraVolumeMounts")
    },
    "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
    "registry": {"type": "string", "minLength": 1, "pattern": "^[a-zA-Z0-9.:-]+$"},
    "repository": {"type": "string", "pattern": "^[a-z0-9]+([._/-][a-z0-9]+)*$"},
    "tag": {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "mode": {"enum": ["sidecar", "existing"]},
    "source": {"enum": ["bootstrap", "certManager", "existing"]},
    "action": {"enum": ["Warn", "Deny"]},
    # They are joined by commas; a scheduler's name is a subdomain.
    "schedulerNames": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": _NAME}},
    "issuerRef": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "pattern": _NAME},
            "kind": {"type": "string"},
            "group": {"type": "string"},
        },
        "dependencies": {"kind": ["name"], "group": ["name"]},
    },
    "extraHosts": {"type": "array", "items": {"type": "string", "pattern": "^[-A-Za-z0-9.:*]+$"}},
    **{each: {"type": "array", "items": _CIDR} for each in _CIDRS},
    **dict.fromkeys(("ports", "apiServerPorts", "storePorts"), _PORTS),
    "runbooks": {"type": "string", "pattern": '^(https?://[^\\s"\\\\]+)?$'},
    "monitoringNamespace": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
    **{each: _STRINGS for each in ("serviceAccountAnnotations", "podLabels")},
    # Settings have a place of their own, and secrets belong in a Secret.
    "variables": {
        "type": "object",
        # Not by propertyNames: Helm 3 reports another path for it.
        "patternProperties": {
            "^(AWS|GOOGLE|AZURE)_[A-Z0-9_]+$": {"type": "string"},
            "(KEY|KEY_ID|SECRET|TOKEN|PASSWORD)$": False,
        },
        "additionalProperties": False,
    },
    "maxMemory": {"type": "string", "pattern": "^[1-9][0-9]*(kb|mb|gb)$"},
    "size": {**_QUANTITY, "type": "string"},
    **{each: {"type": "string", "pattern": f"^$|{_NAME}"} for each in ("existingSecret", "existingClaim")},
    "skip": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z][0-9]{2}$"}},
}


def schema() -> Schema:
    """The document of values.schema.json."""
    made = _of(values.of_overlay(values.DEFAULT), ())
    described = {each.name: each for each in settings.describe()}
    made["properties"]["cluster"] = {"type": "string", "pattern": f"^({described['cluster'].rule.pattern})$"}
    made["properties"]["config"] = json_schemas.of_settings(settings.describe(), _of_chart)
    url = described["store.url"].rule.pattern
    made["properties"]["store"]["properties"]["external"]["properties"]["url"] = {
        "type": "string",
        "pattern": f"^({url})$",
    }
    made["properties"]["archive"]["properties"]["url"] = {
        "type": "string",
        "pattern": "^((s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._=+-]+)*/?)?$",
    }
    # Subcharts get them from Helm.
    made["properties"]["global"] = {"type": "object"}
    made["allOf"] = _RULES
    return {"$schema": json_schemas.DIALECT, "title": "Values of the chart topolog", **made}


def _of_chart(setting: settings.Setting) -> bool:
    rule = setting.rule
    elsewhere = setting.path[0] in _GROUPS_ELSEWHERE or setting.name in FIXED
    return len(setting.path) > 1 and not elsewhere and not (rule.secret or rule.quiet)


def _of(value: object, path: tuple[str, ...]) -> Schema:
    name = path[-1] if path else ""
    if name in _OWN:
        return dict(_OWN[name])
    match value:
        case dict():
            inner = {key: _of(each, (*path, key)) for key, each in value.items()}
            return {"type": "object", "additionalProperties": False, "properties": inner}
        case bool():
            return {"type": "boolean"}
        case str():
            return {"type": "string"}
        case _:
            raise AssertionError(f"{'.'.join(path)} has no schema")


def _at(*path: str, where: Schema) -> Schema:
    """A schema that requires something of a value."""
    for name in reversed(path):
        where = {"required": [name], "properties": {name: where}}
    return where


_BUNDLED: Final = _at("store", "bundled", "enabled", where={"const": True})
_EMPTY: Final = {"properties": {each: {"maxLength": 0} for each in ("url", "existingSecret")}}
_RULES: Final[list[Schema]] = [
    # Exactly one store; another cluster may have the name `default` in a store that is shared.
    {
        "if": _BUNDLED,
        "then": _at("store", "external", where=_EMPTY),
        "else": {
            "properties": {
                "cluster": {"not": {"const": "default"}},
                "store": {
                    "properties": {
                        "bundled": {"properties": {"tls": {"const": False}}},
                        "external": {
                            "oneOf": [
                                {"properties": {one: {"minLength": 1}, other: {"maxLength": 0}}}
                                for one, other in (("url", "existingSecret"), ("existingSecret", "url"))
                            ]
                        },
                    }
                },
            }
        },
    },
    # The other images have the version of the chart or of the API server where both are empty.
    {
        "if": _at("store", "bundled", "image", "digest", where={"maxLength": 0}),
        "then": {
            "properties": {
                "store": {
                    "properties": {
                        "bundled": {"properties": {"image": {"properties": {"tag": {"minLength": 1}}}}}
                    }
                }
            }
        },
    },
    # cert-manager gets them as DNS names, among which no client looks for an address.
    {
        "if": _at("certificates", "source", where={"const": "certManager"}),
        "then": {
            "properties": {
                "certificates": {"properties": {"extraHosts": {"items": {"not": {"pattern": "^[0-9.]+$|:"}}}}}
            }
        },
    },
    # Each replica would be another kube-scheduler, which waits for the Lease.
    {
        "if": _at("scheduler", "mode", where={"const": "sidecar"}),
        "then": {"properties": {"extender": {"properties": {"hpa": {"maxProperties": 0}}}}},
    },
    # One archive; credentials without a URL would be a mistake that nothing reports.
    {
        "if": {"anyOf": [_at("archive", each, where={"minLength": 1}) for each in ("url", "existingClaim")]},
        "then": {
            "properties": {"config": {"properties": {"compaction": {"properties": {"archive": False}}}}}
        },
    },
    {
        "if": _at("archive", "url", where={"minLength": 1}),
        "then": {"properties": {"archive": {"properties": {"existingClaim": {"maxLength": 0}}}}},
        "else": {
            "properties": {
                "archive": {
                    "properties": {"existingSecret": {"maxLength": 0}, "variables": {"maxProperties": 0}}
                }
            }
        },
    },
]
