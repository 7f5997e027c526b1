"""The recorded list of the chart's values, so that a removed or renamed one is noticed.

``python -m tests.support.charts.recorded`` writes it.
"""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.support.charts import schema, values

FILE: Final = pathlib.Path(__file__).parents[2] / "deploy" / "charts" / "golden" / "values.txt"


def paths(document: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """The values that a schema names, as paths with dots; settings are below ``config``."""
    for name, inner in document["properties"].items():
        path = f"{where}{name}"
        if inner.get("properties"):
            yield from paths(inner, f"{path}.")
        else:
            yield path


def text() -> str:
    """The list: a path a line, sorted."""
    return "".join(f"{path}\n" for path in sorted(paths(schema.schema())))


def vanished(former: Iterable[str], later: Iterable[str]) -> list[str]:
    """The paths that were removed, unless they, or what they belong to, are in ``REMOVED``."""
    gone = set(former) - set(later)
    return sorted(
        path for path in gone if not any(f"{path}.".startswith(f"{one}.") for one in values.REMOVED)
    )


if __name__ == "__main__":
    FILE.write_text(text())
