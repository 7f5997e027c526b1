"""Where ``topolog up`` keeps what it makes, and where the other commands look for it."""

import os
import pathlib


def state(cluster: str) -> pathlib.Path:
    """The folder of one cluster: $XDG_STATE_HOME/topolog/CLUSTER, usually under ~/.local/state."""
    root = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return pathlib.Path(root) / "topolog" / cluster


def certificates(cluster: str) -> pathlib.Path:
    """The folder of the certificates that were made for one cluster."""
    return state(cluster) / "certs"
