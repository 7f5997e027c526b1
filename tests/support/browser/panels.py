"""Whether the numbers of panels are those of their links and of their commands."""

import json
import re
import shlex
import urllib.request

from tests.support import commands
from tests.support.browser import browsers, scripts


def same_numbers(page: browsers.Browser, url: str) -> None:
    """All numbers of each panel are in the JSON of its link, and in what its command prints."""
    found = page.run(scripts.read("panels"))
    assert found
    for panel in found:
        with urllib.request.urlopen(url + panel["link"], timeout=20) as reply:
            linked = reply.read().decode()
        counted = re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(panel["cells"]))
        numbers = {one for one in re.findall(r"(?<![\w.:/-])\d+(?![\w.:/-])", counted)}
        assert numbers <= known(linked), (panel["link"], numbers - known(linked))
        words = shlex.split(panel["command"])
        done = commands.called(*words[1:], "--server", url, "-o", "json")
        # Exit code 1 of topolog diff: something differs.
        assert done.returncode == 0 or words[1] == "diff", (panel["command"], done.stderr)
        assert numbers <= known(done.stdout), (panel["command"], numbers - known(done.stdout))
        # That of the store is about the present, and has ages.
        if "--raw" in words and not panel["link"].endswith("/store"):
            assert _timeless(done.stdout) == _timeless(linked)


def _timeless(text: str) -> object:
    """The document without the time of the request, which lists at the head of the log have."""
    found = json.loads(text)
    found.get("metadata", {}).pop("asOf", None)
    return found


def known(text: str) -> set[str]:
    """The numbers of a document, and those that a page derives from it."""
    return set(re.findall(r"\d+", text)) | derived(json.loads(text))


def derived(body: object) -> set[str]:
    """Numbers that a page counts itself: items of lists, sums over rows of quotas, spans of time in units."""
    found = {"0"}
    if isinstance(body, dict):
        for value in body.values():
            found |= derived(value)
        rows = body.get("quotas", [])
        for of in {row["of"] for row in rows}:
            mine = [row for row in rows if row["of"] == of]
            sums = (len(mine), sum(row["placed"] for row in mine), sum(row["desired"] or 0 for row in mine))
            found |= {str(each) for each in sums}
    elif isinstance(body, list):
        found.add(str(len(body)))
        for value in body:
            found |= derived(value)
    elif isinstance(body, float):
        found |= {str(int(body)), *_of_span(round(body))}
    return found


def _of_span(seconds: int) -> set[str]:
    """The numbers of a span of time, as in "145 d 5 h"."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return {str(each) for each in (seconds % 60, minutes % 60, hours % 24, days, hours, minutes, seconds)}
