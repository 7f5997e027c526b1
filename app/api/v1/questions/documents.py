"""The schemas of the questions for the OpenAPI document, made from their types."""

from typing import Any

import msgspec

from app.framework import registry
from app.verbs.questions import question_schema
from app.verbs.questions.shadows import shadowed

_TEMPLATE = "#/components/schemas/{name}"
QUESTIONS: tuple[type[question_schema.Question], ...] = (
    question_schema.Simulate,
    question_schema.Fit,
    question_schema.Diff,
    question_schema.Replay,
    question_schema.Bisect,
    shadowed.SetShadow,
)


def components(plugins: registry.Registry) -> dict[str, dict[str, Any]]:
    """Name -> schema: of the questions, and of the overrides that the configured plugins allow."""
    operations = [one.type for one in question_schema.operations_of(plugins).values()]
    _, found = msgspec.json.schema_components((*QUESTIONS, *operations), ref_template=_TEMPLATE)
    for shape in found.values():
        for name, field in shape.get("properties", {}).items():
            field.setdefault("description", "The operation." if name == "op" else _described(field))
    found["Override"] = {
        "description": "One operation of a situation.",
        "oneOf": [{"$ref": _TEMPLATE.format(name=kind.__name__)} for kind in operations],
    }
    for question in ("Situation", "Replay", "SetShadow"):
        found[question]["properties"]["overrides"]["items"] = {"$ref": _TEMPLATE.format(name="Override")}
    return found


def _described(field: dict[str, Any]) -> str:
    """The description of the first alternative that has one."""
    return next((one["description"] for one in field.get("anyOf", ()) if "description" in one), "")
