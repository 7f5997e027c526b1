"""A small cluster in a store, and the process of ``topolog view`` that shows it."""

import dataclasses

from tests.support.browser import viewers
from tests.support.extender import api_worlds


@dataclasses.dataclass
class Seen:
    """A world, and the process that shows it."""

    world: api_worlds.World
    viewer: viewers.Viewer
