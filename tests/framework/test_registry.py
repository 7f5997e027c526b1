"""Which plugins may work together, and what each of them can do."""

from dataclasses import dataclass
from typing import Any

import pytest

from app.domain import events, model, projecting, snapshots
from app.framework import capabilities, configuring, registry
from tests.framework import fakes

BY_CAPABILITY: dict[type, capabilities.Plugin] = {
    capabilities.Indexes: fakes.Indexing(),
    capabilities.Keeps: fakes.Keeping(),
    capabilities.Filters: fakes.Filtering(),
    capabilities.Classifies: fakes.Classifying(),
    capabilities.Softens: fakes.Softening(),
    capabilities.Narrows: fakes.Narrowing(),
    capabilities.Scores: fakes.Scoring(),
    capabilities.Ranks: fakes.Ranking(),
    capabilities.Reserves: fakes.Reserving(),
    capabilities.Preempts: fakes.Preempting(),
    capabilities.Transforms: fakes.Transforming(),
    capabilities.Serves: fakes.Serving(),
    capabilities.Controls: fakes.Controlling(),
}


def test_every_capability_has_a_fake() -> None:
    assert set(BY_CAPABILITY) == set(capabilities.KNOWN)


@pytest.mark.parametrize("kind", capabilities.KNOWN, ids=lambda kind: kind.__name__)
def test_a_plugin_is_sorted_by_what_it_can_do(kind: type) -> None:
    plugin = BY_CAPABILITY[kind]
    plugins = registry.Registry([fakes.Idle(), plugin])
    sorted_in = {
        name
        for name in (
            "indexes",
            "keeps",
            "filters",
            "scores",
            "ranks",
            "reserves",
            "preempts",
            "transforms",
            "serves",
            "controls",
        )
        if plugin in getattr(plugins, name)
    }
    by_name: dict[type, set[str]] = {
        capabilities.Softens: {"filters"},
        capabilities.Classifies: {"filters"},
        capabilities.Narrows: set(),
    }
    assert sorted_in == by_name.get(kind, {kind.__name__.lower()})
    assert plugins.classifies == ({"Classifying": plugin} if kind is capabilities.Classifies else {})
    assert plugins.softens == ({"Softening": plugin} if kind is capabilities.Softens else {})
    assert plugins.narrows == ({"Narrowing": plugin} if kind is capabilities.Narrows else {})


def test_indexed_keys_are_gathered() -> None:
    assert registry.Registry([fakes.Idle(), fakes.Indexing()]).indexed() == {"fake-index"}


def test_annotations_that_plugins_read_are_gathered() -> None:
    assert registry.Registry([fakes.Idle(), fakes.Keeping()]).annotations() == {"fake.example/read"}
    assert registry.Registry([fakes.Idle()]).annotations() == frozenset()


def test_interest_is_told_by_name_in_order() -> None:
    plugins = registry.Registry([fakes.Idle("B"), fakes.Idle("A"), fakes.Idle("C", label="other")])
    assert plugins.interested(model.Pod(uid="u", namespace="ns", name="p")) == ("B", "A")


def test_a_concern_that_depends_on_the_state_is_asked_of_the_state() -> None:
    plugins = registry.Registry([fakes.Idle("A"), fakes.Narrowing(), fakes.Idle("C", label="other")])
    pod = model.Pod(uid="u", namespace="ns", name="p")
    known = projecting.project(snapshots.empty(), events.PodSeen(pod=pod))
    assert plugins.concerned(pod, snapshots.empty()) == ("A",)
    assert plugins.concerned(pod, known) == ("A", "Narrowing")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weights": {"Idel": 2}}, "weight for unknown plugin Idel; known: Idle"),
        ({"weights": {"Idle": 0}}, "weight of Idle is 0; it must be at least 1"),
        ({"score_max": 0}, "score_max is 0; it must be at least 1"),
    ],
)
def test_bad_numbers_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(registry.ConfigurationRefused, match=text):
        registry.Registry([fakes.Idle()], **options)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(registry.ConfigurationRefused, match="plugin named twice: Idle"):
        registry.Registry([fakes.Idle(), fakes.Indexing(name="Idle")])


@dataclass(frozen=True, slots=True)
class Scoires(fakes.Idle):
    name: str = "Scoires"

    def scores(self) -> None:
        """Meant to be score."""


@dataclass(frozen=True, slots=True)
class Filtr(fakes.Idle):
    name: str = "Filtr"

    def filtr(self) -> None:
        """Meant to be filter."""


@dataclass(frozen=True, slots=True)
class Fulter(fakes.Idle):
    name: str = "Fulter"

    def fulter(self) -> None:
        """Meant to be filter."""


@dataclass(frozen=True, slots=True)
class Other(fakes.Idle):
    name: str = "Other"

    def something(self) -> None:
        """Not like any capability."""

    def _scores(self) -> None:
        """Its own business."""


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (Scoires(), "scores; did you mean score"),
        (Filtr(), "filtr; did you mean filter"),
        (Fulter(), "fulter; did you mean filter"),
    ],
)
def test_a_method_one_letter_off_is_refused(plugin: capabilities.Plugin, text: str) -> None:
    with pytest.raises(registry.ConfigurationRefused, match=text):
        registry.Registry([plugin])


def test_methods_of_ones_own_are_allowed() -> None:
    assert registry.Registry([Other()]).plugins == (Other(),)


def test_the_digest_follows_what_decides() -> None:
    digest = registry.Registry([fakes.Idle()]).digest
    assert registry.Registry([fakes.Idle()]).digest == digest
    others = [
        registry.Registry([fakes.Idle(label="x")]),
        registry.Registry([fakes.Idle()], weights={"Idle": 2}),
        registry.Registry([fakes.Idle()], score_max=100),
        registry.Registry([fakes.Idle(), fakes.Indexing()]),
    ]
    assert len({digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("chosen", "args", "text"),
    [
        (["Nobody"], {}, "unknown plugin Nobody; allowed: Filtering, Idle"),
        (["Idle"], {"Nobody": {}}, "unknown plugin Nobody"),
        (["Idle"], {"Idle": {"labl": "x"}}, "Idle.labl is not an argument; allowed: name, label"),
        (["Idle"], {"Idle": {"label": 3}}, "plugins.args.Idle: Expected `str`, got `int`"),
    ],
)
def test_wrong_choices_are_refused(chosen: list[str], args: dict[str, dict[str, object]], text: str) -> None:
    kinds = [named("Idle", fakes.Idle), named("Filtering", fakes.Filtering)]
    with pytest.raises(registry.ConfigurationRefused, match=text):
        configuring.build(kinds, enabled=chosen, weights={}, score_max=10, args=args)


def test_chosen_plugins_are_made_in_order_with_their_arguments() -> None:
    kinds = [named("Idle", fakes.Idle), named("Filtering", fakes.Filtering)]
    plugins = configuring.build(
        kinds,
        enabled=["Filtering", "Idle"],
        weights={"Idle": 4},
        score_max=100,
        args={"Filtering": {"refused": ["a"], "reason": "r"}},
    )
    assert [plugin.name for plugin in plugins.plugins] == ["Filtering", "Idle"]
    (filtering,) = plugins.filters
    assert isinstance(filtering, fakes.Filtering)
    assert (filtering.refused, filtering.reason) == (frozenset("a"), "r")
    assert (plugins.weights, plugins.score_max) == ({"Idle": 4}, 100)


def named(name: str, kind: type) -> type:
    """The class as the registry's settings know it: by the name on the class."""
    return dataclass(frozen=True)(
        type(kind.__name__, (kind,), {"name": name, "__annotations__": {"name": str}})
    )
