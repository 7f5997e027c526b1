"""The domains of the map: a box opens in a drawer, by mouse, by keyboard and from the table."""

import functools
import json
import urllib.request
from typing import Any, TypeAlias

import pytest
from selenium import webdriver
from selenium.webdriver.common import keys

from tests.support.browser import browsers, scripts, shown

pytestmark = pytest.mark.browser
Json: TypeAlias = Any
"""A value of a type that the test asserts."""


def domain(seen: shown.Shown, value: str) -> Json:
    """The domain of the API."""
    path = f"{seen.viewer.url}/apis/v1/topology?levels=role&within={value}"
    with urllib.request.urlopen(path, timeout=30) as reply:
        (one,) = json.load(reply)["items"]
        return one


def values(page: browsers.Browser) -> str:
    """The text of the drawer, each value on one line with its name."""
    return page.text("#domain").replace("\n", " ").replace("\t", " ")


def shows(page: browsers.Browser, one: Json) -> bool:
    """Whether the drawer has the numbers of the domain."""
    text = values(page)
    counts = [f"{count['policy']} {count['placed']} of {count['desired']}" for count in one["counts"]]
    facts = [f"nodes {one['nodes']}", f"ready and not cordoned {one['ready']}", f"pods {one['pods']}"]
    return all(part in text for part in (f"Domain {one['value']}", *facts, *counts))


def test_a_box_opens_by_mouse(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    on_small.run(scripts.read("click_box"), "host")
    host = domain(small, "host")
    on_small.until(lambda: shows(on_small, host), "the domain of the box")
    assert on_small.run("return new URLSearchParams(location.search).get('domain')") == "host"
    on_small.click("#domain .values a")
    on_small.until(lambda: on_small.text("#node"), "a node of the domain")
    assert on_small.text("#domain") == ""


def test_the_domain_of_a_node_opens_by_keyboard(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/")
    on_small.settled(f"/{small.head}")
    on_small.run("document.querySelector('cluster-map').focus()")
    on_small.keys(keys.Keys.END)
    held = webdriver.ActionChains(on_small.driver).key_down(keys.Keys.SHIFT)
    held.send_keys(keys.Keys.ENTER).key_up(keys.Keys.SHIFT).perform()
    member = domain(small, "member")
    on_small.until(lambda: shows(on_small, member), "the domain of the node")
    announced = f"Domain member: {member['nodes']} nodes, {member['ready']} ready, {member['pods']} pod"
    on_small.until(lambda: announced in on_small.text("#announced"), announced)
    on_small.keys(keys.Keys.ESCAPE)
    on_small.until(lambda: not on_small.text("#domain"), "the drawer is closed")
    assert on_small.run("return document.activeElement.localName") == "cluster-map"


def test_the_rows_of_the_table_lead_to_their_domains(on_small: browsers.Browser, small: shown.Shown) -> None:
    on_small.open("/dashboard/?as=table&levels=role,priority.none")
    on_small.until(lambda: "(no label)" in on_small.text("#map table"), "the nodes without the label")
    script = "return [...document.querySelectorAll('#map th a')].map((one) => one.textContent)"
    assert on_small.run(script) == ["host", "(no label)", "member", "(no label)"]
    on_small.click("#map th a")
    on_small.until(lambda: shows(on_small, domain(small, "host")), "the domain of the row")
    assert on_small.run("return new URLSearchParams(location.search).get('levels')") == "role,priority.none"


def test_a_box_of_nodes_without_the_label_opens(on_small: browsers.Browser, small: shown.Shown) -> None:
    number = len(small.world.store.follower.catch_up().nodes)
    on_small.open("/dashboard/?levels=priority.none")
    on_small.settled(f"/{small.head}")
    on_small.run(scripts.read("click_box"), "(no label)")
    on_small.until(lambda: "Domain no label" in on_small.text("#domain"), "the domain of the box")
    on_small.until(lambda: f"nodes {number}" in values(on_small), "the nodes of the box")
    named = on_small.run("return document.querySelectorAll('#domain .values a').length")
    assert named == min(number, 20)
    on_small.open("/dashboard/?levels=role,priority.none&domain=host,-")
    host = domain(small, "host")
    on_small.until(lambda: "Domain host / no label" in on_small.text("#domain"), "the domain of the address")
    on_small.until(lambda: f"nodes {host['nodes']}" in values(on_small), "the nodes of the domain")


def test_the_map_of_an_attempt_opens_nodes_and_domains(
    on_small: browsers.Browser, small: shown.Shown
) -> None:
    for held, opened in (("", "#node"), (keys.Keys.SHIFT, "#domain")):
        on_small.open("/dashboard/pods/shop/web-3")
        script = "return document.querySelector('#pod-map cluster-map')?.dataset.drawn"
        on_small.until(functools.partial(on_small.run, script), "the map of the attempt")
        on_small.run("document.querySelector('cluster-map').focus()")
        pressed = webdriver.ActionChains(on_small.driver)
        for key in held:
            pressed.key_down(key)
        pressed.send_keys(keys.Keys.ENTER)
        for key in held:
            pressed.key_up(key)
        pressed.perform()
        on_small.until(functools.partial(on_small.text, opened), opened)
        assert on_small.run("return location.pathname") == "/dashboard/"
