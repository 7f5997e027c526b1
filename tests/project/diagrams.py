"""Diagrams of boxes and straight arrows, drawn as SVG: the same declaration results in the same bytes.

Coordinates are those of the SVG, in pixels of a picture that is shown in its own size. A picture paints its
own background, and follows the colour scheme of the reader's system.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["outside", "process", "store", "frame"]

_MARGIN = 8
"""Between an arrow and its label, or a box and the tip of an arrow that leads to it."""
_TALL = 250
"""Boxes from this height on have their name at the top: arrows end all along their sides."""
_LINE = 17
_STYLE = """\
    .background { fill: #ffffff }
    .outside { fill: #f1f3f6; stroke: #6b7785 }
    .process { fill: #e3eefc; stroke: #2f6fbf }
    .store { fill: #e6f4ea; stroke: #2e7d4f }
    .frame { fill: none; stroke: #6b7785; stroke-dasharray: 5 4 }
    text { font: 13px system-ui, Helvetica, Arial, sans-serif; fill: #3d4a57; text-anchor: middle }
    .name { font-size: 15px; font-weight: 600; fill: #1d2630 }
    .start { text-anchor: start }
    .end { text-anchor: end }
    .arrow { stroke: #3d4a57; stroke-width: 1.5; fill: none; marker-end: url(#head) }
    .head { fill: #3d4a57 }
    @media (prefers-color-scheme: dark) {
      .background { fill: #14181d }
      .outside { fill: #232a32; stroke: #8794a3 }
      .process { fill: #17304f; stroke: #6aa5ee }
      .store { fill: #173a27; stroke: #62b685 }
      .frame { stroke: #8794a3 }
      text { fill: #c3ccd6 }
      .name { fill: #f0f3f6 }
      .arrow { stroke: #c3ccd6 }
      .head { fill: #c3ccd6 }
    }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a name, and a line below it. A frame is drawn around other boxes."""

    kind: Kind
    name: str
    x: int
    y: int
    width: int
    height: int
    note: str = ""

    @property
    def right(self) -> int:
        """The coordinate of the right side."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The coordinate of the lower side."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Arrow:
    """A straight arrow between the facing sides of two boxes, which are given by name."""

    start: str
    end: str
    at: int
    """The y of an arrow between boxes beside each other, the x of one between boxes above each other."""
    label: str = ""
    """Lines: above and below a horizontal arrow, or beside a vertical one."""
    before: bool = False
    """Puts the label of a vertical arrow on its left."""


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text."""

    words: str
    x: float
    y: float
    """Of the baseline."""
    name: bool = False
    anchor: Literal["start", "middle", "end"] = "middle"


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and the arrows between them."""

    title: str
    description: str
    width: int
    height: int
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]

    def box(self, name: str) -> Box:
        """Return the box of this name. Raises ValueError."""
        for each in self.boxes:
            if each.name == name:
                return each
        raise ValueError(f"{self.title}: an arrow leads to {name!r}, which is no box")


def ends(picture: Picture, arrow: Arrow) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where an arrow begins and ends. Raises ValueError if its boxes do not face each other there."""
    start, end = picture.box(arrow.start), picture.box(arrow.end)
    if start.y < arrow.at < start.bottom and end.y < arrow.at < end.bottom:
        if start.right < end.x:
            return (start.right, arrow.at), (end.x, arrow.at)
        if end.right < start.x:
            return (start.x, arrow.at), (end.right, arrow.at)
    if start.x < arrow.at < start.right and end.x < arrow.at < end.right:
        if start.bottom < end.y:
            return (arrow.at, start.bottom), (arrow.at, end.y)
        if end.bottom < start.y:
            return (arrow.at, start.y), (arrow.at, end.bottom)
    raise ValueError(
        f"{picture.title}: {arrow.start!r} and {arrow.end!r} do not face each other at {arrow.at}"
    )


def texts(picture: Picture) -> Iterator[Text]:
    """Yield all lines of text with their positions."""
    for box in picture.boxes:
        middle = box.x + box.width / 2
        if box.kind == "frame":
            yield Text(box.name, box.x + 2 * _MARGIN, box.y + 24, anchor="start")
        else:
            first = box.y + 28 if box.height > _TALL else box.y + box.height / 2 + (-4 if box.note else 5)
            yield Text(box.name, middle, first, name=True)
            if box.note:
                yield Text(box.note, middle, first + 20)
    for arrow in picture.arrows:
        yield from _label(picture, arrow)


def _label(picture: Picture, arrow: Arrow) -> Iterator[Text]:
    lines = arrow.label.splitlines()
    (x, y), (to_x, to_y) = ends(picture, arrow)
    if y == to_y:
        for number, line in enumerate(lines):
            yield Text(line, (x + to_x) / 2, y - _MARGIN + 1 if number == 0 else y + _LINE * number)
        return
    first = (y + to_y) / 2 + 5 - _LINE * (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        if arrow.before:
            yield Text(line, x - _MARGIN, first + _LINE * number, anchor="end")
        else:
            yield Text(line, x + _MARGIN, first + _LINE * number, anchor="start")


def svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file."""
    size = f'width="{picture.width}" height="{picture.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {picture.width} {picture.height}"'
        ' role="img" aria-labelledby="title description">',
        "  <!-- Made from tests/project/pictures.py by `make docs`: change that file, not this one. -->",
        f'  <title id="title">{html.escape(picture.title)}</title>',
        f'  <desc id="description">{html.escape(picture.description)}</desc>',
        f"  <style>\n{_STYLE}  </style>",
        '  <marker id="head" markerWidth="9" markerHeight="9" refX="9" refY="4.5" orient="auto">'
        '<path class="head" d="M0,0 L9,4.5 L0,9 z"/></marker>',
        f'  <rect class="background" {size} rx="8"/>',
    ]
    for box in picture.boxes:
        place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"'
        lines.append(f'  <rect class="{box.kind}" {place} rx="6"/>')
    for arrow in picture.arrows:
        (x, y), (to_x, to_y) = ends(picture, arrow)
        lines.append(f'  <path class="arrow" d="M{x},{y} L{to_x},{to_y}"/>')
    for text in texts(picture):
        words = "name" if text.name else text.anchor if text.anchor != "middle" else ""
        kind = f' class="{words}"' if words else ""
        lines.append(f'  <text{kind} x="{text.x:g}" y="{text.y:g}">{html.escape(text.words)}</text>')
    return "\n".join([*lines, "</svg>", ""])
