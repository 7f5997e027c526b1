"""Every view in a real browser: no violation, no error, no foreign request; hostile names and addresses."""

import pathlib
import re

import msgspec
import pytest

from app.domain import events
from app.store.server import embedded
from tests.support.browser import browsers, panels, scripts, shown, viewers
from tests.support.extender import api_worlds, bundled

pytestmark = pytest.mark.browser
VIEWS = ("", "pending", "pods/shop/web-3", "workloads", "decisions", "compare", "health")


@pytest.mark.scenario("UI-1")
def test_every_view_live_and_past_does_nothing_that_it_must_not(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    for view in VIEWS:
        on_small.open(f"/dashboard/{view}")
        assert on_small.text(".panel h2")
        assert on_small.text(".panel .failed") == "", view
        on_small.open(f"/dashboard/{view}?at={small.head - 2}")
        assert on_small.settled().endswith(f"/{small.head - 2}")
        assert "The cluster as it was" in on_small.text(".banner.past")
        assert on_small.run("return document.title").startswith(on_small.text("nav a[aria-current=page]"))


def test_a_bundle_of_the_latest_events_is_named_on_every_view(
    small: shown.Shown, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    cluster = bundled.restored(store_server, bundled.exported(small.world, f"?from={small.head // 2}"))
    with (
        viewers.running(store_server.url, cluster, tmp_path) as viewer,
        browsers.browser(viewer.url, tmp_path / "profile") as page,
    ):
        for view in VIEWS:
            page.open(f"/dashboard/{view}")
            assert f"A bundle of cluster {small.world.store.keys.cluster}" in page.text(".banner.bundle")
            assert page.text(".top .status") == "bundle"
            assert page.text(".panel .failed") == "", view
        page.open(f"/dashboard/?at={small.head - 2}")
        assert "The cluster as it was" in page.text(".banner.past")
        assert page.settled().endswith(f"/{small.head - 2}")


@pytest.mark.parametrize("left_out", [0, 1])
def test_pods_in_a_bundle_wait_as_long_as_its_clock_has_run(
    small: shown.Shown, store_server: embedded.Server, tmp_path: pathlib.Path, left_out: int
) -> None:
    """At its end until it was made, or until its last event if others had followed; else until the moment."""
    last = small.head - left_out
    small.world.now[0] = api_worlds.START + 7_200
    cluster = bundled.restored(store_server, bundled.exported(small.world, f"?from={last // 2}&to={last}"))
    small.world.now[0] = api_worlds.START
    ages = "return [...document.querySelectorAll('#pods tbody tr')].map((row) => row.cells[1].innerText)"
    with (
        viewers.running(store_server.url, cluster, tmp_path) as viewer,
        browsers.browser(viewer.url, tmp_path / "profile") as page,
    ):
        for at in ("", f"?at={last}", f"?at={last - 1}"):
            page.open(f"/dashboard/pending{at}")
            (age,) = {text.strip() for text in page.run(ages)}
            assert (age == "2 h") == (not left_out and not at.endswith(str(last - 1)))
            assert set(re.findall(r"the oldest for ([\w ]+) ·", page.text("#groups"))) == {age}
        page.open(f"/dashboard/?at={last - 1}")
        assert set(re.findall(r"the oldest for ([\w ]+)", page.text("#why"))) == {age}


@pytest.mark.scenario("UI-1")
def test_every_view_of_a_large_cluster_does_nothing_that_it_must_not(
    on_large: browsers.Browser, large: shown.Shown
) -> None:
    for view in ("", "pending", "pods/shop/pod-9", "workloads", "decisions", "compare", "health"):
        for at in ("", f"?at={large.head - 2}"):
            on_large.open(f"/dashboard/{view}{at}")
            assert on_large.text(".panel h2")
            assert on_large.text(".panel .failed") == "", view + at


@pytest.mark.scenario("UI-1")
def test_what_is_planted_is_refused_and_reported(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    ran, reported = on_small.later(scripts.read("planted"))
    assert ran == 0
    assert {name: directives[:1] for name, directives in reported.items()} == {
        "an inline script": ["require-trusted-types-for"],
        "a style attribute": ["style-src-attr"],
        "eval": ["require-trusted-types-for"],
        "HTML from text": ["require-trusted-types-for"],
        "a foreign image": ["img-src"],
    }
    # What was planted is in the console, too.
    on_small.collect()
    on_small.found.clear()


@pytest.mark.scenario("UI-9")
def test_a_hostile_text_is_shown_as_text(on_small: browsers.Browser, small: shown.Shown) -> None:
    hostile = '"><img src=x onerror=alert(1)>' + "\u202e\x00" + "<script>alert(1)</script>" + "x" * 60_000
    pod = msgspec.structs.replace(
        api_worlds.pod("hostile"),
        labels={"note": hostile[:63]},
        annotations={"note": hostile},
        unscheduled=hostile,
    )
    small.world.append(events.PodSeen(pod=pod))
    try:
        for view in (*VIEWS, "pods/shop/hostile"):
            on_small.open(f"/dashboard/{view}")
            text = on_small.text("main")
            # The other views show the message only where it is a reason among others.
            if view in ("pending", "pods/shop/hostile"):
                assert '"><img src=x onerror=alert(1)>' in text, view
                assert "characters)" in text
            assert on_small.run("return document.querySelectorAll('main img, main script').length") == 0
            assert on_small.run("return document.documentElement.scrollWidth <= innerWidth"), view
    finally:
        small.world.append(events.PodGone(uid=pod.uid, namespace="shop", name="hostile"))


@pytest.mark.scenario("UI-9")
def test_a_name_with_a_nul_byte_is_not_found(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/pods/shop/web%00-3")
    assert "cannot find pod shop/web" in on_small.text("main")
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "status of 404" not in line]


@pytest.mark.scenario("UI-9")
def test_a_cell_of_a_csv_file_is_never_a_formula(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    text = on_small.later(scripts.read("csv"))
    assert text == 'name,value,text,at\r\n\'=1+1,-5,"a ""b"", c",\'@x\r\n\'+2,,\'-3,\r\n'


def test_a_quantity_is_rounded_in_the_unit_that_it_fills(on_small: browsers.Browser) -> None:
    shown_as = {
        "6992500m": "6,992.5",
        "500m": "0.5",
        "250m": "0.25",
        "25m": "0.025",
        "1025m": "1.03",
        "1125m": "1.13",
        "-1125m": "-1.13",
        "9996m": "10",
        "12345m": "12.3",
        "1100Mi": "1.07Gi",
        "125080": "125,080",
        "11952448Mi": "11.4Ti",
        "12Gi": "12Gi",
        "1536Ki": "1.5Mi",
        "0": "0",
        "2k": "2,000",
        "one": "one",
    }
    on_small.open("/dashboard/")
    assert on_small.later(scripts.read("quantity"), list(shown_as)) == list(shown_as.values())
    # The numbers of all panels are compared with these.
    assert {text: panels.quantity(text) for text in shown_as} == {
        text: found.replace(",", "") for text, found in shown_as.items()
    }


def test_a_waiting_time_ends_now_or_at_the_moment_that_is_shown(on_small: browsers.Browser) -> None:
    on_small.open("/dashboard/")
    assert on_small.later(scripts.read("ago")) == ["2 h", "1 min"]


@pytest.mark.scenario("UI-10")
@pytest.mark.parametrize("view", [*VIEWS, "?node=host-1"])
def test_a_panel_shows_the_numbers_of_its_link_and_its_command(
    on_small: browsers.Browser, small: shown.Shown, view: str
) -> None:
    on_small.open(f"/dashboard/{view}{'&' if '?' in view else '?'}at={small.head}")
    panels.same_numbers(on_small, small.viewer.url)


@pytest.mark.scenario("UI-10")
@pytest.mark.parametrize(
    ("view", "place", "planted"),
    [
        ("", "ol.reasons b", "7,777"),
        ("pending", "p.numbers b", "7,777 pods"),
        ("pods/shop/web-3", "ol.life button.at", "7,777"),
        ("decisions", "#strip p.empty", "at most 7,777 in a column"),
        ("decisions", ".facet li b", "7,777"),
        ("?node=host-1", "#node .facts div:nth-child(3) dd", "77.7Gi"),
    ],
)
def test_a_number_that_no_document_has_is_found_wherever_it_is_shown(
    on_small: browsers.Browser, small: shown.Shown, view: str, place: str, planted: str
) -> None:
    on_small.open(f"/dashboard/{view}{'&' if '?' in view else '?'}at={small.head}")
    on_small.run("document.querySelector(arguments[0]).textContent = arguments[1]", place, planted)
    with pytest.raises(AssertionError, match=r"7777|77\.7Gi"):
        panels.same_numbers(on_small, small.viewer.url)


@pytest.mark.scenario("UI-12")
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("?at=999999999", "beyond the head of the log"),
        ("?at=yesterday", "must be an offset of the log"),
        ("?at=2999-01-01", "must be an offset of the log"),
        ("?at=2999-01-01T00:00:00Z", "is in the future"),
        ("?color=blue", "must be state, pods"),
        ("?levels=a%20b", "must be label keys, comma-separated"),
        ("?color=decision:1-1", "cannot find decision 1-1"),
        ("?node=nowhere", "cannot find node nowhere"),
        ("pods/shop/absent", "cannot find pod shop/absent"),
        ("pods/shop/100%", "cannot find pod shop/100%"),
        ("pods/shop/a%20b", "cannot find pod shop/a b"),
        ("pods/%zz", "Search for a pod by NAMESPACE/NAME above"),
        ("compare?from=9&to=5&at=nonsense", "must be an offset of the log"),
    ],
)
def test_a_wrong_address_shows_the_sentence_of_the_api(
    small: shown.Shown, on_small: browsers.Browser, address: str, sentence: str
) -> None:
    on_small.driver.get(f"{small.viewer.url}/dashboard/{address}")
    on_small.until(lambda: sentence in on_small.text("body"), sentence)
    assert on_small.text("nav")
    on_small.collect()
    # A refused request is an error line of the console; nothing else may be there.
    assert [line for line in on_small.found if "status of 4" not in line] == []
    on_small.open("/dashboard/pending")
    assert on_small.text(".panel .failed") == ""
    # Its line may be later than the sentence.
    on_small.collect()
    on_small.found[:] = [line for line in on_small.found if "status of 4" not in line]
