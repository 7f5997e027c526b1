"""The documentation site, built as `make docs` does: no warnings, no dead link, nothing from elsewhere."""

import functools
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree

import pytest

from tests.project import reference_pages
from tests.support import docs_sites

# The build of the site takes a minute, and several on a busy machine.
pytestmark = pytest.mark.timeout(600)
SOURCE = docs_sites.SOURCE
FIRST = "README.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The built site."""
    return docs_sites.build(tmp_path_factory.mktemp("site"))


class Page(html.parser.HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and "href" in found:
            self.loads.add(found["href"])
        elif "src" in found:
            self.loads.add(found["src"])

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@functools.cache
def page(path: pathlib.Path) -> Page:
    """The page of the file, read once."""
    return Page(path)


def target(path: pathlib.Path, link: str) -> tuple[pathlib.Path, str]:
    """File and anchor that a link of the page at the path leads to."""
    found = urllib.parse.urlsplit(link)
    file = (path.parent / urllib.parse.unquote(found.path)).resolve() if found.path else path
    return file, urllib.parse.unquote(found.fragment)


def local(links: set[str]) -> set[str]:
    """Those that stay within the site."""
    return {link for link in links if not urllib.parse.urlsplit(link).scheme}


def test_every_link_leads_to_a_page_and_an_anchor_of_it(site: pathlib.Path) -> None:
    dead = []
    for path in site.rglob("*.html"):
        for link in local(page(path).links):
            file, anchor = target(path, link)
            if not file.is_file() or (anchor and file.suffix == ".html" and anchor not in page(file).anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_a_link_to_code_leads_to_a_file_of_this_version(site: pathlib.Path) -> None:
    links = set().union(*(page(path).links for path in site.rglob("*.html")))
    paths = {link.removeprefix(f"{SOURCE}/") for link in links if link.startswith(SOURCE)}
    assert len(paths) > 50
    assert [path for path in paths if not (reference_pages.ROOT / path.partition("#")[0]).exists()] == []


EXTERNAL = {
    "https://github.com/kubernetes/autoscaler/issues/5106",
    "https://github.com/kubernetes/kubernetes/issues/67250",
    "https://github.com/pradyunsg/furo",
    "https://github.com/redis/redis/issues/14541",
    "https://github.com/valkey-io/valkey/issues/2995",
    "https://github.com/valkey-io/valkey/issues/3983",
    "https://keepachangelog.com/en/1.1.0/",
    "https://pradyunsg.me",
    "https://semver.org/spec/v2.0.0.html",
    "https://www.sphinx-doc.org/",
}
"""Where links out of the site lead. No test follows them: there is no internet."""


def test_links_out_of_the_site_are_these_and_well_formed(site: pathlib.Path) -> None:
    links = set().union(*(page(path).links for path in site.rglob("*.html")))
    found = {link for link in links - local(links) if not link.startswith(SOURCE)}
    assert found == EXTERNAL
    for link in found:
        parts = urllib.parse.urlsplit(link)
        assert parts.scheme == "https", link
        assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc), link
        assert re.fullmatch(r"(/[\w.,~+@-]+)*/?", parts.path), link


def test_a_page_loads_nothing_from_elsewhere(site: pathlib.Path) -> None:
    for path in site.rglob("*.html"):
        loads = {load for load in page(path).loads if not load.startswith("data:")}
        assert loads == local(loads), path
        assert [load for load in loads if not target(path, load)[0].is_file()] == [], path


def test_the_root_leads_to_the_first_page(site: pathlib.Path) -> None:
    assert page(site / "index.html").links == {FIRST}


def test_every_page_is_one_click_away_and_what_is_looked_up_two(site: pathlib.Path) -> None:
    first = site / FIRST
    near = {target(first, link)[0] for link in local(page(first).links)}
    pages = {path.resolve() for path in site.rglob("*.html")}
    kept = {site / name for name in ("index.html", "genindex.html", "search.html", FIRST)}
    assert pages - near - kept == set()
    words = ["".join(page(path).words) for path in near if path.suffix == ".html"]
    text = re.sub(r"\s+", " ", " ".join(words))
    assert [name for name in looked_up() if not word(name).search(text)] == []


def test_the_list_for_language_models_names_every_page_of_the_sidebar(site: pathlib.Path) -> None:
    text = (site / "llms.txt").read_text()
    assert re.match(r"# Topolog\n\n> Topolog is .+\n\n## Learn\n", text)
    found = re.findall(r"^- \[(.+)\]\((\S+)\): (\S.*)$", text, re.MULTILINE)
    assert len(found) + text.count("\n## ") == len([line for line in text.splitlines()[3:] if line])
    listed = [site / address for _, address, _ in found]
    assert len(set(listed)) == len(listed)
    first = {target(site / FIRST, link)[0] for link in local(page(site / FIRST).links)}
    kept = {site / name for name in ("index.html", "genindex.html", "search.html", FIRST)}
    assert {path.resolve() for path in listed} == {path for path in first if path.suffix == ".html"} - kept
    assert [path for path in listed if not path.is_file()] == []


def test_a_site_without_an_address_has_no_map(site: pathlib.Path) -> None:
    assert not (site / "sitemap.xml").exists()


def test_a_site_with_an_address_has_a_map_of_its_pages(tmp_path: pathlib.Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "index.md").write_text("# First\n\n```{toctree}\nmore/a&b\n```\n")
    (tmp_path / "more" / "a&b.md").write_text("# Second\n")
    options = ["--isolated", "--define", "extensions=myst_parser,sitemap", "--quiet"]
    address = ["--define", "html_baseurl=https://docs.example/topolog/"]
    subprocess.run(
        [sys.executable, "-m", "sphinx", *options, *address, tmp_path, tmp_path / "html"],
        env={**os.environ, "PYTHONPATH": str(reference_pages.ROOT / "docs" / "site")},
        check=True,
    )
    found = xml.etree.ElementTree.parse(tmp_path / "html" / "sitemap.xml").iter()
    assert [each.text for each in found if each.tag.endswith("}loc")] == [
        "https://docs.example/topolog/index.html",
        "https://docs.example/topolog/more/a%26b.html",
    ]


def word(name: str) -> re.Pattern[str]:
    """The name as a word of its own. The pattern begins with it, because that is what makes a search fast."""
    found = re.escape(name)
    return re.compile(rf"{found}(?<![\w.]{found})(?!\w)")


def looked_up() -> set[str]:
    """Settings, metrics, commands: headings and first cells of the reference; checks, alerts, codes."""
    found: set[str] = set()
    for source in reference_pages.REFERENCE.glob("*.md"):
        found |= set(re.findall(r"^(?:#+|\|) `([^`|]+)`", source.read_text(), re.MULTILINE))
    found |= {check.id for checks in reference_pages.AREAS.values() for check in checks}
    errors = (reference_pages.REFERENCE / "errors.md").read_text()
    found |= set(re.findall(r"^\| \d{3} \| `(\w+)`", errors, re.MULTILINE))
    monitoring = reference_pages.ROOT / "deploy" / "monitoring"
    for rules in monitoring.glob("*.yaml"):
        found |= set(re.findall(r"alert: (\w+)", rules.read_text()))
    assert len(found) > 500
    return found
