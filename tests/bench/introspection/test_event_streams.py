"""The measurement of streams works with few of them."""

from tests.bench.introspection import event_streams


def test_every_stream_covers_every_event() -> None:
    found = event_streams.measure(streams=3, rate=200, seconds=2.0)
    assert found.events == 400
    assert found.share > 0
    assert found.alone > 0
    assert found.late_ms > 0
