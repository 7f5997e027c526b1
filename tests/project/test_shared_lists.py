"""Compares lists and keys that two packages have because neither may import the other.

The commands do not import the server's packages, which would delay each of them.
"""

from app.api.introspection import heavy
from app.api.v1.pictures import facets, watches
from app.cli.get import facets as facet_options
from app.cli.questions import differences
from app.serving.access import roles
from app.serving.http import fast_path
from app.telemetry import metrics
from app.verbs.questions import replays


def test_the_routes_of_verbs_have_a_role() -> None:
    assert roles.VERBS == metrics.VERBS


def test_a_command_offers_the_facets_of_decisions() -> None:
    assert facet_options.NAMES == facets.FACETS


def test_a_command_shows_each_class_of_differences() -> None:
    assert differences.CLASSES == replays.CLASSES


def test_routes_read_what_the_server_adds_to_the_environment() -> None:
    assert vars(heavy)["_HUNG_UP"] == fast_path.HUNG_UP
    assert vars(watches)["_ENDS"] == fast_path.ENDS
