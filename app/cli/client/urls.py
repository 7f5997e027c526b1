"""The URL of a server as the value of an option."""

import urllib.parse

import click


class Url(click.ParamType[str]):
    """``https://HOST:PORT``, also with http, without a user: a certificate identifies the caller."""

    name = "URL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The URL as it is. Fails with how it is written, without the value: it may have a password."""
        if "@" in value:
            self.fail("a URL has no user and no password here: write https://HOST:PORT", param, ctx)
        try:
            parts = urllib.parse.urlsplit(value)
            whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            whole = False
        if not whole:
            self.fail("the value is not a URL: write https://HOST:PORT", param, ctx)
        return value


URL = Url()
