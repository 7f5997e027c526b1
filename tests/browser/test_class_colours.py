"""The colours of the classes on the map, by the contrast of WCAG 2.2 (1.4.11), from the style sheet."""

import itertools
import pathlib
import re

import pytest

from app import plugins
from app.api import dashboard
from app.verbs.pictures import colours, contrasts

FOLDER = pathlib.Path(dashboard.__file__).parent / "static"
SCALES = (colours._STATES, colours._SHARES, colours._QUOTAS, contrasts.CLASSES)
LEAST = 3.0


def tokens(scheme: str) -> dict[str, str]:
    """Name -> colour in a scheme."""
    light, _, rest = (FOLDER / "style.css").read_text().partition("@media (prefers-color-scheme: dark)")
    text = light if scheme == "light" else rest.partition("@media (forced-colors")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text))


def table(name: str) -> dict[str, str]:
    """A table of texts in palette.js."""
    found = re.search(rf"const {name} = {{(.*?)}};", (FOLDER / "palette.js").read_text(), re.DOTALL)
    assert found
    return {
        key.strip('" \n'): value for key, value in re.findall(r'("[^"]+"|\w+): "([^"]*)"', found.group(1))
    }


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neighbouring_classes_differ_by_colour_or_by_a_mark_that_is_seen(scheme: str) -> None:
    """Six or more shades with 3:1 between them do not exist: 3 to the fifth power is more than 21."""
    colour, marks, classes = tokens(scheme), table("MARKS"), table("TOKENS")

    def marked(token: str) -> str:
        seen = contrast(colour[f"class-{token}"], colour["mark"]) >= LEAST
        return marks.get(token, "") if seen or marks.get(token) == "hollow" else ""

    known = [tuple(classes[label] for label in scale) for scale in SCALES]
    shown = (kind().shown() for kind in plugins.IN_TREE)
    declared = [tuple(look for _, look in one.classes) for each in shown for one in each.painted]
    assert declared
    poor = [
        (one, other)
        for scale in (*known, *declared)
        for one, other in itertools.pairwise(scale)
        if contrast(colour[f"class-{one}"], colour[f"class-{other}"]) < LEAST and marked(one) == marked(other)
    ]
    assert poor == []


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_class_is_seen_on_its_background(scheme: str) -> None:
    """By its colour, or by the edge of its cell."""
    colour, marks = tokens(scheme), table("MARKS")
    classes = {name.removeprefix("class-"): one for name, one in colour.items() if name.startswith("class-")}
    drawn = {name: colour["quiet"] if marks.get(name) == "edge" else one for name, one in classes.items()}
    assert {name: one for name, one in drawn.items() if contrast(one, colour["panel"]) < LEAST} == {}
