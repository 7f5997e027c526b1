"""Whether the numbers of panels are those of their links and of their commands."""

import datetime
import decimal
import json
import re
import shlex
import urllib.request
from collections.abc import Iterable, Iterator

from tests.support import commands
from tests.support.browser import browsers, scripts

_MOMENT = re.compile(r"\d\d (?:[A-Z][a-z]{2,3} \d{4}, )?\d\d:\d\d:\d\d(?: UTC)?|\d\d:\d\d:\d\d")
"""A time as a page shows it."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
"""A time as a document has it."""
_SPAN = re.compile(r"(?<![\w.,])\d+ (?:d|h|min|s)(?: \d+ (?:h|min|s))?(?!\w)")
_AGE = re.compile(r"\d+\.\d+ s(?!\w)|99th percentile")
"""The seconds by which a process is behind the log, which differ at the next request; words of the page."""
_AGO = (0, 60, 120)
"""Seconds by which a page may be older than the document; its ages change with the minute or the hour."""
_AROUND = "()[],.;:+\N{HORIZONTAL ELLIPSIS}\N{MULTIPLICATION SIGN}\N{MULTIPLICATION X}"
_WORD = re.compile(r"\S*\d\S*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[KMGTP]i)?")
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)(m|[kMGTP]|[KMGTP]i)?")
_UNITS = {
    **{"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15},
    **{name: 1024.0**power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)},
}

_TENTH, _HALF = decimal.Decimal("0.1"), decimal.ROUND_HALF_UP
_SMALL = decimal.Context(prec=3, rounding=_HALF)
"""How the browser rounds quantities below ten."""


def same_numbers(page: browsers.Browser, url: str) -> dict[str, set[str]]:
    """All numbers of each panel are in the JSON of its link, and in what its command prints.

    Returns the numbers and spans of time of each panel by its id.
    """
    found = page.run(scripts.read("panels"))
    assert found
    read: dict[str, set[str]] = {}
    for panel in found:
        with urllib.request.urlopen(url + panel["link"], timeout=20) as reply:
            linked = reply.read().decode()
        numbers, names = shown(panel["texts"])
        read[panel["id"]] = numbers
        lost = missing(numbers, names, linked)
        assert not lost, (panel["link"], lost)
        words = shlex.split(panel["command"])
        done = commands.called(*words[1:], "--server", url, "-o", "json")
        # Exit code 1 of topolog diff: something differs.
        assert done.returncode == 0 or words[1] == "diff", (panel["command"], done.stderr)
        lost = missing(numbers, names, done.stdout)
        assert not lost, (panel["command"], lost)
        # That of the store is about the present, and has ages.
        if "--raw" in words and not panel["link"].endswith("/store"):
            assert _timeless(done.stdout) == _timeless(linked)
    return read


def _timeless(text: str) -> object:
    """The document without the time of the request, which lists at the head of the log have."""
    found = json.loads(text)
    found.get("metadata", {}).pop("asOf", None)
    return found


def shown(texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """The numbers and spans of time of texts, and the names that have digits; times are left out."""
    numbers, names = set[str](), set[str]()
    for text in texts:
        text = _AGE.sub(" ", _TIME.sub(" ", _MOMENT.sub(" ", text)))
        numbers.update(_SPAN.findall(text))
        for word in _WORD.findall(_SPAN.sub(" ", text)):
            plain = re.sub(r"(?<=\d),(?=\d{3})", "", word.strip(_AROUND))
            (numbers if _NUMBER.fullmatch(plain) else names).add(plain)
    return numbers, names


def missing(numbers: set[str], names: set[str], text: str) -> set[str]:
    """What a document does not have: as a value, in a sentence or derived as a page does it."""
    body = json.loads(text)
    strings = [*_strings(body), json.dumps(body, separators=(",", ":"))]
    # A page writes NAMESPACE/NAME where the document may have two fields.
    parts = {part for name in names for part in (name.split("/") if name.count("/") == 1 else [name])}
    return numbers - known(body) | {part for part in parts if not any(part in one for one in strings)}


def known(body: object) -> set[str]:
    """The numbers of a document, and those that a page derives from it."""
    times = {when for text in _strings(body) for when in _TIME.findall(text)}
    as_of = body.get("metadata", {}).get("asOf", "") if isinstance(body, dict) else ""
    ages = (
        {span(_seconds(as_of) - _seconds(when) - ago) for when in times for ago in _AGO} if as_of else set()
    )
    return {"0", *ages, *_derived(body)}


def span(seconds: float) -> str:
    """A span of time as a page shows it, in its two largest units."""
    left, parts = max(0, round(seconds)), list[str]()
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    largest = next((at for at, (size, _) in enumerate(units) if left >= size), len(units) - 1)
    for size, name in units[largest : largest + 2]:
        if left // size or not parts:
            parts.append(f"{left // size} {name}")
        left %= size
    return " ".join(parts)


def quantity(text: str) -> str:
    """A quantity of Kubernetes as a page shows it; another text as it is."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return text
    value, unit = float(found[1]) * _UNITS.get(found[2] or "", 1.0), ""
    if found[2] and found[2].endswith("i"):
        unit = next(one for one in ("Pi", "Ti", "Gi", "Mi", "Ki", "") if abs(value) >= _UNITS.get(one, 0))
    # Rounded as the browser does: from the shortest decimal.
    amount = decimal.Decimal(str(value / _UNITS.get(unit, 1.0)))
    rounded = _SMALL.create_decimal(amount) if abs(amount) < 10 else amount.quantize(_TENTH, _HALF)
    return f"{rounded.normalize():f}{unit}"


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def _strings(body: object) -> Iterator[str]:
    """All texts of a document, names of fields included."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield name
            yield from _strings(value)
    elif isinstance(body, list):
        for value in body:
            yield from _strings(value)
    elif isinstance(body, str):
        yield body


def _derived(body: object) -> set[str]:
    """Values, numbers in sentences, lengths of lists, and sums over rows of quotas and over buckets."""
    found = set[str]()
    if isinstance(body, dict):
        for name, value in body.items():
            found |= _derived(value) | shown([name])[0]
        rows = body.get("quotas", [])
        for of in {row["of"] for row in rows}:
            mine = [row for row in rows if row["of"] == of]
            limited = [row for row in mine if row["desired"] is not None]
            free = sum(row["placed"] for row in mine if row["desired"] is None)
            sums = (sum(row[name] for row in limited) for name in ("placed", "desired"))
            found |= {str(each) for each in (len(mine), free, *sums)}
        if buckets := body.get("buckets"):
            found.add(str(max(1, *(sum(one.get("outcomes", {}).values()) for one in buckets))))
            found.add(f"{max(1, *(one.get('p99') or 0 for one in buckets)):.1f}")
    elif isinstance(body, list):
        found.add(str(len(body)))
        for value in body:
            found |= _derived(value)
    elif isinstance(body, bool) or body is None:
        return found
    elif isinstance(body, int | float):
        found |= {str(body), f"{body:.1f}".removesuffix(".0"), f"{body:.1f}", span(body)}
    elif isinstance(body, str):
        found |= {quantity(body)} | shown([body])[0]
    return found
