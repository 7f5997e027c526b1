"""Old events pass through each step once, and a missing step is a defect that is named."""

import json
from pathlib import Path

import pytest

from app.store import codecs
from migrations import upcasters

GOLDEN = Path(__file__).parent / "golden"


def renamed(fields: upcasters.Fields) -> upcasters.Fields:
    return {**{key: value for key, value in fields.items() if key != "old"}, "new": fields["old"]}


def doubled(fields: upcasters.Fields) -> upcasters.Fields:
    return {**fields, "new": f"{fields['new']}{fields['new']}"}


STEPS = {("Thing", 1): renamed, ("Thing", 2): doubled}


def test_an_event_passes_through_every_step_after_its_version() -> None:
    assert upcasters.upcast("Thing", 1, 3, {"old": "x"}, STEPS) == {"new": "xx"}
    assert upcasters.upcast("Thing", 2, 3, {"new": "x"}, STEPS) == {"new": "xx"}
    assert upcasters.upcast("Thing", 3, 3, {"new": "x"}, STEPS) == {"new": "x"}


def test_a_missing_step_is_named() -> None:
    with pytest.raises(LookupError, match="Thing version 3 to 4"):
        upcasters.upcast("Thing", 1, 4, {"old": "x"}, STEPS)


def test_every_version_that_was_ever_written_is_still_read() -> None:
    files = sorted(GOLDEN.glob("*.v*.json"))
    assert {file.name.split(".")[0] for file in files} == set(codecs.VERSIONS)
    for file in files:
        tag, version, _ = file.name.split(".")
        for line in file.read_bytes().splitlines():
            event = codecs.decode(line)
            assert type(event).__name__ == tag
            fields = json.loads(line)
            assert fields["v"] == int(version[1:])
            if fields["v"] == codecs.VERSIONS[tag]:
                # The current version is also written as the file says.
                assert codecs.encode(event) == line
