"""Old events pass through each step once, and a missing step is a defect that is named."""

import hashlib
import json
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from app.domain import event_subjects, events, model
from app.store import errors
from app.store.log import codecs
from migrations import upcasters
from tests.project import reference_pages

GOLDEN = Path(__file__).parent / "golden"
SUCCESSORS = {
    "PodPlaced": "PlacementsCommitted",
    "PolicyGone": "ObjectGone",
    "PolicySeen": "ObjectObserved",
}
"""Retired type -> the type as which its events are read."""
FOUNDING = {
    *("EpochAdopted", "FlagSet", "NodeGone", "NodeSeen", "PodGone", "PolicyGone", "PolicySeen"),
    *("Quarantined", "RecorderElected", "RelistRequested", "Relisted", "StoreRewound", "ViewsRepaired"),
}
"""Types of the first versions of Topolog, which have not changed since."""


def renamed(fields: upcasters.Fields) -> upcasters.Fields:
    return {**{key: value for key, value in fields.items() if key != "old"}, "new": fields["old"]}


def doubled(fields: upcasters.Fields) -> upcasters.Fields:
    return {**fields, "new": f"{fields['new']}{fields['new']}"}


STEPS = {("Thing", 1): renamed, ("Thing", 2): doubled}


def test_an_event_passes_through_every_step_after_its_version() -> None:
    assert upcasters.upcast("Thing", 1, {"Thing": 3}, {"old": "x"}, STEPS) == {"new": "xx"}
    assert upcasters.upcast("Thing", 2, {"Thing": 3}, {"new": "x"}, STEPS) == {"new": "xx"}
    assert upcasters.upcast("Thing", 3, {"Thing": 3}, {"new": "x"}, STEPS) == {"new": "x"}


def test_an_event_of_a_retired_type_continues_with_the_first_version_of_the_other() -> None:
    steps = {
        ("Former", 1): renamed,
        ("Former", 2): lambda fields: {**fields, "type": "Latter"},
        ("Latter", 1): doubled,
    }
    first: upcasters.Fields = {"type": "Former", "old": "x"}
    second: upcasters.Fields = {"type": "Former", "new": "x"}
    for version, fields in ((1, first), (2, second)):
        found = upcasters.upcast("Former", version, {"Latter": 2}, fields, steps)
        assert found == {"type": "Latter", "new": "xx"}


def test_a_missing_step_is_named() -> None:
    with pytest.raises(LookupError, match="Thing version 3 to 4"):
        upcasters.upcast("Thing", 1, {"Thing": 4}, {"old": "x"}, STEPS)


def test_every_version_that_was_ever_written_is_still_read() -> None:
    for file in GOLDEN.glob("*.json"):
        tag, version, _ = file.name.split(".")
        for line in file.read_bytes().splitlines():
            event = codecs.decode(line)
            assert type(event).__name__ == SUCCESSORS.get(tag, tag)
            fields = json.loads(line)
            assert fields["v"] == int(version[1:])
            # The current version is also encoded as in the file; an older one as the current.
            current = fields["v"] == codecs.VERSIONS.get(tag)
            assert (codecs.encode(event) == line) == current
            assert codecs.decode(codecs.encode(event)) == event


def test_every_version_of_every_event_has_its_file_and_its_step() -> None:
    assert set(upcasters.RETIRED) == set(SUCCESSORS)
    assert set(upcasters.RETIRED).isdisjoint(codecs.VERSIONS)
    known = {**upcasters.RETIRED, **codecs.VERSIONS}
    versions = {(tag, number) for tag, last in known.items() for number in range(1, last + 1)}
    assert {file.name for file in GOLDEN.glob("*.json")} == {
        f"{tag}.v{number}.json" for tag, number in versions
    }
    assert set(upcasters.STEPS) == {one for one in versions if one[1] != codecs.VERSIONS.get(one[0])}


def test_every_event_that_is_new_or_changed_is_in_the_table_of_upgrades() -> None:
    page = (reference_pages.ROOT / "docs" / "how-to" / "upgrade.md").read_text()
    table = page.partition("| event | version |")[2]
    rows = re.findall(r"^\| ([\w, ]+) \| (\d+) \|", table, re.MULTILINE)
    described = {(tag, int(version)) for tags, version in rows for tag in tags.split(", ")}
    newest = {**upcasters.RETIRED, **codecs.VERSIONS}
    assert {newest[tag] for tag in FOUNDING} == {1}
    assert {(tag, version) for tag, version in newest.items() if tag not in FOUNDING} <= described
    golden = {file.name for file in GOLDEN.glob("*.json")}
    assert {f"{tag}.v{version}.json" for tag, version in described} <= golden


def test_the_events_of_policies_are_those_of_objects() -> None:
    seen = codecs.decode(
        b'{"v":1,"type":"PolicySeen","policy":{"uid":"3","namespace":"blue","name":"p","type":"x"}}'
    )
    assert isinstance(seen, events.ObjectObserved)
    assert (seen.kind, seen.identity, seen.uid) == ("workloadpolicies", "blue/p", "3")
    assert json.loads(bytes(seen.data)) == {"uid": "3", "namespace": "blue", "name": "p", "type": "x"}
    assert event_subjects.touched(seen) == ("policy:blue/p", "policies:blue")
    gone = codecs.decode(
        b'{"v":1,"type":"PolicyGone","namespace":"blue","name":"p","uid":"3","assumed":true}'
    )
    assert isinstance(gone, events.ObjectGone)
    assert (gone.kind, gone.identity, gone.uid, gone.assumed) == ("workloadpolicies", "blue/p", "3", True)
    assert event_subjects.touched(gone) == ("policy:blue/p", "policies:blue")
    assert event_subjects.ends(gone, "policy:blue/p")
    assert not event_subjects.ends(gone, "policies:blue")


def test_a_file_of_a_version_is_never_edited() -> None:
    """Give a new version a new file, and add its line to SHA256SUMS (``sha256sum -c`` reads it too)."""
    sums = [line.split("  ") for line in (GOLDEN / "SHA256SUMS").read_text().splitlines()]
    listed = {name: digest for digest, name in sums}
    assert {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in GOLDEN.glob("*.json")
    } == listed


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        ("the API server has no such pod any more", "gone"),
        ("the API server shows the pod unbound long after the promise", "unbound"),
        ("placed anew; h1 was never bound", "superseded"),
        ("the Binding was refused: Operation cannot be fulfilled", "refused"),
        ("", "refused"),
    ],
)
def test_a_release_without_a_cause_gets_the_one_that_its_sentence_names(
    sentence: str, cause: events.Cause
) -> None:
    old = {"v": 1, "type": "PlacementReleased", "uid": "u", "namespace": "n", "name": "x", "node": "h1"}
    event = codecs.decode(msgspec.json.encode({**old, "reason": sentence}))
    assert isinstance(event, events.PlacementReleased)
    assert (event.reason, event.cause) == (sentence, cause)
    assert cause in get_args(events.Cause)


def test_a_placement_of_one_pod_is_read_as_a_commitment_of_one() -> None:
    found = b'"type":"PodPlaced","pod":{"uid":"u","namespace":"n","name":"x"},"node":"n1","at":"t","by":"me"'
    pod = model.Pod(uid="u", namespace="n", name="x", constraints=None)
    for version, more, fence in ((1, b"", ""), (2, b',"resource_version":"47"', "47"), (2, b"", "")):
        placement = model.Placement(pod, "n1", resource_version=fence)
        assert codecs.decode(b'{"v":%d,%s%s}' % (version, found, more)) == events.PlacementsCommitted(
            (placement,), "t", "me"
        )


def test_pods_of_events_without_constraints_have_unknown_ones() -> None:
    pod = b'{"uid":"u","namespace":"n","name":"x"}'
    seen = codecs.decode(b'{"v":1,"type":"PodSeen","pod":%s}' % pod)
    assert isinstance(seen, events.PodSeen)
    assert seen.pod.constraints is None
    placement = b'{"pod":%s,"node":"n1"}' % pod
    committed = codecs.decode(b'{"v":1,"type":"PlacementsCommitted","placements":[%s]}' % placement)
    assert isinstance(committed, events.PlacementsCommitted)
    assert committed.placements[0].pod.constraints is None
    seen = codecs.decode(b'{"v":2,"type":"PodSeen","pod":%s}' % pod)
    assert isinstance(seen, events.PodSeen)
    assert seen.pod.constraints is model.STANDARD


@pytest.mark.parametrize("fields", ['"v":0,', '"v":3,', '"v":"1",', ""])
def test_a_version_that_was_never_written_is_unreadable(fields: str) -> None:
    payload = f'{{{fields}"type":"PlacementReleased","uid":"u","namespace":"n","name":"x","node":"h1"}}'
    with pytest.raises(errors.Unreadable):
        codecs.decode(payload.encode())


def test_an_old_event_that_is_damaged_is_unreadable() -> None:
    with pytest.raises(errors.Unreadable):
        codecs.decode(b'{"v":1,"type":"PlacementReleased","uid":"u"}')
