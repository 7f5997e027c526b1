"""The OpenAPI document is complete: every route is in it, every answer fits it, and no input breaks one."""

import contextlib
import json
import re
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from tests.support.campaigns import sizes
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import body


def ask_everything(
    still: api_worlds.World, mode: schemathesis.GenerationMode, *, examples: int, seed: int
) -> int:
    """Ask every route so often, and check each answer; returns how many questions there were."""
    document = schemathesis.openapi.from_wsgi("/openapi.json", still.app)
    asked = 0
    for result in document.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case[Any]) -> None:
            nonlocal asked
            asked += 1
            # The client of the check reads bodies as they were sent.
            case.call_and_validate(
                headers={"Accept-Encoding": "identity"}, excluded_checks=[checks.positive_data_acceptance]
            )

        # An operation without parameters cannot be asked wrongly.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            ask()
    return asked


MODES = pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))


@MODES
def test_whatever_is_asked_the_answer_fits_the_document(
    still: api_worlds.World, mode: schemathesis.GenerationMode
) -> None:
    assert ask_everything(still, mode, examples=4, seed=1) > 100


@pytest.mark.campaign
@pytest.mark.scenario("WI-11")
@MODES
def test_whatever_is_asked_very_often_the_answer_fits_the_document(
    still: api_worlds.World, mode: schemathesis.GenerationMode
) -> None:
    examples = sizes.of("REQUESTS", 1000)
    print(ask_everything(still, mode, examples=examples, seed=sizes.first_seed()), "requests")


def test_the_document_is_openapi_3_1_and_complete(still: api_worlds.World) -> None:
    spec = body(still.client.get("/openapi.json"))
    assert spec["openapi"] == "3.1.0"
    mounted = {
        re.sub(r"<(?:[^:<>]+:)?([^<>]+)>", r"{\1}", rule.rule)
        for rule in still.app.url_map.iter_rules()
        if rule.rule.startswith(("/apis/", "/debug/"))
    }
    assert set(spec["paths"]) == mounted
    operations = [one for item in spec["paths"].values() for one in item.values() if isinstance(one, dict)]
    assert all(one["summary"] for one in operations)
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(spec)))
    assert references <= set(spec["components"]["schemas"])


def test_the_answers_that_have_an_etag_are_those_of_the_document(still: api_worlds.World) -> None:
    spec = body(still.client.get("/openapi.json"))
    values = {"namespace": "shop", "name": "web-1"}
    looked = 0
    required = {"/apis/v1/series": "?of=waiting", "/apis/v1/diff": "?from=3&to=40"}
    for path, item in spec["paths"].items():
        streamed = path in ("/apis/v1/watch", "/apis/v1/export")
        if "get" not in item or streamed or not set(re.findall(r"{(\w+)}", path)) <= set(values):
            continue
        found = still.client.get(path.format_map(values) + required.get(path, ""))
        if found.status_code != 200:
            continue
        looked += 1
        operation = item["get"]
        assert ("ETag" in found.headers) == ("304" in operation["responses"]), path
        documented = set(operation["responses"]["200"].get("headers", {}))
        if "ETag" in found.headers:
            assert documented == {"ETag", "Content-Encoding", "Vary"}, path
        else:
            assert documented == set(), path
    assert looked > 15


def test_every_item_of_the_document_is_described(still: api_worlds.World) -> None:
    spec = body(still.client.get("/openapi.json"))
    missing = [
        f"{name}.{field}"
        for name, schema in spec["components"]["schemas"].items()
        if not name.endswith("List")
        for field, shape in schema.get("properties", {}).items()
        if not shape.get("description")
    ]
    assert missing == []


def test_the_page_shows_every_path_and_loads_nothing(still: api_worlds.World) -> None:
    page = still.client.get("/docs")
    assert page.mimetype == "text/html"
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self';")
    assert "unsafe" not in policy
    assert not re.search(r"<style|style=", page.text)
    style = still.client.get("/docs/style.css")
    assert (style.status_code, style.mimetype) == (200, "text/css")
    for path, item in body(still.client.get("/openapi.json"))["paths"].items():
        for method in item.keys() - {"parameters"}:
            shown = rf"<b>{method.upper()}</b>\s*(<a [^>]*>)?<code>{re.escape(path)}</code>"
            assert re.search(shown, page.text), (method, path)
    assert not re.search(r"<script|<img|@import|url\(|https?://", page.text + style.text)
    assert re.findall("<link [^>]*>", page.text) == ['<link rel="stylesheet" href="/docs/style.css">']


def test_the_page_escapes_what_it_shows(still: api_worlds.World) -> None:
    assert "<namespace>" not in still.client.get("/docs").text
