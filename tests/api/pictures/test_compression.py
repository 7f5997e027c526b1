"""Pictures are compressed for clients that take gzip, with an ETag of their own."""

import gzip

from tests.support.extender import api_worlds


def test_a_picture_is_compressed_for_a_client_that_takes_it(past: api_worlds.World, head: int) -> None:
    path, zipped = f"/apis/v1/frames?from=5&to={head}", {"Accept-Encoding": "gzip, deflate"}
    plain = past.client.get(path)
    packed = past.client.get(path, headers=zipped)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 2
    assert {plain.headers["Vary"], packed.headers["Vary"]} == {"Accept-Encoding"}
    assert plain.headers["ETag"] != packed.headers["ETag"]
    again = past.client.get(path, headers={**zipped, "If-None-Match": packed.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert packed.data == past.client.get(path, headers=zipped).data


def test_a_refused_encoding_and_a_small_answer_are_sent_as_they_are(
    past: api_worlds.World, head: int
) -> None:
    path = f"/apis/v1/frames?from=5&to={head}"
    refused = past.client.get(path, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers
    small = past.client.get(f"/apis/v1/map?at={0}", headers={"Accept-Encoding": "gzip"})
    assert small.status_code == 200
    assert "Content-Encoding" not in small.headers
