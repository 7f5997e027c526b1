"""The words of the folder of a plugin of another distribution."""

import pathlib
from collections.abc import Mapping

import pytest

from app.store.bundles import vocabulary
from tests.support import distributions

PACKAGE: Mapping[str, str] = {
    "acmecorp/__init__": 'OWNER = "platinumtenant"\n',
    "acmecorp/tenants": 'TENANTS = ("goldtenant",)\n',
    "acmecorp/chillers/__init__": 'REASON = "overheated"\n\n\nclass Chillers: ...\n',
    "acmecorp/chillers/halls": 'HALL = "chillhall"\n',
    "acmecorp/warmers/__init__": 'REASON = "undercooled"\n',
    "acmecorp/warmers/plugin": 'MODE = "warmhall"\n\n\nclass Warmers: ...\n',
    "fans": 'REASON = "draughty"\n\n\nclass Fans: ...\n',
}
STRINGS = {"platinumtenant", "goldtenant", "overheated", "chillhall", "undercooled", "warmhall", "draughty"}


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("acmecorp.chillers", {"overheated", "chillhall"}),
        ("acmecorp.warmers.plugin", {"undercooled", "warmhall"}),
        ("fans", {"draughty"}),
    ],
)
def test_the_folder_of_a_plugin_is_that_of_its_class_with_its_init_module(
    tmp_path: pathlib.Path, module: str, words: set[str]
) -> None:
    for name in PACKAGE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    distributions.install(tmp_path, "hall", {}, PACKAGE)
    names = [name.removesuffix("/__init__").replace("/", ".") for name in PACKAGE]
    with distributions.importable(tmp_path, *names):
        found = vocabulary.of_plugin(module)
    assert found & STRINGS == words
