"""Scripts that tests run in a page."""

import pathlib


def read(name: str) -> str:
    """The script of that name."""
    return (pathlib.Path(__file__).parent / f"{name}.js").read_text()
