"""Mistakes of callers: the right 4xx in the form of all errors, never a 5xx, nothing written."""

import pytest

from app.api import errors
from app.store import errors as store_errors
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body

BAD = (
    ("/apis/v1/nodes?limit=0", "limit"),
    ("/apis/v1/nodes?limit=1001", "limit"),
    ("/apis/v1/nodes?limit=many", "limit"),
    ("/apis/v1/nodes?limit=" + "9" * 5000, "limit"),
    ("/apis/v1/nodes?limt=5", "limt"),
    ("/apis/v1/nodes?continue=x", "continue"),
    ("/apis/v1/nodes?continue=%00%ff", "continue"),
    ("/apis/v1/nodes?continue=W10", "continue"),
    ("/apis/v1/nodes?at=yesterday", "at"),
    ("/apis/v1/nodes?at=-1", "at"),
    ("/apis/v1/nodes?at=2026-13-01T00:00:00Z", "at"),
    ("/apis/v1/nodes?at=2026-07-01T00:00:00", "at"),
    ("/apis/v1/nodes?at=%D9%A1", "at"),
    ("/apis/v1/nodes?at=999999", "999999"),
    ("/apis/v1/nodes?at=99999999999999999999999", "at"),
    ("/apis/v1/nodes?at=2999-01-01T00:00:00Z", "at: 2999-01-01T00:00:00.000Z is in the future; it is 20"),
    ("/apis/v1/nodes?limit=1&limit=2", "limit: is given more than once"),
    ("/apis/v1/settings?at=1", "at: there is no parameter of this name; there are none here"),
    ("/apis/v1/nodes?foo=1", "foo: there is no parameter of this name; known: at, limit, continue, prefix"),
    ("/apis/v1/topology?levels=a,,b", "levels"),
    ("/apis/v1/topology?levels=a%0Ab", "levels"),
    ("/apis/v1/decisions?verb=unbind", "verb"),
    ("/apis/v1/decisions?pod=web-1", "pod"),
    ("/apis/v1/decisions?pod=shop/web-1%0A", "pod"),
    ("/apis/v1/events?type=PodSeem", "type"),
    ("/apis/v1/events?from=x", "from"),
    ("/apis/v1/events?from=yesterday", "such as 2026-07-01T12:00:00Z; it is 'yesterday'"),
    ("/apis/v1/events?from=2999-01-01T00:00:00Z", "from: 2999-01-01T00:00:00.000Z is in the future; it is"),
    ("/apis/v1/events?to=2999-01-01T00:00:00Z", "to: 2999-01-01T00:00:00.000Z is in the future; it is 20"),
    ("/apis/v1/decisions?since=2999-01-01T00:00:00Z", "since: 2999-01-01T00:00:00.000Z is in the future"),
    ("/apis/v1/decisions?until=2999-01-01T00:00:00Z", "until: 2999-01-01T00:00:00.000Z is in the future"),
    ("/apis/v1/decisions/facets?since=2999-01-01T00:00:00Z", "since: 2999-01-01T00:00:00.000Z is in the"),
    ("/apis/v1/events?object=web-1", "must be KIND:NAME, such as pod:NAMESPACE/NAME"),
    ("/apis/v1/watch?object=web-1", "must be KIND:NAME, such as pod:NAMESPACE/NAME"),
    ("/apis/v1/events?object=foo:bar", "object: no event is about 'foo': a subject begins with one of"),
    ("/apis/v1/watch?object=foo:bar", "policies, policy, "),
    ("/apis/v1/pods/shop/web-1/explain?format=pdf", "format"),
    ("/apis/v1/pods/shop/web-1/explain?attempt=0", "attempt"),
    ("/apis/v1/plugins/JobAffinity/groups?limit=x", "limit"),
    ("/apis/v1/plugins/JobAffinity/groups/shop/job?limit=1", "limit"),
)


@pytest.mark.parametrize(("path", "named"), BAD)
def test_a_bad_parameter_is_400_and_named(still: api_worlds.World, path: str, named: str) -> None:
    assert_problem(still.client.get(path), 400, "BadRequest", named)


def test_an_unknown_path_is_named_and_where_to_look(still: api_worlds.World) -> None:
    for path in ("/apis/v1/nonsense", "/nonsense", "/debug/flags", "/apis/v1//lag", "/apis//v1/lag"):
        assert_problem(still.client.get(path), 404, "NotFound", path, "/openapi.json")


def test_a_continue_of_another_list_is_refused(still: api_worlds.World) -> None:
    first = body(still.client.get("/apis/v1/nodes?limit=1"))["metadata"]["continue"]
    assert_problem(still.client.get(f"/apis/v1/events?continue={first}"), 400, "BadRequest", "/apis/v1/nodes")


def test_an_unsupported_format_is_406(still: api_worlds.World) -> None:
    response = still.client.get("/apis/v1/pods/shop/web-3/explain", headers={"Accept": "image/png"})
    assert_problem(response, 406, "NotAcceptable", "text/markdown")


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (store_errors.StoreAway("refused"), 503, "StoreAway"),
        (store_errors.ArchiveAway("it cannot be listed"), 503, "ArchiveAway"),
        (store_errors.Behind("offset 3 of 9"), 503, "Behind"),
        (store_errors.Rewound("another log"), 503, "StoreRewound"),
        (store_errors.Gap("7 is missing"), 503, "StoreRewound"),
        (store_errors.Trimmed(40), 410, "PositionTrimmed"),
        (store_errors.Shortened("1-0", "the pod was too large"), 410, "RecordShortened"),
        (store_errors.Beyond(9, 3), 400, "BadRequest"),
        (store_errors.Unreadable("a newer event"), 503, "StoreRefused"),
    ],
)
def test_an_error_of_the_store_becomes_a_status(
    raised: store_errors.StoreError, status: int, code: str
) -> None:
    problem = errors.from_store(raised)
    assert (problem.status, problem.reason_code) == (status, code)
    assert problem.message


def test_a_trimmed_position_names_the_oldest_that_is_kept() -> None:
    assert "40" in errors.from_store(store_errors.Trimmed(40)).message


def test_an_offset_of_another_incarnation_is_gone(still: api_worlds.World) -> None:
    assert_problem(still.client.get("/apis/v1/nodes?at=former/3"), 410, "PositionGone", "former")


def test_an_internal_fault_has_the_form_of_errors_and_no_details(
    still: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("app.api.introspection.pages.moment", fail)
    response = still.client.get("/apis/v1/nodes")
    assert_problem(response, 500, "InternalError")
    assert "secret" not in response.text
