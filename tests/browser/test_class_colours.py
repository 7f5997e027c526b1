"""The colours of the classes on the map, by the contrast of WCAG 2.2 (1.4.11), from the style sheet."""

import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence

import pytest

from app import plugins
from app.api import dashboard
from app.verbs.pictures import colours, contrasts, decision_classes

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


def refused() -> list[tuple[str, str]]:
    """Token and mark of the classes without a look."""
    found = re.search(r"const REFUSED = \[(.*)\];", (FOLDER / "palette.js").read_text())
    assert found
    return re.findall(r'\["(\w+)", "(\w+)"\]', found.group(1))


def pictures() -> Iterator[Sequence[tuple[str, str]]]:
    """Token and mark of each class, of all maps that there can be."""
    marks, classes = table("MARKS"), table("TOKENS")
    yield from ([(classes[label], marks.get(classes[label], "")) for label in scale] for scale in SCALES)
    shown = [painted for kind in plugins.IN_TREE for painted in kind().shown().painted]
    assert shown
    yield from ([(look, marks.get(look, "")) for _, look in painted.classes] for painted in shown)
    for kept in (("kept",), decision_classes._SHADES):
        yield [(look, marks.get(look, "")) for look in ("none", "chosen", *kept)] + refused()


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
def test_classes_differ_by_colour_or_by_a_mark_that_is_seen(scheme: str) -> None:
    """Six or more shades with 3:1 between them do not exist: 3 to the fifth power is more than 21."""
    colour = tokens(scheme)

    def marked(token: str, mark: str) -> str:
        seen = contrast(colour[f"class-{token}"], colour["mark"]) >= LEAST
        return mark if seen or mark == "hollow" else ""

    poor = [
        (one, other)
        for classes in pictures()
        for one, other in itertools.combinations(classes, 2)
        if contrast(colour[f"class-{one[0]}"], colour[f"class-{other[0]}"]) < LEAST
        and marked(*one) == marked(*other)
    ]
    assert poor == []


@pytest.mark.scenario("UI-6")
def test_the_classes_of_a_map_differ_in_grey_by_their_marks() -> None:
    assert len(refused()) == decision_classes.MOST_REFUSED
    for classes in pictures():
        assert len({mark for _, mark in classes}) == len(classes), classes


@pytest.mark.scenario("UI-6")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_class_is_seen_on_its_background(scheme: str) -> None:
    """By its colour, or by the edge of its cell."""
    colour, marks = tokens(scheme), table("MARKS")
    classes = {name.removeprefix("class-"): one for name, one in colour.items() if name.startswith("class-")}
    drawn = {name: colour["quiet"] if marks.get(name) == "edge" else one for name, one in classes.items()}
    assert {name: one for name, one in drawn.items() if contrast(one, colour["panel"]) < LEAST} == {}
