"""Times that are typed into the time bar: in the zone in which the page shows times."""

import datetime
import urllib.parse

import pytest
from selenium.webdriver.common import keys

from tests.support.browser import browsers, shown

pytestmark = pytest.mark.browser
ZONE = "Asia/Tokyo"
"""Of the browser: nine hours before UTC, all year."""
TYPED = [
    (False, "2025-11-27 12:03:07", "2025-11-27T03:03:07.000Z"),
    (False, "27 Nov 2025, 12:03:07", "2025-11-27T03:03:07.000Z"),
    (False, "27 Nov 2025, 12:03:07 UTC", "2025-11-27T12:03:07.000Z"),
    (True, "2025-11-27 12:03:07", "2025-11-27T12:03:07.000Z"),
    (True, "27 Nov 2025, 12:03:07", "2025-11-27T12:03:07.000Z"),
    (True, "27 Nov 2025, 12:03:07 UTC", "2025-11-27T12:03:07.000Z"),
    (True, "2025-11-27 12:03:07 +02:00", "2025-11-27T10:03:07.000Z"),
    (True, "2025-11-27T12:03:07+02:00", "2025-11-27T12:03:07+02:00"),
    (False, "2025-11-27T12:03:07", "2025-11-27T03:03:07.000Z"),
    (True, "2025-11-27T12:03:07", "2025-11-27T12:03:07.000Z"),
    (True, "2025-11-27T12:03:07.250", "2025-11-27T12:03:07.250Z"),
    (False, "2025-11-27", "2025-11-26T15:00:00.000Z"),
    (True, "2025-11-27", "2025-11-27T00:00:00.000Z"),
    (True, "2025-11-27 12:03:07 EST", "2025-11-27T17:03:07.000Z"),
    (True, "2025-11-27 12:03:07 PM", "2025-11-27T12:03:07.000Z"),
]
"""Whether the page shows UTC, what is typed, and the moment that is asked for."""


def test_a_time_is_of_the_zone_that_the_page_shows(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ZONE})
    on_small.open(f"/dashboard/?at={small.head}")
    assert {(text, utc): asked(on_small, text, utc=utc) for utc, text, _ in TYPED} == {
        (text, utc): at for utc, text, at in TYPED
    }


def test_a_clock_time_is_of_the_day_in_that_zone(on_small: browsers.Browser, small: shown.Shown) -> None:
    """In one of the two zones at the ends of the day it is another day than in UTC; its midnight is past."""
    now = datetime.datetime.now(datetime.UTC)
    zone, hours = ("Pacific/Kiritimati", 14) if now.hour >= 10 else ("Pacific/Pago_Pago", -11)
    on_small.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
    on_small.open(f"/dashboard/?at={small.head}")
    today = on_small.run("return new Date().toISOString().slice(0, 10)")
    assert asked(on_small, "00:00:00", utc=True) == f"{today}T00:00:00.000Z"
    there = datetime.timezone(datetime.timedelta(hours=hours))
    day = datetime.datetime.fromisoformat(on_small.run("return new Date().toISOString()")).astimezone(there)
    assert f"{day:%Y-%m-%d}" != today
    clock = day.replace(hour=0, minute=0, second=0).astimezone(datetime.UTC)
    assert asked(on_small, "00:00:00", utc=False) == f"{clock:%Y-%m-%dT%H:%M:%S}.000Z"


def test_the_zone_is_kept_for_the_next_page(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    on_small.press("UTC", "header")
    on_small.open("/dashboard/pending")
    assert on_small.run("return document.querySelector('.zone').ariaPressed") == "true"


def asked(page: browsers.Browser, text: str, *, utc: bool) -> str:
    """The moment that the page asks for once the text is typed; ``utc``: it shows times in UTC."""
    if (page.run("return document.querySelector('.zone').ariaPressed") == "true") != utc:
        page.click(".zone")
    page.settled()
    page.requests()
    page.run("const one = document.getElementById('moment'); one.value = ''; one.focus()")
    page.keys(text, keys.Keys.ENTER)
    page.until(lambda: page.run("return document.getElementById('moment').value") == "", "the moment")
    queries = [
        urllib.parse.parse_qs(query)
        for path, _, query in (path.partition("?") for path in page.requests())
        if path == "/apis/v1/cluster"
    ]
    return queries[0]["at"][0]
