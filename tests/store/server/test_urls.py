"""URLs of a store: what they name, and which are refused."""

import pytest

from app import settings
from app.store import errors
from app.store.server import urls


@pytest.mark.parametrize(
    ("url", "kind", "addresses", "master", "tls"),
    [
        ("redis://h", "", (("h", 6379),), "", False),
        ("rediss://u:p@h:1/2", "", (("h", 1),), "", True),
        ("redis://[::1]:7", "", (("::1", 7),), "", False),
        ("redis+sentinel://a,b:2,[::1]/m", "sentinel", (("a", 26379), ("b", 2), ("::1", 26379)), "m", False),
        ("rediss+sentinel://u:p@a/m?db=3", "sentinel", (("a", 26379),), "m", True),
        ("redis+cluster://a,b", "cluster", (("a", 6379), ("b", 6379)), "", False),
        ("rediss+cluster://:p@a:1", "cluster", (("a", 1),), "", True),
    ],
)
def test_a_url_is_parsed(
    url: str, kind: str, addresses: tuple[urls.Address, ...], master: str, tls: bool
) -> None:
    target = urls.parse(url)
    assert (target.kind, target.addresses, target.master, target.tls) == (kind, addresses, master, tls)
    # The settings let it through as well.
    assert settings.load(None, {"TOPOLOG_STORE_URL": url}).store.url == url


def test_sentinels_are_shown_their_own_credentials() -> None:
    target = urls.parse("rediss+sentinel://u:p%40@a/m?sentinel_password=s&ssl_ca_certs=f&db=2")
    shared = {"ssl_ca_certs": "f", **urls.VERIFICATION}
    assert target.options == {"username": "u", "password": "p@", "db": 2, **shared}
    assert target.sentinel_options == {"password": "s", **shared}


@pytest.mark.parametrize(
    "url",
    [
        "http://secret@h",
        "redis://secret@h,i",
        "redis://secret@h:99999",
        "redis+sentinel://secret@a,b",
        "redis+sentinel://secret@a/b/c",
        "redis+cluster://secret@a/1",
        "redis+cluster://secret@a,,b",
        "redis://secret@h?db=x",
        "redis+sentinel://:secret@/m@x/",
    ],
)
def test_an_invalid_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(errors.StoreError, match=r"store\.url") as refused:
        urls.parse(url)
    assert "secret" not in str(refused.value)
