"""The URLs of the store in the Secret that the processes read, and their passwords."""

import base64
import urllib.parse

from tests.support.e2e import api_client


def url(secret: api_client.Object, role: str) -> str:
    """The URL of the store for a role, as `doctor`."""
    return base64.b64decode(secret["data"][f"{role}-url"]).decode()


def password(url: str) -> str:
    """The password in the URL, as it is written there."""
    found = urllib.parse.urlsplit(url).password
    assert found
    return found
