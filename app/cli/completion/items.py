"""Items for shell completion: asked of an extender, within a moment, and silently none where that fails."""

import os
from collections.abc import Mapping
from typing import Any

import click

from app.cli import exits

_SECONDS = 0.5
"""How long a shell may wait for a key."""
_MOST = 100


def listed(ctx: click.Context, path: str) -> list[dict[str, Any]]:
    """The first items of the list at a path below /apis/v1."""
    from dataclasses import replace

    from app import settings
    from app.cli.client import api_client

    options: Mapping[str, str | None] = {
        name: ctx.params.get(name) for name in ("server", "server_name", "cert", "key", "ca")
    }
    root = ctx.find_root()
    config = root.params.get("config") or os.environ.get("TOPOLOG_CONFIG")
    try:
        extender = api_client.extender(config, options)
        quick = replace(extender, client=replace(extender.client, timeout=_SECONDS))
        reply = quick.get(f"/apis/v1/{path}", {"limit": _MOST})
    except (exits.Failed, settings.SettingsRefused, OSError):
        return []
    return list(reply["items"]) if not isinstance(reply, str) else []
