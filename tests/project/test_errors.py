"""The codes of errors: one form for all of them, whichever layer answers, and each explained."""

import ast
import re
from collections.abc import Iterator

from tests.project import reference_pages

ANSWERS = {"Problem", "problem", "Denied", "RequestRefusal"}
"""What makes an error with a reason code (app.api.errors, app.api.extender.verb_handlers, app.serving)."""


def codes() -> set[str]:
    """Every reason code that the code can answer with."""
    app = reference_pages.ROOT / "app"
    answering = (path for layer in ("api", "serving") for path in (app / layer).rglob("*.py"))
    return {code for path in answering for code in _in(path.read_text())}


def _in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _name(node.func) in ANSWERS:
            # (status, code, message), or (status, message, code).
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            yield from (word for word in words if isinstance(word, str) and " " not in word)
        elif isinstance(node, ast.Dict) and node.keys:
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if len(keys) == len(node.keys) and all(type(key) is int and key >= 400 for key in keys):
                values = [value.value for value in node.values if isinstance(value, ast.Constant)]
                yield from (value for value in values if isinstance(value, str))


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def test_every_reason_code_has_one_form_and_is_explained() -> None:
    found = codes()
    assert {"BadRequest", "Forbidden", "Timeout", "StoreAway", "TooManyRequests"} <= found
    page = (reference_pages.REFERENCE / "errors.md").read_text()
    explained = re.findall(r"^\| \d{3} \| `(\w+)` \|", page, re.MULTILINE)
    assert len(explained) == len(set(explained))
    # from_http has one more, for a fault of ours.
    assert found | {"InternalError"} == set(explained)
    assert all(re.fullmatch(r"(?:[A-Z][a-z]+)+", code) for code in explained)
