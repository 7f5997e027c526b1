"""Every boundary of every append, claim and bind x {before, after, answer lost}: as if nothing had happened."""

from app.store import embedded
from tests.campaigns import crashing, wires


def test_wherever_a_process_dies_the_end_is_the_same(store_server: embedded.Server) -> None:
    undisturbed = crashing.Story(store_server.url)
    expected = undisturbed.run()
    assert {"APPEND", "CLAIM", "Binding"} <= set(undisturbed.passed)
    assert expected["counts"] == {"shop/spread|role=host": 2, "shop/spread|role=member": 2}
    different = {}
    for boundary, what in enumerate(undisturbed.passed):
        for way in wires.WAYS:
            story = crashing.Story(store_server.url, boundary, way)
            found = story.run()
            assert len(story.passed) > boundary
            if found != expected:
                different[boundary, what, way] = found
    assert different == {}
