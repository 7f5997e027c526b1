"""From which versions the watches of a new leader resume, and which kinds it lists again."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import model, snapshots
from app.kube.objects import decoding
from app.kube.watch import kinds
from tests.support import declared
from workers.recorder import batch_builder, leader_terms

WATCHED = kinds.watched(declared.SCHEMA)
VERSIONS = {kind.name: str(at) for at, kind in enumerate(WATCHED)}
DECLARED = declared.SCHEMA.kinds[0]


@pytest.fixture
def marks() -> dict[str, str]:
    """Those of a recorder that keeps what this process keeps."""
    return {kind.mark: kind.marked(VERSIONS[kind.name]) for kind in WATCHED}


@pytest.fixture
def keep_another(marks: dict[str, str]) -> Iterator[None]:
    """One more annotation is kept than when the marks were written."""
    before = decoding.kept()
    decoding.keep(frozenset((*before, "read.example/new")))
    yield
    decoding.keep(frozenset(before))


def resumed(
    marks: dict[str, str], *, unlisted: frozenset[str] = frozenset(), watched: tuple[kinds.WatchedKind, ...]
) -> tuple[dict[str, str], set[str]]:
    """The versions, and the kinds that are listed because other fields were recorded of them."""
    snapshot = snapshots.Snapshot(declared.SCHEMA, unlisted=unlisted)
    versions = leader_terms.resumed(marks, snapshot, watched)
    reasons = leader_terms.reasons(marks, snapshot, watched, "first list")
    assert set(reasons.values()) <= {"first list", leader_terms.OTHER_FORM}
    listed = {kind.name for kind in watched} - versions.keys()
    return versions, {name for name in listed if reasons[name] == leader_terms.OTHER_FORM}


def test_watches_resume_where_the_log_ends(marks: dict[str, str]) -> None:
    assert resumed(marks, watched=WATCHED)[0] == VERSIONS


def test_a_new_log_has_no_version_to_resume_from() -> None:
    assert resumed({}, watched=WATCHED) == ({}, set())


def test_a_kind_that_must_be_listed_has_no_version_to_resume_from(marks: dict[str, str]) -> None:
    versions, again = resumed(marks, unlisted=frozenset(("nodes",)), watched=WATCHED)
    assert versions == {name: at for name, at in VERSIONS.items() if name != "nodes"}
    assert again == set()


def test_pods_and_nodes_are_listed_again_if_another_annotation_is_kept(
    marks: dict[str, str], keep_another: None
) -> None:
    versions, again = resumed(marks, watched=WATCHED)
    assert VERSIONS.keys() - versions.keys() == again == {"pods", "nodes"}


def test_a_kind_is_listed_again_if_it_is_decoded_in_another_form(marks: dict[str, str]) -> None:
    changed = kinds.declared(dataclasses.replace(DECLARED, form=2))
    versions, again = resumed(marks, watched=(*WATCHED[:1], changed))
    assert versions == {"nodes": VERSIONS["nodes"]}
    assert again == {DECLARED.name}


def test_a_kind_is_listed_again_if_another_field_is_kept(marks: dict[str, str]) -> None:
    fields = [("added", int, 0)]
    grown = msgspec.defstruct("Grown", fields, bases=(DECLARED.type,), frozen=True)
    changed = kinds.declared(dataclasses.replace(DECLARED, type=grown))
    assert resumed(marks, watched=(changed,)) == ({}, {DECLARED.name})


def test_a_docstring_is_no_part_of_what_is_kept(marks: dict[str, str]) -> None:
    name, texts = DECLARED.type.__name__, {"__doc__": "Another text."}
    described = msgspec.defstruct(name, [], bases=(DECLARED.type,), frozen=True, namespace=texts)
    changed = kinds.declared(dataclasses.replace(DECLARED, type=described))
    assert resumed(marks, watched=(changed,)) == ({DECLARED.name: VERSIONS[DECLARED.name]}, set())


def test_a_watch_does_not_resume_before_what_another_form_has_recorded(
    marks: dict[str, str], keep_another: None
) -> None:
    """As after a rollback: a recorder that keeps more has recorded between two that keep less."""
    known = frozenset(decoding.kept())
    newer = {kind.mark: kind.marked("9") for kind in WATCHED}
    decoding.keep(known - {"read.example/new"})
    versions, again = resumed({**marks, **newer}, watched=WATCHED)
    assert VERSIONS.keys() - versions.keys() == again == {"pods", "nodes"}


def test_a_watch_does_not_resume_before_a_part_of_a_list(marks: dict[str, str]) -> None:
    """The list was interrupted: what it has recorded is newer than where the watch had ended."""
    builder = batch_builder.BatchBuilder(snapshots.empty(schema=declared.SCHEMA))
    builder.fill([model.Pod(uid="u", namespace="ns", name="p", node="n")], 0)
    versions, again = resumed({**marks, **builder.marks}, watched=WATCHED)
    assert VERSIONS.keys() - versions.keys() == {"pods"}
    assert again == set()


def test_what_a_version_without_forms_recorded_is_listed_again() -> None:
    without = {f"rv:{name}": version for name, version in VERSIONS.items()}
    assert resumed(without, watched=WATCHED) == ({}, set(VERSIONS))
