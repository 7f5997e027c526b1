"""F6 behind the API."""

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.questions import f6


@pytest.fixture
def six(process: api_worlds.Process) -> api_worlds.World:
    """F6: four pods are placed, two wait."""
    made = api_worlds.world(process())
    made.append(*f6())
    return made
