"""``topolog doctor scheduler`` and the log: what kube-scheduler does, whatever is configured.

Each test has a scheduler of its own name, so that only its own calls count for it.
"""

from collections.abc import Iterator

import pytest

from tests.support.doctor import witnessed


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[witnessed.Witnessed]:
    with witnessed.running(tmp_path_factory.mktemp("witnessed")) as made:
        yield made


def test_a_record_has_the_scheduler_and_the_form_of_its_call(installed: witnessed.Witnessed) -> None:
    one = witnessed.Scheduler(installed, "recorded")
    pod = one.pod("shown")
    one.filter(pod, whole=True)
    one.prioritize(pod)
    one.bind(pod, "a")
    unknown = {"metadata": {"namespace": "shop", "name": "recorded-unknown", "uid": "unknown"}}
    assert one.bind(unknown, "a")
    installed.settled()

    def rows(name: str) -> list[tuple[str, str, bool]]:
        path = f"/apis/v1/decisions?pod=shop/recorded-{name}"
        found = installed.stage.caller("viewer").ask("GET", path).json["items"]
        return sorted((row["verb"], row["scheduler"], row["wholeNodes"]) for row in found)

    assert rows("shown") == [
        ("bind", "recorded", False),
        ("filter", "recorded", True),
        ("prioritize", "recorded", False),
    ]
    assert rows("unknown") == [("bind", "", False)]
