"""The matrix of roles and routes, and the identities of certificates."""

import itertools
from typing import Any

import pytest

from app.serving.access import roles
from app.serving.tls import role_names
from tests.support.extender import server_processes

VERBS = [
    f"{prefix}/{verb}"
    for prefix in ("", "/api")
    for verb in ("filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt")
]
VIEWS = [
    "/apis/v1/__services__",
    "/apis/v1/nodes/n1",
    "/openapi.json",
    "/docs",
    "/dashboard",
    "/",
]
SIMULATIONS = ["/apis/v1/simulate", "/apis/v1/fit", "/apis/v1/replay", "/apis/v1/bisect"]
SHADOWS = ["/apis/v1/shadows/strict"]
FLAGS = ["/debug/flags/s", "/debug/flags/f", "/debug/flags/v", "/debug/flags/d"]
UNKNOWN = [
    "/filterx",
    "/filter/",
    "//filter",
    "/api/",
    "/metrics",
    "/apis/v1",
    "/apis/v1/",
    "/debug",
    "/console",
]

# (paths, method) -> allowed roles, written by hand as the specification of the table.
ALLOWED: list[tuple[list[str], str, set[str]]] = [
    (VERBS, "POST", {"scheduler"}),
    (VIEWS, "GET", {"viewer", "operator"}),
    (SIMULATIONS, "POST", {"viewer", "operator"}),
    (SHADOWS, "GET", {"viewer", "operator"}),
    (SHADOWS, "PUT", {"operator"}),
    (SHADOWS, "DELETE", {"operator"}),
    (FLAGS, "GET", {"operator"}),
    (FLAGS, "PUT", {"operator"}),
    (FLAGS, "POST", {"operator"}),
    (UNKNOWN, "GET", set()),
    (UNKNOWN, "POST", set()),
]


def holder(*names: tuple[str, str], bindings: roles.RoleBindings | None = None) -> roles.Identity:
    peer: dict[str, Any] = {"subject": ((("commonName", "kube-scheduler"),),), "subjectAltName": names}
    return (bindings or roles.RoleBindings()).identity_of(peer)


def matrix() -> list[tuple[str, str, str, bool]]:
    return [
        (role, method, path, role in who)
        for paths, method, who in ALLOWED
        for path, role in itertools.product(paths, ("scheduler", "viewer", "operator", "unknown"))
    ]


def test_the_matrix_over_real_connections(shared: server_processes.Server) -> None:
    server_processes.sign(
        shared.certificates, "unknown", uris=("spiffe://elsewhere/x",), common_name="scheduler"
    )
    wrong = []
    for role, cases in itertools.groupby(sorted(matrix()), key=lambda case: case[0]):
        with shared.client(role) as client:
            for _, method, path, allowed in cases:
                body = b"{}" if method in ("POST", "PUT") else None
                status, _ = client.ask(method, path, body)
                if status != (200 if allowed else 403):
                    wrong.append((role, method, path, status))
    assert wrong == []


def test_each_path_occurs_once_for_each_method_in_the_table() -> None:
    calls = [(rule.path, method) for rule in roles.TABLE for method in rule.methods]
    assert len(calls) == len(set(calls))
    assert {rule.role for rule in roles.TABLE} == set(role_names.ROLES)


def test_a_wrong_method_is_405_for_callers_with_the_role(shared: server_processes.Server) -> None:
    with shared.client() as client:
        assert client.ask("GET", "/filter")[0] == 405
        assert client.ask("DELETE", "/bind")[0] == 405
    with shared.client("viewer") as client:
        # A caller without the role does not learn the allowed methods.
        assert client.ask("GET", "/filter")[0] == 403
        assert client.ask("POST", "/apis/v1/nodes", b"{}")[0] == 405
        assert client.ask("PUT", "/apis/v1/shadows", b"{}")[0] == 405
        assert client.ask("POST", "/apis/v1/shadows/strict", b"{}")[0] == 405


@pytest.mark.parametrize(
    ("site", "allowed"),
    [("same-origin", True), ("none", True), (None, True), ("cross-site", False), ("same-site", False)],
)
def test_pages_of_other_origins_only_read(
    shared: server_processes.Server, site: str | None, allowed: bool
) -> None:
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    with shared.client("operator") as client:
        assert client.ask("GET", "/apis/v1/nodes/n1", headers=headers)[0] == 200
        for method, path in (
            ("POST", "/apis/v1/simulate"),
            ("POST", "/debug/flags/s"),
            ("PUT", "/apis/v1/shadows/strict"),
            ("DELETE", "/apis/v1/shadows/strict"),
        ):
            body = None if method == "DELETE" else b"{}"
            status, reply = client.ask(method, path, body, headers)
            assert status == (200 if allowed else 403), (method, path)
            assert allowed or "another origin" in reply["message"]


def test_the_common_name_grants_no_role() -> None:
    assert holder().roles == frozenset()
    assert holder(("DNS", "scheduler"), ("email", role_names.uri("operator"))).roles == frozenset()


def test_an_operator_is_also_a_viewer() -> None:
    assert holder(("URI", role_names.uri("operator"))).roles == {"operator", "viewer"}


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ("spiffe://cluster.local/sa/kube-scheduler", ("URI", "spiffe://cluster.local/sa/kube-scheduler")),
        ("URI:urn:scheduler", ("URI", "urn:scheduler")),
        ("DNS:Scheduler.Example", ("DNS", "scheduler.example")),
        ("scheduler.example", ("DNS", "SCHEDULER.example")),
    ],
)
def test_names_of_the_settings_grant_their_role(listed: str, name: tuple[str, str]) -> None:
    bindings = roles.RoleBindings({"scheduler": [listed]})
    assert holder(name, bindings=bindings).roles == {"scheduler"}
    other = ("DNS" if name[0] == "URI" else "URI", name[1])
    assert holder(other, bindings=bindings).roles == frozenset()


def test_a_uri_is_compared_exactly() -> None:
    assert holder(("URI", role_names.uri("operator").upper())).roles == frozenset()
    assert holder(("URI", role_names.uri("operator") + "/x")).roles == frozenset()


def test_roles_of_several_names_are_combined() -> None:
    both = holder(("URI", role_names.uri("viewer")), ("URI", role_names.uri("scheduler")))
    assert both.roles == {"viewer", "scheduler"}


def test_without_tls_only_anonymous_roles_apply() -> None:
    refused = roles.RoleBindings().authorize({}, "POST", "/filter")
    assert isinstance(refused, roles.Denied)
    assert refused.status == 401
    known = roles.RoleBindings(anonymous=["scheduler"]).authorize({}, "POST", "/filter")
    assert isinstance(known, roles.Identity)
    assert known.roles == {"scheduler"}


LOOPBACK = ("localhost", "LocalHost:8443", "127.0.0.1", "127.1.2.3:8443", "[::1]", "[::1]:65535")
ELSEWHERE = (
    *("evil.example", "evil.example:8443", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7"),
    *("[::2]:8443", "::1", "localhost:8443.evil.example", "localhost:", "evil.example#localhost", ""),
)


@pytest.mark.parametrize(("method", "path"), [("GET", "/apis/v1/pods"), ("PUT", "/debug/flags/s")])
def test_without_tls_no_page_of_another_name_reaches_the_loopback(method: str, path: str) -> None:
    bindings = roles.RoleBindings(anonymous=role_names.ROLES)
    for host in LOOPBACK:
        assert isinstance(bindings.authorize({"HTTP_HOST": host}, method, path), roles.Identity), host
    for host in ELSEWHERE:
        refused = bindings.authorize({"HTTP_HOST": host}, method, path)
        assert isinstance(refused, roles.Denied), host
        assert (refused.status, "loopback" in refused.message) == (403, True)


def test_a_refusal_names_the_missing_role() -> None:
    bindings = roles.RoleBindings(anonymous=["viewer"])
    refused = bindings.authorize({}, "PUT", "/debug/flags/s")
    assert isinstance(refused, roles.Denied)
    assert refused.message == "PUT /debug/flags/s requires the role operator; anonymous has: viewer"


ROUTES = {"seats": "viewer", "seats/<hall>/<name>": "viewer", "keys/<hall>": "operator"}


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("seats", "viewer"),
        ("seats/north/1", "viewer"),
        ("keys/north", "operator"),
        ("keys/north/", "operator"),
        ("keys//north", "operator"),
        ("seats//1", "operator"),
        ("seats/north", "operator"),
        ("unknown", "operator"),
    ],
)
def test_a_route_of_a_plugin_has_its_own_role_and_no_other_spelling(path: str, role: str) -> None:
    rules = roles.rules_of("/apis/v1/plugins/Seating", ROUTES)
    for held in ("viewer", "operator", "scheduler"):
        bindings = roles.RoleBindings(anonymous=[held], rules=rules)
        found = bindings.authorize({}, "GET", f"/apis/v1/plugins/Seating/{path}")
        allowed = held == "operator" or held == role
        assert isinstance(found, roles.Identity) == allowed, (held, path)
    viewer = roles.RoleBindings(anonymous=["viewer"], rules=rules)
    assert isinstance(viewer.authorize({}, "GET", "/apis/v1/plugins/Another/seats"), roles.Identity)
    refused = viewer.authorize({}, "POST", "/apis/v1/plugins/Seating/seats")
    assert isinstance(refused, roles.Denied)
    assert refused.status == 405


def test_routes_for_viewers_need_no_rules() -> None:
    assert roles.rules_of("/apis/v1/plugins/Seating", {"seats": "viewer"}) == ()
