"""explain over HTTP: which attempt, in which format, and the answer if no decision is recorded."""

import csv
import io
from pathlib import Path

import pytest

from app.store.decisions import decision_log, records
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body, items

EXPLAINED = Path(__file__).parent / "explained.md"


def test_the_latest_attempt_is_explained_at_its_own_position(world: api_worlds.World) -> None:
    api_worlds.decide(world, api_worlds.pod("web-3"))
    refused_at = world.store.follower.catch_up().position
    world.append(api_worlds.policy(host=9))
    answer = body(world.client.get("/apis/v1/pods/shop/web-3/explain"))
    assert answer["source"] == "decision"
    assert answer["decision"]["verb"] == "filter"
    assert (answer["attempt"], answer["attempts"], answer["attemptsComplete"]) == (1, 1, True)
    assert answer["position"] == str(refused_at)
    assert (answer["fits"], answer["kept"], answer["candidates"]) == (False, 0, 6)
    assert answer["difference"] is None
    (refusal,) = answer["refusals"]
    assert refusal["reason"] == "workload policy shop/spread: no capacity (host 2/1, member 1/1)"
    assert {detail["detail"] for detail in refusal["details"]} == {"host: 2/1", "member: 1/1"}
    assert answer["change"] == ["member needs 1 more replica in policy shop/spread, or 1 counted pod fewer"]
    assert [one["pod"] for one in answer["inFlight"]] == ["shop/web-2"]


def test_attempts_are_numbered_from_the_oldest(world: api_worlds.World) -> None:
    pod = api_worlds.pod("web-3")
    api_worlds.decide(world, pod)
    world.append(api_worlds.policy(host=9))
    api_worlds.decide(world, pod)
    first = body(world.client.get("/apis/v1/pods/shop/web-3/explain?attempt=1"))
    second = body(world.client.get("/apis/v1/pods/shop/web-3/explain?attempt=2"))
    assert (first["fits"], second["fits"]) == (False, True)
    assert body(world.client.get("/apis/v1/pods/shop/web-3/explain"))["attempt"] == 2
    assert_problem(
        world.client.get("/apis/v1/pods/shop/web-3/explain?attempt=3"), 404, "NotFound", "2 were found"
    )
    earlier = first["position"].partition("/")[2]
    assert body(world.client.get(f"/apis/v1/pods/shop/web-3/explain?at={earlier}"))["attempts"] == 1


def test_any_decision_can_be_read_by_its_id(world: api_worlds.World) -> None:
    world.append(api_worlds.policy(host=9))
    filtered, scored = api_worlds.decide(world, api_worlds.pod("web-3"))
    answer = body(world.client.get(f"/apis/v1/pods/shop/web-3/explain?decision={scored}"))
    assert answer["decision"]["verb"] == "prioritize"
    assert (answer["candidates"], answer["kept"]) == (6, 6)
    assert_problem(world.client.get(f"/apis/v1/pods/shop/web-1/explain?decision={filtered}"), 404, "NotFound")
    detail = body(world.client.get(f"/apis/v1/decisions/{filtered}"))
    assert len(detail["nodes"]) == detail["candidates"] == 6
    assert world.client.get(detail["explain"]).status_code == 200


def test_without_a_decision_the_answer_is_computed_and_marked(world: api_worlds.World) -> None:
    answer = body(world.client.get("/apis/v1/pods/shop/web-3/explain"))
    assert (answer["source"], answer["decision"], answer["attempt"], answer["attempts"]) == (
        "computed",
        None,
        None,
        0,
    )
    assert answer["candidates"] == 6


def test_a_deleted_pod_can_still_be_explained(world: api_worlds.World) -> None:
    api_worlds.decide(world, api_worlds.pod("gone"))
    assert world.client.get("/apis/v1/pods/shop/gone").status_code == 404
    assert body(world.client.get("/apis/v1/pods/shop/gone/explain"))["source"] == "decision"


@pytest.mark.parametrize(
    ("query", "accept", "kind"),
    [
        ("", None, "application/json"),
        ("", "*/*", "application/json"),
        ("", "text/markdown", "text/markdown"),
        ("", "text/plain", "text/markdown"),
        ("", "text/csv", "text/csv"),
        ("?format=markdown", "application/json", "text/markdown"),
        ("?format=csv", None, "text/csv"),
    ],
)
def test_the_form_is_chosen_by_format_else_by_accept(
    still: api_worlds.World, query: str, accept: str | None, kind: str
) -> None:
    headers = {"Accept": accept} if accept else {}
    response = still.client.get(f"/apis/v1/pods/shop/web-3/explain{query}", headers=headers)
    assert (response.status_code, response.mimetype) == (200, kind)


def test_csv_has_a_line_for_each_candidate(world: api_worlds.World) -> None:
    world.append(api_worlds.policy(host=9))
    api_worlds.decide(world, api_worlds.pod("web-3", rl_job_group="job"))
    text = world.client.get("/apis/v1/pods/shop/web-3/explain?format=csv").text
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(lines) == 6
    best = lines[0]
    assert best["node"] == "host-2"
    assert int(best["JobAffinity weighted"]) == 2 * int(best["JobAffinity raw"]) == 20
    assert {line["plugin"] for line in lines if line["kept"] == "false"} == {"WorkloadPolicy"}


def test_markdown_reads_as_this_page_does(world: api_worlds.World) -> None:
    """``explained.md`` shows a refusal, scores and an answer without a decision, as they are rendered.

    A change of the rendering changes that page: read it as an operator would.
    """
    api_worlds.decide(world, api_worlds.pod("web-3"))
    world.append(api_worlds.policy(host=9))
    api_worlds.decide(world, api_worlds.pod("web-4", rl_job_group="job"))
    pages = [
        world.client.get(f"/apis/v1/pods/shop/{name}/explain?format=markdown").text
        for name in ("web-3", "web-4", "web-1")
    ]
    text = "\n".join(pages).replace(world.store.log.incarnation, "INCARNATION")
    for number, identity in enumerate(
        reversed([decision.id for decision in world.store.decisions.latest(limit=10)]), 1
    ):
        text = text.replace(identity, f"ID-{number}")
    assert text == EXPLAINED.read_text()


def test_decisions_are_filtered_by_their_fields(world: api_worlds.World) -> None:
    api_worlds.decide(world, api_worlds.pod("web-3"))
    world.append(api_worlds.policy(host=9))
    api_worlds.decide(world, api_worlds.pod("web-4"), api_worlds.pod("web-5"))

    def found(query: str) -> list[str]:
        return [
            f"{one['verb']} {one['pod']['name']}"
            for one in items(world.client.get(f"/apis/v1/decisions?{query}"))
        ]

    assert found("") == [
        "prioritize web-5",
        "filter web-5",
        "prioritize web-4",
        "filter web-4",
        "filter web-3",
    ]
    assert found("pod=shop/web-3") == ["filter web-3"]
    assert found("verb=prioritize") == ["prioritize web-5", "prioritize web-4"]
    assert found("outcome=refused") == ["filter web-3"]
    assert found("reason=host+2/1") == ["filter web-3"]
    assert found("plugin=NodeLabelPriority") == []
    assert found("node=host-1") == [], "which was offered to all, and chosen by none"
    raised = world.store.follower.catch_up().offset
    assert found(f"until={raised}") == ["filter web-3"]
    assert found(f"since={raised}")[-1] == "filter web-4"
    assert found(f"at={raised - 1}") == ["filter web-3"]
    assert found("since=2026-07-01T10:00:03Z") == []


def test_decisions_are_listed_in_pages(world: api_worlds.World) -> None:
    ids = api_worlds.decide(world, *(api_worlds.pod(f"web-{at}") for at in range(5)))
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        more = f"&continue={token}" if token else ""
        response = world.client.get(f"/apis/v1/decisions?limit=2{more}")
        seen += [one["id"] for one in items(response)]
        token = body(response)["metadata"]["continue"]
    assert seen == ids[::-1]


def test_pods_of_one_class_have_the_same_answer_and_others_do_not(world: api_worlds.World) -> None:
    world.append(
        api_worlds.pod_seen("web-4"), api_worlds.pod_seen("db-1", app="db"), api_worlds.pod_seen("web-5")
    )
    answer = {one["name"]: one["change"] for one in items(world.client.get("/apis/v1/pending"))}
    assert answer["web-3"] == answer["web-4"] == answer["web-5"] != answer["db-1"]
    assert answer["db-1"] == body(world.client.get("/apis/v1/pods/shop/db-1/explain"))["change"]


def test_pending_counts_the_attempts(world: api_worlds.World) -> None:
    pod = api_worlds.pod("web-3")
    latest = api_worlds.decide(world, pod, pod, pod)[-1]
    (waiting,) = items(world.client.get("/apis/v1/pending"))
    assert (waiting["attempts"], waiting["lastDecision"]) == (3, latest)
    assert waiting["attemptsComplete"] is True


def test_decisions_that_were_not_scanned_are_reported(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, other = api_worlds.pod("web-3"), api_worlds.pod("web-4")
    ids = api_worlds.decide(world, pod, pod, *[other] * 4)
    monkeypatch.setattr(decision_log, "_SCAN", 2)
    monkeypatch.setattr(records, "MAX_SCANNED", 3)
    monkeypatch.setattr("app.api.v1.pending_pods._MAX_SCANNED", 3)
    answer = body(world.client.get("/apis/v1/pods/shop/web-3/explain"))
    assert (answer["source"], answer["attempts"], answer["attemptsComplete"]) == ("computed", 0, False)
    (waiting,) = items(world.client.get("/apis/v1/pending"))
    assert (waiting["attempts"], waiting["attemptsComplete"]) == (0, False)
    # A page without items is not the last one.
    seen: list[str] = []
    token: str | None = ""
    pages = 0
    while token is not None:
        more = f"&continue={token}" if token else ""
        response = world.client.get(f"/apis/v1/decisions?pod=shop/web-3{more}")
        seen += [one["id"] for one in items(response)]
        token = body(response)["metadata"]["continue"]
        pages += 1
    assert (seen, pages) == (ids[1::-1], 2)


def test_a_decision_that_cannot_be_computed_again_gives_the_reason(world: api_worlds.World) -> None:
    """Its record was shortened, and the log never had the pod as it was sent."""
    heavy = {f"label-{number}": "x" * 60 for number in range(150)}
    (identity,) = api_worlds.decide(world, api_worlds.pod("web-3", **heavy))
    answer = body(world.client.get(f"/apis/v1/decisions/{identity}"))
    assert answer["shortened"] == ["pod"]
    assert len(answer["nodes"]) == answer["candidates"] == 6
    response = world.client.get("/apis/v1/pods/shop/web-3/explain")
    assert_problem(response, 410, "RecordShortened", f"decision {identity} cannot be computed again")
    assert_problem(response, 410, "RecordShortened", "the log holds another version of it")
