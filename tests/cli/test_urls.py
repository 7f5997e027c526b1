"""URLs as options and settings of a command: none has a password, and one that is refused is not shown."""

import click
import hypothesis
import pytest
from click import testing
from hypothesis import strategies as st

from app import cli, settings
from app.cli.client import urls
from tests.support.campaigns import sizes

CANARY = "cAn4ry-hunter2"
OPTIONS = [
    ("get", "pending", "--server"),
    ("doctor", "scheduler", "--configz"),
    ("doctor", "run", "--process"),
]
WITH_PASSWORD = [f"u:{CANARY}@host:8443", f"https://u:{CANARY}/w@host", f"https://u:1/{CANARY}@host"]


@hypothesis.given(
    scheme=st.sampled_from(["https://", "http://", "https:/", "https:", "//", "redis://", ""]),
    user=st.sampled_from(["", "u", "u:", ":", "a:b@c:", "a@", "u/", "u:1/", "[", "h:0?"]),
    secret=st.text("/@:?#&=%,[]+ a1.", max_size=4),
    rest=st.sampled_from(["", "@h", "@h:8443", "@h:0", "@[::1]:1", "@h#x", "@a@b", "/x@h", "@", ":8443"]),
)
@hypothesis.settings(max_examples=sizes.examples(200), deadline=None)
def test_a_url_that_is_refused_is_not_shown(scheme: str, user: str, secret: str, rest: str) -> None:
    url = f"{scheme}{user}{CANARY}{secret}{rest}"
    shown = ""
    try:
        assert "@" not in urls.URL.convert(url, None, None)
    except click.UsageError as refused:
        shown = refused.format_message()
    assert CANARY not in shown
    assert not shown or "https://HOST:PORT" in shown


@pytest.mark.parametrize("url", WITH_PASSWORD)
@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_no_option_shows_the_password_of_a_url(option: tuple[str, ...], url: str) -> None:
    done = testing.CliRunner().invoke(cli.topolog, [*option, url])
    assert done.exit_code == 2
    assert "write https://HOST:PORT" in done.output
    assert CANARY not in done.output


@pytest.mark.parametrize("url", WITH_PASSWORD)
@pytest.mark.parametrize("name", ["TOPOLOG_CLIENT_URL", "TOPOLOG_CLIENT_VIEW_URL"])
def test_the_url_of_a_client_that_has_a_password_is_refused_and_hidden(name: str, url: str) -> None:
    with pytest.raises(settings.SettingsRefused, match="must be https://HOST:PORT") as refused:
        settings.load(None, {name: url})
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("url", ["https://127.0.0.1:8443", "http://[::1]:8081", "https://extender.example/x"])
def test_other_urls_are_used_as_they_are(url: str) -> None:
    assert urls.URL.convert(url, None, None) == url
