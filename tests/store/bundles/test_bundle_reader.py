"""A bundle is read as it was written, or refused with the name of the member that is not."""

import gzip
import hashlib
import io
import json
import secrets
import struct
import tarfile
from collections.abc import Iterator

import msgspec
import pytest

from app.domain.audit import findings
from app.store import snapshot_format
from app.store.bundles import bundle_reader, layout
from app.store.log import readers
from app.store.server import embedded
from tests.support.extender import api_worlds, bundled

BOMB = gzip.compress(bytes(16 * 1024**2))
HISTORY = (layout.CHECKPOINT, layout.EVENTS, layout.DECISIONS)


@pytest.fixture(scope="module")
def bundle(store_server: embedded.Server) -> Iterator[bytes]:
    with api_worlds.processes(store_server, f"rd{secrets.token_hex(4)}") as start:
        yield bundled.exported(bundled.lived(start()), "?from=150")


def refused(data: bytes, visitor: bundle_reader.Visitor | None = None) -> str:
    """Why the bytes are not a bundle."""
    with pytest.raises(bundle_reader.Damaged) as caught:
        bundle_reader.read(io.BytesIO(data), visitor)
    return str(caught.value)


def contents(data: bytes) -> dict[str, bytes]:
    """Name -> content of each member, as it is."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: data[member.offset_data :][: member.size] for member in tar}


def packed(members: dict[str, bytes]) -> bytes:
    """A bundle of these members, with a manifest that fits them."""
    packer = layout.Packer(0)
    written = [piece for name, content in members.items() for piece in packer.member(name, [content])]
    return b"".join((*written, *packer.manifest()))


def test_a_bundle_is_read_as_it_was_written(bundle: bytes) -> None:
    found = bundle_reader.read(io.BytesIO(bundle))
    assert (found.about.first, found.events) == (150, found.about.last - 149)
    assert found.decisions > 10
    assert [member.name for member in found.members] == list(layout.MEMBERS)
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    assert bundle_reader.read(io.BytesIO(packed(listed))).members == found.members


@pytest.mark.scenario("WI-10")
@pytest.mark.parametrize("name", [*layout.MEMBERS, layout.MANIFEST])
def test_one_bit_flipped_is_found_in_each_member(bundle: bytes, name: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle)) as tar:
        member = tar.getmember(name)
    for place in range(0, member.size, max(1, member.size // 25)):
        damaged = bytearray(bundle)
        damaged[member.offset_data + place] ^= 4
        text = refused(bytes(damaged))
        # Of a digest that differs, either the member or the manifest was changed: both are named.
        assert name in text if name == layout.MANIFEST else text.startswith(f"{name} is damaged: "), text


@pytest.mark.scenario("WI-10")
@pytest.mark.parametrize(("old", "new"), [(b'"version":1', b'"version":5'), (b'"first":150', b'"first":110')])
def test_a_changed_member_is_not_taken_at_its_word(bundle: bytes, old: bytes, new: bytes) -> None:
    text = refused(bundle.replace(old, new, 1))
    assert text == "bundle.json is damaged: its SHA-256 is not the one in manifest.json"


class Piped(io.BytesIO):
    """A file that can be read once."""

    def seekable(self) -> bool:
        return False


def test_a_bundle_that_can_be_read_once_is_refused_too(bundle: bytes) -> None:
    with pytest.raises(bundle_reader.Damaged, match="version 5"):
        bundle_reader.read(Piped(bundle.replace(b'"version":1', b'"version":5', 1)))


def test_one_bit_flipped_between_members_is_found(bundle: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle)) as tar:
        headers = [member.offset for member in tar]
    for header in headers:
        damaged = bytearray(bundle)
        damaged[header + 3] ^= 4
        refused(bytes(damaged))
    refused(bundle + b"x")
    damaged = bytearray(bundle)
    damaged[-1] ^= 4
    refused(bytes(damaged))


@pytest.mark.scenario("WI-10")
def test_a_bundle_that_was_cut_off_is_found(bundle: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle)) as tar:
        ends = {member.name: member.offset_data + -(-member.size // 512) * 512 for member in tar}
    named = set()
    for part in range(1, 20):
        size = ends[layout.MANIFEST] * part // 20
        name = next(name for name, end in ends.items() if size < end)
        named.add(name)
        assert refused(bundle[:size]) in (f"it was cut off in {name}", f"it was cut off: {name} is missing")
    for name, end in ends.items():
        named.add(name)
        assert refused(bundle[: end - 1]) == f"it was cut off in {name}"
    assert named == {*layout.MEMBERS, layout.MANIFEST}
    assert "not a bundle" in refused(b"")
    assert "manifest.json is missing" in refused(bundle[: bundle.index(layout.MANIFEST.encode())])
    assert "its end is missing" in refused(bundle[:-1])


def test_the_reason_of_a_failed_export_is_given(bundle: bytes) -> None:
    listed = contents(bundle)
    for kept in (2, len(layout.MEMBERS)):
        packer = layout.Packer(0)
        written = [piece for name in layout.MEMBERS[:kept] for piece in packer.member(name, [listed[name]])]
        text = refused(b"".join((*written, *packer.failed("offset 5 is missing"))))
        assert text == "the export failed: offset 5 is missing"


# -- hostile files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../bundle.json", "/etc/passwd", "bundle.json/../../x", "./bundle.json", "", "\x1b[2J"]
)
def test_a_member_of_another_name_is_never_extracted(bundle: bytes, name: str) -> None:
    listed = contents(bundle)
    found = {name: listed.pop(layout.ABOUT), **listed}
    text = refused(packed(found))
    assert "not extracted" in text
    assert text.isprintable()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.XHDTYPE, b"L"]
)
def test_nothing_but_a_file_is_a_member(kind: bytes) -> None:
    info = tarfile.TarInfo(layout.ABOUT)
    info.type, info.linkname = kind, "/etc/passwd"
    assert "not extracted" in refused(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))


@pytest.mark.parametrize("size", [layout.MOST_BYTES + 1, 8**11 - 1])
def test_a_size_beyond_the_bound_is_refused_before_anything_is_read(size: int) -> None:
    info = tarfile.TarInfo(layout.ABOUT)
    info.size = size
    assert "more than a bundle has" in refused(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))


def test_a_negative_size_is_refused() -> None:
    header = bytearray(tarfile.TarInfo(layout.ABOUT).tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 4 + struct.pack(">q", -512)
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    assert "more than a bundle has" in refused(bytes(header) + bytes(4096))


@pytest.mark.parametrize("name", HISTORY)
def test_a_member_that_expands_without_end_is_refused(bundle: bytes, name: str) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    for content in (BOMB, gzip.compress(b"\n" * 16 * 1024**2), listed[name] + BOMB):
        assert name in refused(packed({**listed, name: content}))
    assert "expands to more" in refused(packed({**listed, name: listed[name] + BOMB}))


class Counted(bundle_reader.Visitor):
    """Counts the lines that are read."""

    def __init__(self) -> None:
        self.read = 0

    def checkpoint(self, header: snapshot_format.Header, line: bytes) -> None:
        self.read += 1

    def event(self, raw: readers.Raw) -> None:
        self.read += 1

    def decision(self, decision: layout.BundledDecision) -> None:
        self.read += 1


def headed(name: str, bundle: bytes, **fields: object) -> tuple[bytes, list[bytes]]:
    """The header of a member with these fields, and its other lines."""
    head, *rest = gzip.decompress(contents(bundle)[name]).splitlines(keepends=True)
    return json.dumps({**json.loads(head), **fields}).encode() + b"\n", rest


@pytest.mark.parametrize("declared", ["exact", "a million"])
@pytest.mark.parametrize(
    ("name", "counter", "bound"),
    [(layout.CHECKPOINT, "lines", "MOST_LINES"), (layout.DECISIONS, "count", "MOST_DECISIONS")],
)
def test_more_lines_than_a_member_may_hold_are_refused_as_they_come(
    bundle: bytes, monkeypatch: pytest.MonkeyPatch, name: str, counter: str, bound: str, declared: str
) -> None:
    _, lines = headed(name, bundle)
    allowed = len(lines)
    head, _ = headed(name, bundle, **{counter: allowed if declared == "exact" else 10**6})
    if declared != "exact":
        monkeypatch.setattr(layout, bound, allowed)
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    # A line that follows them is refused before it is read: it is not even JSON.
    listed[name] = gzip.compress(head + b"".join(lines) + b"\n" * 1000)
    before = Counted()
    assert f"{name} is damaged: it has more than {allowed} " in refused(packed(listed), before)
    events = len(headed(layout.EVENTS, bundle)[1])
    assert before.read - allowed in (0, events + len(headed(layout.CHECKPOINT, bundle)[1]))


def test_more_events_than_the_range_has_offsets_are_refused_as_they_come(bundle: bytes) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    _, lines = headed(layout.EVENTS, bundle)
    last = json.loads(lines[-1])
    lines += [json.dumps({**last, "offset": last["offset"] + 1 + at}).encode() + b"\n" for at in range(1000)]
    head, _ = headed(layout.EVENTS, bundle, sha256=hashlib.sha256(b"".join(lines)).hexdigest())
    listed[layout.EVENTS] = gzip.compress(head + b"".join(lines))
    before = Counted()
    assert f"more events than offsets 150 to {last['offset']}" in refused(packed(listed), before)
    assert before.read == len(lines) - 1000 + len(headed(layout.CHECKPOINT, bundle)[1])


@pytest.mark.parametrize("name", HISTORY)
def test_a_member_of_empty_parts_is_refused(bundle: bytes, name: str) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    assert "a part of it is empty" in refused(packed({**listed, name: listed[name] + gzip.compress(b"")}))


def test_a_version_to_come_is_named(bundle: bytes) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    newer = listed[layout.ABOUT].replace(b'"version":1', b'"version":2', 1)
    assert "version 2, made by a newer Topolog" in refused(packed({**listed, layout.ABOUT: newer}))
    for name in HISTORY:
        text = gzip.decompress(listed[name])
        head, _, rest = text.partition(b"\n")
        later = head.replace(b'"version":', b'"version":9', 1) + b"\n" + rest
        found = refused(packed({**listed, name: gzip.compress(later)}))
        assert name in found
        assert "newer Topolog" in found


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (layout.ABOUT, b'"first":150', b'"first":-1', "not a range"),
        (layout.ABOUT, b'"first":150', b'"first":149', "offset 150, not of 149"),
        (layout.ABOUT, b'"kind":"topolog.bundle"', b'"kind":"other"', "not a bundle"),
        (layout.SETTINGS, b"{", b"[", "settings.json is damaged"),
        (layout.LAG, b"{", b'{"a":' + b"[" * 5000, "lag.json is damaged"),
    ],
)
def test_a_manifest_that_fits_does_not_make_it_a_bundle(
    bundle: bytes, name: str, old: bytes, new: bytes, words: str
) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    assert old in listed[name]
    assert words in refused(packed({**listed, name: listed[name].replace(old, new, 1)}))


@pytest.mark.parametrize("at_ms", [-1, 253_402_300_800_000, 10**17])
@pytest.mark.parametrize(
    ("name", "field"),
    [*((layout.ABOUT, f) for f in ("firstMs", "lastMs", "createdMs")), (layout.EVENTS, "t")],
)
def test_a_time_that_no_clock_shows_is_refused(bundle: bytes, name: str, field: str, at_ms: int) -> None:
    """All digests fit; answers could not write the time."""
    text = refused(bundled.timed(bundle, **{field: at_ms}))
    assert text == f"{name} is damaged: {at_ms} ms since 1970 are not a time before the year 10000"
    assert bundle_reader.read(io.BytesIO(bundled.timed(bundle, **{field: 253_402_300_799_999})))


def test_a_report_of_a_time_that_no_clock_shows_is_refused(bundle: bytes) -> None:
    listed = contents(bundle)
    del listed[layout.MANIFEST]
    report = findings.Report("a", 1, 10**17, "auditor", 1.0)
    text = refused(packed({**listed, layout.CONSISTENCY: msgspec.json.encode(report)}))
    assert text.startswith(f"{layout.CONSISTENCY} is damaged: {10**17} ms since 1970")


def test_no_bytes_make_the_reader_fail_in_another_way(bundle: bytes) -> None:
    for data in (
        b"",
        b"\0" * 2048,
        b"PK\x03\x04" + bytes(600),
        gzip.compress(bundle),
        secrets.token_bytes(4096),
    ):
        assert "not a bundle" in refused(data)
