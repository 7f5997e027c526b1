"""Renderings of explanations: rows in order, well-formed tables, correct totals."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from app.domain import model, verdicts
from app.verbs.explain import explanations, tables


def trace(refused: str = "no capacity", count: int = 30) -> verdicts.Trace:
    names = [f"n{at:02}" for at in range(count)]
    return verdicts.Trace(
        position=model.Position("i", 7),
        pod=model.Pod(uid="u", namespace="ns", name="p"),
        candidates=frozenset(names),
        interested=("A", "B"),
        refusals=(verdicts.Refusal(refused, frozenset(names[20:]), {"why": frozenset(names[20:])}, "A"),),
        ratings=(
            verdicts.Rating({3: frozenset(names[:5])}, {"close": frozenset(names[:5])}, "A", 1),
            verdicts.Rating({2: frozenset(names[3:8])}, {}, "B", 10),
        ),
        totals={3: frozenset(names[:3]), 23: frozenset(names[3:5]), 20: frozenset(names[5:8])},
    )


def test_rows_are_kept_first_best_first_then_by_name() -> None:
    rows = tables.rows(trace(), 30)
    assert [row.node for row in rows[:9]] == ["n03", "n04", "n05", "n06", "n07", "n00", "n01", "n02", "n08"]
    assert [row.kept for row in rows] == [True] * 20 + [False] * 10
    assert all(sum(cell.weighted for cell in row.cells) == row.total for row in rows if row.kept)


def test_a_node_that_is_asked_for_follows_the_first_ones_with_its_rank() -> None:
    whole = tables.rows(trace(), 30)
    assert [row.rank for row in whole] == list(range(1, 31))
    for row in whole[4:]:
        assert tables.rows(trace(), 4, {row.node}) == [*whole[:4], row]
    assert tables.rows(trace(), 4, {"n25", "n02", "n03", "other"}) == [*whole[:4], whole[7], whole[25]]


def test_the_node_that_was_chosen_or_holds_the_pod_is_in_every_form() -> None:
    explanation = explanations.Explanation(trace(), ("A", "B"), chosen="n01", place="n17")
    answer = tables.structure(explanation, limit=2, chosen="n02")
    assert isinstance(answer["scores"], list)
    assert [one["node"] for one in answer["scores"]] == ["n03", "n04", "n01", "n02", "n17"]
    assert answer["more"] == 25
    text = tables.markdown(explanation, limit=2)
    assert "| 7 | n01 | yes | 3 | 0 | 3 |" in text
    assert "| 18 | n17 | yes | 0 | 0 | 0 |\n\n26 more nodes are not shown." in text
    sheet = tables.spreadsheet(explanation, limit=2).splitlines()
    assert [line.partition(",")[0] for line in sheet] == ["node", "n03", "n04", "n01", "n17"]


def test_the_structure_is_bounded_but_its_numbers_are_whole() -> None:
    answer = tables.structure(explanations.Explanation(trace(), ("A", "B")), limit=4)
    assert isinstance(answer["scores"], list)
    assert len(answer["scores"]) == 4
    assert (answer["candidates"], answer["kept"], answer["more"]) == (30, 20, 26)
    assert answer["summary"] == "20 of 30 nodes fit: 10 no capacity"


def test_scores_are_printed_as_koordinator_does_with_raw_and_weighted() -> None:
    assert tables.scores(trace(), 2).splitlines() == [
        "Top2 scores for Pod: ns/p, feasibleNodes: 20, plugins:[A B]",
        "| # | Pod | Node | Score | A x1 | B x10 |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        "| 0 | ns/p | n03 | 23 | 3 | 2 -> 20 |",
        "| 1 | ns/p | n04 | 23 | 3 | 2 -> 20 |",
    ]


@given(reason=st.text(max_size=40))
def test_no_reason_breaks_a_table(reason: str) -> None:
    explanation = explanations.Explanation(trace(reason), ("A", "B"))
    lines = [line for line in tables.markdown(explanation).split("\n") if line.startswith("|")]
    assert {line.replace(tables.PIPE, "").count("|") for line in lines} == {5, 7}
    rows = list(csv.reader(io.StringIO(tables.spreadsheet(explanation), newline="")))
    assert len(rows) == 31
    assert {len(row) for row in rows} == {9}
