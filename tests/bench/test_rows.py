import io
import pathlib

import msgspec
import pytest
import rich.console

from tests.bench import rows


@pytest.mark.parametrize(
    ("row", "ratio", "ok"),
    [
        (rows.compared("filter", "ms", ours=3.2, peer=4.0, bar=0.8), 0.8, True),
        (rows.compared("filter", "ms", ours=3.3, peer=4.0, bar=0.8), 0.825, False),
        (rows.reaching("pods", "pods/s", ours=90.0, peer=100.0, bar=0.9), 0.9, True),
        (rows.reaching("pods", "pods/s", ours=89.0, peer=100.0, bar=0.9), 0.89, False),
        (rows.at_most("start", "s", ours=8.0, bar=8.0), None, True),
        (rows.at_most("start", "s", ours=8.1, bar=8.0), None, False),
        (rows.at_least("ingest", "events/s", ours=30_000.0, bar=30_000.0), None, True),
        (rows.at_least("ingest", "events/s", ours=29_999.0, bar=30_000.0), None, False),
    ],
)
def test_a_row_is_held_against_its_bar(row: rows.Row, ratio: float | None, ok: bool) -> None:
    assert row.ratio == (None if ratio is None else pytest.approx(ratio))
    assert row.ok is ok


def test_the_file_holds_a_list_of_rows_with_these_fields(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "build" / "bench.json"
    rows.write(path, [rows.compared("a", "ms", ours=1.0, peer=2.0, bar=0.8)])
    assert msgspec.json.decode(path.read_bytes()) == [
        {"case": "a", "unit": "ms", "ours": 1.0, "peer": 2.0, "ratio": 0.5, "bar": 0.8, "ok": True}
    ]


def test_a_later_run_replaces_its_own_cases_and_keeps_the_others(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bench.json"
    first = [rows.at_most("a", "s", ours=1.0, bar=2.0), rows.at_most("b", "s", ours=1.0, bar=2.0)]
    rows.write(path, first)
    again = rows.at_most("b", "s", ours=3.0, bar=2.0)
    rows.write(path, [again])
    assert rows.read(path) == [first[0], again]


def test_the_table_shows_missed_bars() -> None:
    console = rich.console.Console(width=140, record=True, file=io.StringIO())
    measured = [
        rows.compared("filter", "ms", ours=4.0, peer=4.0, bar=0.8),
        rows.at_least("ingest", "events/s", ours=41_234.5, bar=30_000.0),
    ]
    console.print(rows.shown(measured))
    lines = console.export_text().splitlines()
    filtered, ingested = (next(line for line in lines if name in line) for name in ("filter", "ingest"))
    assert "missed" in filtered
    assert "41,234 events/s" in ingested
    assert ingested.rstrip().endswith("ok")
