"""The whole matrix of roles and routes, and what a certificate says about its holder."""

import itertools
from typing import Any

import pytest

from app.serving import identities
from tests.serving import servers

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
QUESTIONS = ["/apis/v1/simulate", "/apis/v1/replay"]
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

# (paths, method) -> who may. Written out by hand: it is what the table has to amount to.
MAY: list[tuple[list[str], str, set[str]]] = [
    (VERBS, "POST", {"scheduler"}),
    (VIEWS, "GET", {"viewer", "operator"}),
    (QUESTIONS, "POST", {"viewer", "operator"}),
    (FLAGS, "GET", {"operator"}),
    (FLAGS, "PUT", {"operator"}),
    (FLAGS, "POST", {"operator"}),
    (UNKNOWN, "GET", set()),
    (UNKNOWN, "POST", set()),
]


def holder(*names: tuple[str, str], roster: identities.Roster | None = None) -> identities.Identity:
    peer: dict[str, Any] = {"subject": ((("commonName", "kube-scheduler"),),), "subjectAltName": names}
    return (roster or identities.Roster()).identity_of(peer)


def matrix() -> list[tuple[str, str, str, bool]]:
    return [
        (role, method, path, role in who)
        for paths, method, who in MAY
        for path, role in itertools.product(paths, ("scheduler", "viewer", "operator", "nobody"))
    ]


def test_the_matrix_over_real_connections(shared: servers.Server) -> None:
    servers.sign(shared.certificates, "nobody", uris=("spiffe://elsewhere/x",), common_name="scheduler")
    wrong = []
    for role, cases in itertools.groupby(sorted(matrix()), key=lambda case: case[0]):
        with shared.client(role) as client:
            for _, method, path, allowed in cases:
                body = b"{}" if method in ("POST", "PUT") else None
                status, _ = client.ask(method, path, body)
                if status != (200 if allowed else 403):
                    wrong.append((role, method, path, status))
    assert wrong == []


def test_each_path_stands_once_in_the_table() -> None:
    paths = [rule.path for rule in identities.TABLE]
    assert len(paths) == len(set(paths))
    assert {rule.role for rule in identities.TABLE} == set(identities.ROLES)


def test_a_method_that_the_path_does_not_have(shared: servers.Server) -> None:
    with shared.client() as client:
        assert client.ask("GET", "/filter")[0] == 405
        assert client.ask("DELETE", "/bind")[0] == 405
    with shared.client("viewer") as client:
        # Whoever may not use the path does not learn how it is used.
        assert client.ask("GET", "/filter")[0] == 403
        assert client.ask("POST", "/apis/v1/nodes", b"{}")[0] == 405


def test_the_common_name_gives_nothing() -> None:
    assert holder().roles == frozenset()
    assert holder(("DNS", "scheduler"), ("email", identities.uri("operator"))).roles == frozenset()


def test_an_operator_may_look() -> None:
    assert holder(("URI", identities.uri("operator"))).roles == {"operator", "viewer"}


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ("spiffe://cluster.local/sa/kube-scheduler", ("URI", "spiffe://cluster.local/sa/kube-scheduler")),
        ("URI:urn:scheduler", ("URI", "urn:scheduler")),
        ("DNS:Scheduler.Example", ("DNS", "scheduler.example")),
        ("scheduler.example", ("DNS", "SCHEDULER.example")),
    ],
)
def test_names_of_the_settings(listed: str, name: tuple[str, str]) -> None:
    roster = identities.Roster({"scheduler": [listed]})
    assert holder(name, roster=roster).roles == {"scheduler"}
    other = ("DNS" if name[0] == "URI" else "URI", name[1])
    assert holder(other, roster=roster).roles == frozenset()


def test_a_uri_counts_letter_for_letter() -> None:
    assert holder(("URI", identities.uri("operator").upper())).roles == frozenset()
    assert holder(("URI", identities.uri("operator") + "/x")).roles == frozenset()


def test_several_names_add_up() -> None:
    both = holder(("URI", identities.uri("viewer")), ("URI", identities.uri("scheduler")))
    assert both.roles == {"viewer", "scheduler"}


def test_without_tls_nobody_is_anybody() -> None:
    refused = identities.Roster().authorize({}, "POST", "/filter")
    assert isinstance(refused, identities.Denied)
    assert refused.status == 401
    known = identities.Roster(anonymous=["scheduler"]).authorize({}, "POST", "/filter")
    assert isinstance(known, identities.Identity)
    assert known.roles == {"scheduler"}


def test_a_refusal_says_what_is_missing() -> None:
    roster = identities.Roster(anonymous=["viewer"])
    refused = roster.authorize({}, "PUT", "/debug/flags/s")
    assert isinstance(refused, identities.Denied)
    assert refused.message == "PUT /debug/flags/s needs the role operator; anonymous has: viewer"


def test_roles_that_do_not_exist_are_found() -> None:
    assert identities.unknown_roles(["viewer", "admin"]) == ("admin",)
