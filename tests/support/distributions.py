"""Distributions with plugins, installed in a folder of their own as pip installs them."""

import pathlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app import plugins

VERSION = "1.4"


def install(site: pathlib.Path, name: str, entries: Mapping[str, str], modules: Mapping[str, str]) -> None:
    """Install a distribution: its entry points (name -> object) and its modules (name -> source)."""
    info = site / f"{name.replace('-', '_')}-{VERSION}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n")
    lines = [f"[{plugins.GROUP}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source)


@contextmanager
def importable(site: pathlib.Path, *modules: str) -> Iterator[None]:
    """Let this process find what is installed there, until the end; ``modules`` are forgotten then."""
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))
        for module in modules:
            sys.modules.pop(module, None)
