"""The diagrams of the documentation: current, complete, and without text that overlaps anything."""

import dataclasses
import itertools
import re
import xml.etree.ElementTree

import pytest

from app.telemetry import metrics
from tests.project import diagrams, pictures, reference_pages

NAMES = list(pictures.PICTURES)
SVG = "{http://www.w3.org/2000/svg}"

Area = tuple[str, float, float, float, float]
"""What it is, then left, top, right and bottom."""


def written(picture: diagrams.Picture) -> list[Area]:
    """The areas of all lines of text, in a wide font."""
    found = []
    for text in diagrams.texts(picture):
        width = len(text.words) * (9.6 if text.name else 7.6)
        left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
        found.append((text.words, left, text.y - 12, left + width, text.y + 4))
    return found


def flaws(picture: diagrams.Picture) -> list[str]:
    """Texts that meet another text or an arrow, or leave their box, the gap between boxes, or the picture."""
    areas = written(picture)
    boxes = [(one.name, one.x, one.y, one.right, one.bottom) for one in picture.boxes if one.kind != "frame"]
    found = [f"{a[0]} / {b[0]}" for a, b in itertools.combinations(areas, 2) if meet(a, b)]
    found += [f"{a[0]} / {b[0]}" for a, b in itertools.combinations(boxes, 2) if meet(a, b)]
    for area in areas:
        found += [f"{area[0]} / box {box[0]}" for box in boxes if meet(area, box) and not within(area, box)]
        if not within(area, ("", 0, 0, picture.width, picture.height)):
            found.append(f"{area[0]} / border")
        for arrow in picture.arrows:
            (x, y), (to_x, to_y) = diagrams.ends(picture, arrow)
            if meet(area, ("", min(x, to_x), min(y, to_y), max(x, to_x) + 1, max(y, to_y) + 1)):
                found.append(f"{area[0]} / arrow from {arrow.start} to {arrow.end}")
    return found


def meet(one: Area, other: Area) -> bool:
    """Whether two areas have a point in common."""
    return one[1] < other[3] and other[1] < one[3] and one[2] < other[4] and other[2] < one[4]


def within(one: Area, other: Area) -> bool:
    """Whether the first area lies in the second."""
    return one[1] >= other[1] and one[2] >= other[2] and one[3] <= other[3] and one[4] <= other[4]


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_picture_is_current(name: str) -> None:
    assert (reference_pages.IMAGES / name).read_text() == diagrams.svg(pictures.PICTURES[name]), (
        "run `make docs`"
    )


def test_no_picture_is_drawn_by_hand() -> None:
    assert {path.name for path in reference_pages.IMAGES.glob("*.svg")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_overlaps(name: str) -> None:
    assert flaws(pictures.PICTURES[name]) == []


def test_text_that_is_too_long_is_found() -> None:
    first, *others = pictures.POD.boxes
    wide = dataclasses.replace(pictures.POD, boxes=(dataclasses.replace(first, note="a" * 30), *others))
    assert any("a" * 30 in flaw for flaw in flaws(wide))
    *arrows, last = pictures.POD.arrows
    near = dataclasses.replace(pictures.POD, arrows=(*arrows, dataclasses.replace(last, at=281)))
    assert flaws(near)


def test_an_arrow_between_boxes_that_do_not_face_each_other_is_refused() -> None:
    for arrow, sentence in (
        (diagrams.Arrow("kube-scheduler", "store", 310), "do not face each other at 310"),
        (diagrams.Arrow("kube-scheduler", "none", 90), "'none', which is no box"),
    ):
        with pytest.raises(ValueError, match=sentence):
            diagrams.svg(dataclasses.replace(pictures.POD, arrows=(arrow,)))


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_can_be_read_without_seeing_it_and_in_the_dark(name: str) -> None:
    text = (reference_pages.IMAGES / name).read_text()
    picture = xml.etree.ElementTree.fromstring(text)
    named = (picture.get("aria-labelledby") or "").split()
    described = [each.text or "" for each in picture.iter() if each.get("id") in named]
    assert picture.get("role") == "img"
    assert len(described) == 2
    assert all(described)
    assert "prefers-color-scheme: dark" in text
    shown = [
        alternative
        for page in (reference_pages.ROOT / "docs").rglob("*.md")
        for alternative in re.findall(rf"!\[([^]]*)\]\([./]*images/{name}\)", page.read_text())
    ]
    assert [len(each) > 40 for each in shown] == [True], "shown once, with an alternative text"


def test_the_picture_of_the_architecture_has_every_process() -> None:
    picture = xml.etree.ElementTree.parse(reference_pages.IMAGES / "architecture.svg")
    names = {each.text for each in picture.iter(f"{SVG}text") if each.get("class") == "name"}
    assert {*metrics.PROCESSES, "view", "kube-scheduler", "API server"} <= names
