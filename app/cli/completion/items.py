"""Names for shell completion: asked of an extender, within a moment, and silently none where that fails."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from click import shell_completion
from click.core import ParameterSource

from app.cli import exits

REPLY_SECONDS: Final = 0.5
"""How long an extender may take to reply."""
SECONDS = 3.0
"""How long a shell may wait for names, with all that leads to an extender."""
_MOST: Final = 100
_MOST_PODS: Final = 1000
"""Pods whose namespaces are offered."""


def listed(ctx: click.Context, path: str, *, prefix: str = "", limit: int = _MOST) -> list[dict[str, Any]]:
    """The first items of the list at a path below /apis/v1.

    ``prefix``: what their names begin with, for a list that can be asked by it.
    """
    from dataclasses import replace

    from app import interrupts, settings
    from app.cli.client import api_client

    options: Mapping[str, str | None] = {
        name: ctx.params.get(name) for name in ("server", "server_name", "cert", "key", "ca")
    }
    root = ctx.find_root()
    config = root.params.get("config") or os.environ.get("TOPOLOG_CONFIG")
    try:
        # Over all of it: the way to an extender by the kubeconfig has waits of its own.
        with interrupts.within(SECONDS):
            extender = api_client.extender(config, options)
            quick = replace(extender, client=replace(extender.client, timeout=REPLY_SECONDS))
            reply = quick.get(f"/apis/v1/{path}", {"limit": limit, "prefix": prefix or None})
    except (interrupts.OutOfTime, exits.Failed, settings.SettingsRefused, OSError):
        return []
    return list(reply["items"]) if not isinstance(reply, str) else []


def within(ctx: click.Context, incomplete: str) -> str:
    """``NAMESPACE/`` of -n, for a name that is completed without its namespace; else empty."""
    given = ctx.get_parameter_source("namespace") is ParameterSource.COMMANDLINE
    return f"{ctx.params['namespace']}/" if given and "/" not in incomplete else ""


def offered(names: Iterable[str], incomplete: str) -> list[shell_completion.CompletionItem]:
    """The names that begin like this, each once."""
    return [
        shell_completion.CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)
    ]


class _Name(click.ParamType[str]):
    """A text whose values are completed."""

    name = "text"

    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        """The names to offer."""
        raise NotImplementedError

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """The names that begin like this."""
        return offered(self.names(ctx, incomplete), incomplete)


class _Pod(_Name):
    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        inside = within(ctx, incomplete)
        for pod in listed(ctx, "pods", prefix=inside + incomplete):
            yield f"{pod['namespace']}/{pod['name']}".removeprefix(inside)


class _Namespace(_Name):
    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        return (pod["namespace"] for pod in listed(ctx, "pods", prefix=incomplete, limit=_MOST_PODS))


class _Node(_Name):
    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        return (node["name"] for node in listed(ctx, "nodes", prefix=incomplete))


class _Flag(_Name):
    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        return (flag["title"] for flag in listed(ctx, "flags"))


class _Shadow(_Name):
    def names(self, ctx: click.Context, incomplete: str) -> Iterable[str]:
        return (shadow["name"] for shadow in listed(ctx, "shadows"))


POD: Final = _Pod()
"""NAMESPACE/NAME, or NAME with -n."""
NAMESPACE: Final = _Namespace()
"""The namespace of a pod."""
NODE: Final = _Node()
FLAG: Final = _Flag()
"""The name of a debug flag."""
SHADOW: Final = _Shadow()
