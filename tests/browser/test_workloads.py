"""The workloads of plugins: a gang that waits, and an elastic quota that is full."""

import csv
import io
import pathlib
import re
import secrets
import urllib.parse
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
import pytest

from app.domain import events, model
from app.plugins.coscheduling import kinds as gangs
from app.plugins.elastic_quota import kinds as quotas
from app.store.server import embedded
from tests.support.browser import axe, browsers, panels, scripts, shown, viewers
from tests.support.decisions import small_clusters, small_gangs, small_quotas
from tests.support.extender import api_worlds

pytestmark = pytest.mark.browser
ENABLED = '["*", "Coscheduling", "ElasticQuota"]'
RUN = ("host-2", "member-1")
"""The nodes of another gang's members."""
JOB = {"rl-job-group": "alpha"}
SHADOW = model.Shadow("strict")
ADDRESSES = (
    "workloads",
    "workloads?of=gang:ml/train",
    "workloads?of=elasticquota:team",
    "workloads?of=group:ml/alpha",
    "pending",
)


@pytest.fixture(scope="module")
def seen(
    chromium: None, store_server: embedded.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[shown.Shown]:
    """Three of four members of a gang, and a quota of two cores that four pods use; two more wait for it."""
    cluster, folder = f"work{secrets.token_hex(4)}", tmp_path_factory.mktemp("work")
    with (
        api_worlds.processes(store_server, cluster) as start,
        viewers.running(store_server.url, cluster, folder, TOPOLOG_PLUGINS_ENABLED=ENABLED) as viewer,
    ):
        world = api_worlds.filled(start())
        labels = {"quota.scheduling.koordinator.sh/name": "team"}
        pods = [api_worlds.pod(f"team-{at}", "host-1" if at < 4 else "") for at in range(6)]
        world.append(
            gangs.SIGS.observed(small_gangs.sigs("train", 4, namespace="ml")),
            *(
                events.PodSeen(
                    pod=small_gangs.pod(
                        f"train-{at}", namespace="ml", labels={"scheduling.x-k8s.io/pod-group": "train"}
                    )
                )
                for at in range(3)
            ),
            gangs.SIGS.observed(small_gangs.sigs("run", 2, namespace="ml")),
            *(
                events.PodSeen(
                    pod=small_gangs.pod(
                        f"run-{node}",
                        namespace="ml",
                        node=node,
                        labels={"scheduling.x-k8s.io/pod-group": "run"},
                    )
                )
                for node in RUN
            ),
            quotas.QUOTAS.observed(small_quotas.quota("team", 1, 2)),
            *(events.PodSeen(pod=msgspec.structs.replace(one, labels=labels)) for one in pods),
            *(
                events.PodSeen(pod=small_clusters.pod(f"job-{at}", JOB, namespace="ml", node=node))
                for at, node in enumerate(("host-2", "host-2", ""))
            ),
            events.ShadowSet(SHADOW),
        )
        yield shown.Shown(world, viewer)


@pytest.fixture
def page(seen: shown.Shown, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    with browsers.browser(seen.viewer.url, tmp_path / "profile") as found:
        yield found


@pytest.mark.scenario("UI-10")
@pytest.mark.parametrize("address", [*ADDRESSES, "compare?shadow=strict"])
def test_a_panel_of_a_plugin_or_a_shadow_shows_the_numbers_of_its_link_and_its_command(
    page: browsers.Browser, seen: shown.Shown, address: str
) -> None:
    page.open(f"/dashboard/{address}{'&' if '?' in address else '?'}at={seen.head}")
    panels.same_numbers(page, seen.viewer.url)


def test_a_map_and_a_chart_that_were_left_are_freed(page: browsers.Browser) -> None:
    """Whatever listens to the window or to the scheme holds its canvas: a tab is open for days."""
    source = {"source": scripts.read("listening")}
    page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    page.open("/dashboard/")
    counts = []
    for _ in range(4):
        page.click("nav a[href*='workloads']")
        page.until(lambda: page.run("return !!document.querySelector('#chart canvas')"), "the chart")
        page.click("nav a")
        page.until(lambda: page.run("return !!document.querySelector('cluster-map')?.drawn"), "the map")
        page.settled()
        counts.append(page.run("return listening"))
    assert counts == counts[:1] * 4
    colour = "return document.querySelector('cluster-map').drawn.ink"
    light = page.run(colour)
    browsers.emulate(page.driver, dark=True)
    page.until(lambda: page.run(colour) != light, "the map in the other scheme")


def rows(page: browsers.Browser, panel: str) -> dict[str, list[str]]:
    """First cell of a row -> the others."""
    script = (
        "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
        ".map((row) => [...row.cells].map((one) => one.innerText.trim()))"
    )
    return {first: others for first, *others in page.run(script, panel)}


def lines(page: browsers.Browser) -> dict[str, str]:
    """Line of the chart -> its value at the moment, once the page has left the lines of another object."""
    page.settled()
    changes = rows(page, "#changes")
    return {name: held[1] for name, held in rows(page, "#over-time").items() if name not in changes}


Quota: TypeAlias = tuple[str, str, int, int | None]
"""Of an object in a domain: the object, the domain's value, the pods placed, and those desired."""


def opened_with(page: browsers.Browser, *quotas: Quota, more: int = 0) -> None:
    """Open the page of the first object, where the first answer about all quotas has these."""
    names = ("of", "value", "placed", "desired")
    found = [{"key": "role", **dict(zip(names, one, strict=True))} for one in quotas]
    page.open("/dashboard/")
    amended = [{"quotas": found, "moreQuotas": more}]
    page.run(scripts.read("amended"), "/apis/v1/cluster?limit=1000", amended)
    page.click("nav a[href*='workloads']")
    # The overview has a panel of this name, too.
    page.until(lambda: page.text("#quotas h2") == "Quotas" and rows(page, "#quotas"), "the quotas")


def test_an_object_is_full_once_each_domain_with_a_quota_is(page: browsers.Browser) -> None:
    opened_with(
        page,
        *(("shop/a", "host", 2, 2), ("shop/a", "member", 0, 2), ("shop/a", "zone", 2, None)),
        *(("shop/b", "host", 2, 2), ("shop/b", "member", 5, None)),
        *(("shop/c", "host", 3, 2), ("shop/c", "member", 1, 2)),
        ("shop/d", "host", 4, None),
    )
    bar = (
        "return [...document.querySelectorAll('#quotas .bar')]"
        ".map((one) => [one.classList[1] ?? '', one.querySelector('.fill').getAttribute('width')])"
    )
    assert {name: cells[:4] for name, cells in rows(page, "#quotas").items()} == {
        "shop/a": ["3", "2", "4", "2"],
        "shop/b": ["2", "2", "2", "5"],
        "shop/c": ["2", "4", "4", "\N{EN DASH}"],
        "shop/d": ["1", "\N{EN DASH}", "\N{EN DASH}", "4"],
    }
    assert page.run(bar) == [["", "50"], ["full", "100"], ["over", "75"], ["", "0"]]
    assert "added up" not in page.text("#quotas")


def test_an_object_has_all_of_its_domains_where_the_list_is_cut(page: browsers.Browser) -> None:
    opened_with(page, ("shop/spread", "host", 1, 1), more=1)
    assert rows(page, "#quotas")["shop/spread"][:3] == ["1", "1", "1"]
    assert "Only the quotas that are nearest to full are added up here" in page.text("#quotas")
    page.until(lambda: len(rows(page, "#domains")) == 2, "its domains")
    assert sorted(rows(page, "#domains")) == ["role=host", "role=member"]


def test_what_is_in_flight_of_a_quota_is_shaded(page: browsers.Browser) -> None:
    page.open("/dashboard/workloads?of=shop/spread")
    page.until(lambda: lines(page), "the lines")
    # Nothing was ever in flight on a host.
    for domain, in_flight in (("role=host", None), ("role=member", "1")):
        assert lines(page).get(f"{domain} in flight") == in_flight
        assert page.run(scripts.read("shaded"), domain) == (in_flight == "1"), domain


def test_no_line_of_another_moment_stays_in_the_chart(page: browsers.Browser, seen: shown.Shown) -> None:
    canvas = "return !!document.querySelector('#chart canvas')"
    page.open("/dashboard/workloads?of=gang:ml/train")
    page.until(lambda: page.run(canvas), "the chart")
    page.run(scripts.read("amended"), "/apis/v1/series", [{"lines": []}])
    seen.world.append(events.ShadowSet(SHADOW))
    page.until(lambda: "nothing was counted in this window" in page.text("#over-time"), "no line")
    page.until(lambda: not page.run(canvas), "no chart")
    seen.world.append(events.ShadowSet(SHADOW))
    page.until(lambda: page.run(canvas), "the chart again")


def test_a_point_without_a_time_has_an_empty_field_in_the_file(page: browsers.Browser) -> None:
    """The first event of the window may no longer be kept: 1970 is no time of a cluster."""
    page.open("/dashboard/workloads")
    points = [[0, 0, 3], [7, 1782900000000, 4]]
    page.run(scripts.read("amended"), "/apis/v1/series", [{"lines": [{"name": "members", "points": points}]}])
    page.click("#all-gang a[href*='train']")
    page.until(lambda: "members" in rows(page, "#over-time"), "the line")
    text = page.later(scripts.read("saved"), "#over-time .menu", "as CSV")
    saved = [(one["offset"], one["at"], one["value"]) for one in csv.DictReader(io.StringIO(text))]
    assert saved == [("0", "", "3"), ("7", "2026-07-01T10:00:00.000Z", "4")]


def test_nothing_is_asked_about_the_object_of_a_link_before_its_kind_is_known(page: browsers.Browser) -> None:
    """It was asked about as a quota: a heavy question, behind which the right one waited."""
    page.requests()
    page.open("/dashboard/workloads?of=gang:ml/train")
    page.until(lambda: rows(page, "#over-time"), "the lines")
    series = [path for path in page.requests() if path.startswith("/apis/v1/series")]
    assert {urllib.parse.parse_qs(path.partition("?")[2])["of"][0] for path in series} == {"gang:ml/train"}


def test_a_gang_that_waits_is_shown_with_what_it_needs(page: browsers.Browser) -> None:
    page.open("/dashboard/workloads?of=gang:ml/train")
    assert rows(page, "#all-gang")["sigs/ml/train"][:3] == ["4", "3", "0"]
    values = lines(page)
    assert values == {"minimum": "4", "members": "3", "with a seat": "0", "waiting": "3"}
    assert "3 of 4 members exist" in page.text("#object")


def test_an_elastic_quota_that_is_full_is_shown_with_what_waits_for_it(page: browsers.Browser) -> None:
    page.open("/dashboard/workloads")
    listed = rows(page, "#all-elasticquota")["team"]
    assert page.text("#all-elasticquota h2") == "Elastic quotas"
    assert "cpu 2" in listed
    page.click("#all-elasticquota a[href*='team']")
    values = lines(page)
    assert values == {"cpu used, % of max": "100", "cpu waiting, % of max": "50", "cpu min, % of max": "50"}
    assert page.text("#object h2") == "elasticquota team"
    script = "return [...document.querySelectorAll('#chart .change-line')].map((one) => one.title)"
    (mark,) = page.until(lambda: page.run(script), "the mark of the change")
    assert re.fullmatch(r"ElasticQuota created, offset \d+", mark)
    assert "ElasticQuota created" in page.text("#over-time")
    page.open("/dashboard/pending")
    assert "elastic quota" in page.text("#groups")


def test_a_job_group_is_opened_by_its_namespace_and_name(page: browsers.Browser) -> None:
    page.open("/dashboard/workloads")
    assert page.text("#all-group h2") == "Job groups"
    assert rows(page, "#all-group")["ml/alpha"][:4] == ["3", "2", "0", "1"]
    page.click("#all-group a[href*='alpha']")
    assert lines(page) == {"pods": "3", "with a node": "2", "waiting": "1"}
    page.until(lambda: page.text("#object a[href*='color=group']"), "the link")
    page.click("#object a[href*='color=group']")
    page.until(lambda: "several pods of the group" in page.text(".legend"), "the legend")


def test_the_nodes_of_a_gang_are_a_colour_of_the_map(page: browsers.Browser) -> None:
    page.open("/dashboard/workloads?of=gang:ml/run")
    page.until(lambda: page.text("#object a[href*='color=gang']"), "the link")
    page.click("#object a[href*='color=gang']")
    page.until(lambda: "elsewhere" in page.text(".legend"), "the legend")
    page.settled()
    options = "return [...document.querySelector('.choose select').options].map((one) => one.text.trim())"
    assert "gang ml/run" in page.run(options)
    assert "gang ml/train" not in page.run(options)
    assert page.run("return document.querySelector('.choose select').value") == "gang:ml/run"
    legend = page.text(".legend")
    assert re.search(r"a member\s+2\b", legend), legend
    page.open("/dashboard/workloads?of=gang:ml/train")
    page.settled()
    assert page.text("#object a[href*='color=gang']") == ""


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("dark", [False, True])
def test_they_can_be_used_by_everyone(page: browsers.Browser, dark: bool) -> None:
    browsers.emulate(page.driver, dark=dark, still=True)
    for width in (1280, 360):
        browsers.resize(page.driver, width)
        for address in ADDRESSES:
            page.open(f"/dashboard/{address}")
            assert page.text(".panel .failed") == "", address
            assert page.run("return document.documentElement.scrollWidth") <= width, address
            assert axe.violations(page) == [], address
