"""A world that a browser is shown."""

import dataclasses

from tests.support.browser import viewers
from tests.support.extender import api_worlds

NODES, PODS = 5000, 1500
"""Of the large world, at its start."""


@dataclasses.dataclass
class Shown:
    """A world, and the view process that shows it."""

    world: api_worlds.World
    viewer: viewers.Viewer

    @property
    def head(self) -> int:
        """The last offset."""
        return self.world.store.follower.catch_up().offset
