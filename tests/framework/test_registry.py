"""The registry: capabilities by plugin, and configurations that are refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from app import plugins as in_tree
from app.domain import events, model, projections, snapshots, verdicts
from app.framework import capabilities, cycles, effects, registry, registry_builder, views
from tests.support import declared
from tests.support.decisions import fake_plugins

BY_CAPABILITY: dict[type, capabilities.Plugin] = {
    capabilities.Owns: fake_plugins.Owning(),
    capabilities.Counts: fake_plugins.Counting(),
    capabilities.Indexes: fake_plugins.Indexing(),
    capabilities.Keeps: fake_plugins.Keeping(),
    capabilities.Filters: fake_plugins.Filtering(),
    capabilities.Classifies: fake_plugins.Classifying(),
    capabilities.Sums: fake_plugins.Summing(),
    capabilities.Advises: fake_plugins.Advising(),
    capabilities.Degrades: fake_plugins.Softening(),
    capabilities.Narrows: fake_plugins.Narrowing(),
    capabilities.Scores: fake_plugins.Scoring(),
    capabilities.BreaksTies: fake_plugins.Ranking(),
    capabilities.Reserves: fake_plugins.Reserving(),
    capabilities.Preempts: fake_plugins.Preempting(),
    capabilities.Adjusts: fake_plugins.Adjusting(),
    capabilities.Budgets: fake_plugins.Budgeting(),
    capabilities.Consults: fake_plugins.Consulting(),
    capabilities.Groups: fake_plugins.Grouping(),
    capabilities.Transforms: fake_plugins.Transforming(),
    capabilities.TransformsNodes: fake_plugins.TransformingNodes(),
    capabilities.TransformsScores: fake_plugins.TransformingScores(),
    capabilities.Supposes: fake_plugins.Supposing(),
    capabilities.Shows: fake_plugins.Showing(),
    capabilities.Measures: fake_plugins.Measuring(),
    capabilities.Exceeds: fake_plugins.Exceeding(),
    capabilities.Wakes: fake_plugins.Waking(),
    capabilities.Reconciles: fake_plugins.Reconciling(),
    capabilities.Evicts: fake_plugins.Evicting(),
    capabilities.Diagnoses: fake_plugins.Diagnosing(),
    capabilities.Discloses: fake_plugins.Disclosing(),
}

BY_CLASS = {
    capabilities.Owns,
    capabilities.Counts,
    capabilities.Keeps,
    capabilities.Evicts,
    capabilities.Discloses,
}
"""Requested of the class, whether or not the plugin is enabled (registry_builder)."""


def test_every_capability_has_a_fake() -> None:
    assert set(BY_CAPABILITY) == set(capabilities.KNOWN)


@pytest.mark.parametrize(
    "kind", sorted(BY_CAPABILITY.keys() - BY_CLASS, key=str), ids=lambda kind: kind.__name__
)
def test_the_plugins_that_have_a_capability_are_grouped_in_their_order(kind: type) -> None:
    plugins = [fake_plugins.Idle(), *BY_CAPABILITY.values()][::-1]
    having = tuple(plugin for plugin in plugins if isinstance(plugin, kind))
    assert BY_CAPABILITY[kind] in having
    held = vars(registry.Registry(plugins)).values()
    assert having in [tuple(each.values()) if isinstance(each, dict) else each for each in held]


def test_indexed_keys_are_gathered() -> None:
    assert registry.Registry([fake_plugins.Idle(), fake_plugins.Indexing()]).indexed() == {"fake-index"}


def test_annotations_that_plugins_read_are_kept_whatever_is_enabled() -> None:
    known = (fake_plugins.Idle, fake_plugins.Keeping)
    assert registry_builder.annotations_of(known) == {"fake.example/read"}
    assert registry_builder.annotations_of(known[:1]) == frozenset()
    made = [kind() for kind in in_tree.IN_TREE]
    kept = {key for one in made if isinstance(one, capabilities.Keeps) for key in one.annotations()}
    assert kept
    assert in_tree.catalog().annotations == kept


def test_of_a_document_that_two_plugins_declare_both_must_disclose_a_field() -> None:
    @dataclass(frozen=True, slots=True)
    class Stricter(fake_plugins.Idle):
        name: str = "Stricter"
        public_terms: ClassVar[views.Terms] = views.Terms(
            values=frozenset(("fake.example/size",)),
            documents={"fake.example/document": frozenset(("mode", "owner"))},
        )

    assert registry_builder.terms_of((fake_plugins.Disclosing, fake_plugins.Idle, Stricter)) == views.Terms(
        frozenset(("fake-default",)),
        frozenset(("fake.example/mode", "fake.example/size")),
        {"fake.example/document": frozenset(("mode",))},
    )


def test_interested_plugins_are_named_in_order() -> None:
    plugins = registry.Registry(
        [fake_plugins.Idle("B"), fake_plugins.Idle("A"), fake_plugins.Idle("C", label="other")]
    )
    assert plugins.interested(model.Pod(uid="u", namespace="ns", name="p")) == ("B", "A")


def test_a_narrowing_plugin_is_consulted_with_the_state() -> None:
    plugins = registry.Registry(
        [fake_plugins.Idle("A"), fake_plugins.Narrowing(), fake_plugins.Idle("C", label="other")]
    )
    pod = model.Pod(uid="u", namespace="ns", name="p")
    known = projections.project(snapshots.empty(schema=declared.SCHEMA), events.PodSeen(pod=pod))
    assert plugins.concerned(pod, snapshots.empty(schema=declared.SCHEMA)) == ("A",)
    assert plugins.concerned(pod, known) == ("A", "Narrowing")


def test_a_plugin_that_refused_a_pod_as_it_was_transformed_is_concerned() -> None:
    plugins = registry.Registry([fake_plugins.Idle("A"), fake_plugins.Narrowing()])
    trace = verdicts.Trace(
        position=model.Position("i", 1),
        pod=model.Pod(uid="u", namespace="ns", name="p"),
        candidates=frozenset(("n",)),
        interested=("A", "Narrowing"),
    )
    empty = snapshots.empty(schema=declared.SCHEMA)
    assert plugins.concerned_in(trace, empty) == ("A",)
    refused = replace(trace, refusals=(verdicts.Refusal("no", frozenset(("n",)), {}, "Narrowing"),))
    assert plugins.concerned_in(refused, empty) == ("A", "Narrowing")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weights": {"Idel": 2}}, "weight for unknown plugin Idel; enabled: Idle"),
        ({"weights": {"Idle": 0}}, "weight of Idle is 0; it must be at least 1"),
        ({"score_max": 0}, "score_max is 0; it must be at least 1"),
    ],
)
def test_invalid_numbers_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(registry.ConfigurationRefused, match=text):
        registry.Registry([fake_plugins.Idle()], **options)


@pytest.mark.parametrize(
    ("controllers", "runs"),
    [
        (["*"], True),
        (["Reconciling"], True),
        (["Other"], False),
        ([], False),
        (["*", "-Reconciling"], False),
        (["-Other", "*"], True),
        (["Reconciling", "-Reconciling"], True),
        (["-Reconciling", "Reconciling", "*"], False),
    ],
)
def test_the_first_entry_for_a_controller_decides(controllers: list[str], runs: bool) -> None:
    plugin = fake_plugins.Reconciling()
    chosen = registry.Registry([plugin], controllers=controllers)
    assert chosen.reconciles == ((plugin,) if runs else ())
    assert chosen.digest == registry.Registry([plugin]).digest


def test_a_duplicate_name_is_refused() -> None:
    with pytest.raises(registry.ConfigurationRefused, match="duplicate plugin: Idle"):
        registry.Registry([fake_plugins.Idle(), fake_plugins.Indexing(name="Idle")])


@dataclass(frozen=True, slots=True)
class Concerning(fake_plugins.Idle):
    name: str = "Concerning"
    tables: ClassVar[tuple[views.Table, ...]] = ()
    of: str = "rack"

    def shown(self) -> views.Shown:
        return views.Shown(concerns=(views.Concern(self.of, lambda _, pod: (pod.namespace,)),))


def test_the_objects_that_a_decision_concerns_are_those_of_all_plugins() -> None:
    plugins = registry.Registry([Concerning(), Concerning("Other", of="row")])
    pod = model.Pod(uid="u", namespace="shop", name="web")
    assert list(plugins.objects(snapshots.empty(schema=declared.SCHEMA), pod)) == ["rack:shop", "row:shop"]


@dataclass(frozen=True, slots=True)
class Painting(Concerning):
    def shown(self) -> views.Shown:
        return views.Shown(painted=(views.Painted(self.of, (), lambda _: (), lambda *_: {}),))


@dataclass(frozen=True, slots=True)
class Following(Concerning):
    def shown(self) -> views.Shown:
        table = views.Table("racks", "racks", "racks", {"NAME": "name"})
        return views.Shown(followed=(views.Followed(self.of, "racks", table, lambda *_: {}),))


@pytest.mark.parametrize(
    ("declaring", "what"),
    [(Concerning, "kind of objects"), (Painting, "painted kind"), (Following, "followed kind")],
)
def test_two_plugins_with_one_kind_of_objects_are_refused(declaring: type[Concerning], what: str) -> None:
    assert registry.Registry([declaring("One"), declaring("Other", of="row")])
    with pytest.raises(
        registry.ConfigurationRefused, match=f"plugins One and Other both declare the {what} rack"
    ):
        registry.Registry([declaring("One"), declaring("Other")])


@dataclass(frozen=True, slots=True)
class Scoires(fake_plugins.Idle):
    name: str = "Scoires"

    def scores(self) -> None:
        """Meant to be score."""


@dataclass(frozen=True, slots=True)
class Filtr(fake_plugins.Idle):
    name: str = "Filtr"

    def filtr(self) -> None:
        """Meant to be filter."""


@dataclass(frozen=True, slots=True)
class Inheriting(Filtr):
    name: str = "Inheriting"


@dataclass(frozen=True, slots=True)
class Fulter(fake_plugins.Idle):
    name: str = "Fulter"

    def fulter(self) -> None:
        """Meant to be filter."""


@dataclass(frozen=True, slots=True)
class Other(fake_plugins.Idle):
    name: str = "Other"

    def something(self) -> None:
        """Unlike any capability."""

    def _scores(self) -> None:
        """A private method."""


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (Scoires(), "scores; did you mean score"),
        (Filtr(), "filtr; did you mean filter"),
        (Fulter(), "fulter; did you mean filter"),
        (Inheriting(), "plugin Inheriting has a method filtr; did you mean filter"),
    ],
)
def test_a_method_one_letter_off_is_refused(plugin: capabilities.Plugin, text: str) -> None:
    with pytest.raises(registry.ConfigurationRefused, match=text):
        registry.Registry([plugin])


@dataclass(frozen=True, slots=True)
class Sparing(fake_plugins.Idle):
    name: str = "Sparing"
    reserve: int = 2
    """Cores to leave."""


def test_an_argument_with_the_name_of_a_method_is_refused() -> None:
    with pytest.raises(
        registry.ConfigurationRefused, match=r"plugin Sparing has a value reserve, .* of a method of Reserves"
    ):
        registry.Registry([Sparing()])


def test_other_methods_are_allowed() -> None:
    assert registry.Registry([Other()]).plugins == (Other(),)


def test_the_digest_follows_what_decides() -> None:
    digest = registry.Registry([fake_plugins.Idle()]).digest
    assert registry.Registry([fake_plugins.Idle()]).digest == digest
    others = [
        registry.Registry([fake_plugins.Idle(label="x")]),
        registry.Registry([fake_plugins.Idle()], weights={"Idle": 2}),
        registry.Registry([fake_plugins.Idle()], score_max=100),
        registry.Registry([fake_plugins.Idle(), fake_plugins.Indexing()]),
    ]
    assert len({digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("chosen", "args", "text"),
    [
        (["Missing"], {}, "unknown plugin Missing; allowed: Filtering, Idle"),
        (["Idle"], {"Missing": {}}, "unknown plugin Missing"),
        (["Idle"], {"Idle": {"labl": "x"}}, "unknown argument plugins.args.Idle.labl; allowed: name, label"),
        (["Idle"], {"Idle": {"label": 3}}, "plugins.args.Idle: Expected `str`, got `int`"),
    ],
)
def test_invalid_choices_are_refused(
    chosen: list[str], args: dict[str, dict[str, object]], text: str
) -> None:
    kinds = [named("Idle", fake_plugins.Idle), named("Filtering", fake_plugins.Filtering)]
    with pytest.raises(registry.ConfigurationRefused, match=text):
        registry_builder.build(kinds, enabled=chosen, weights={}, score_max=10, args=args)


def test_chosen_plugins_are_created_in_order_with_their_arguments() -> None:
    kinds = [named("Idle", fake_plugins.Idle), named("Filtering", fake_plugins.Filtering)]
    plugins = registry_builder.build(
        kinds,
        enabled=["Filtering", "Idle"],
        weights={"Idle": 4},
        score_max=100,
        args={"Filtering": {"refused": ["a"], "reason": "r"}},
    )
    assert [plugin.name for plugin in plugins.plugins] == ["Filtering", "Idle"]
    (filtering,) = plugins.filters
    assert isinstance(filtering, fake_plugins.Filtering)
    assert (filtering.refused, filtering.reason) == (frozenset("a"), "r")
    assert (plugins.weights, plugins.score_max) == ({"Idle": 4}, 100)


def named(name: str, kind: type) -> type:
    """The class under another name, as the settings refer to plugins by the name on the class."""
    return dataclass(frozen=True)(
        type(kind.__name__, (kind,), {"name": name, "__annotations__": {"name": str}})
    )


@dataclass(frozen=True)
class ShowingNoTables(fake_plugins.Idle):
    """Has views, but no list of tables."""

    def shown(self) -> views.Shown:
        return views.Shown()


@dataclass(frozen=True)
class ReconcilingNothing(fake_plugins.Idle):
    """Writes a status of no kind."""

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> tuple[effects.Effect, ...]:
        return ()


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (ShowingNoTables(), "has shown, but no tables: Shows requires both"),
        (ReconcilingNothing(), "has reconcile, but no statuses: Reconciles requires both"),
    ],
)
def test_a_part_of_a_capability_is_refused(plugin: capabilities.Plugin, message: str) -> None:
    with pytest.raises(registry.ConfigurationRefused, match=message):
        registry.Registry([plugin])


@dataclass(frozen=True, slots=True)
class Counting(fake_plugins.Idle):
    """Keeps two of the pods of each namespace, unless all of them go."""

    name: str = "Counting"
    asked: list[object] = field(default_factory=list)

    def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]) -> str | None:
        self.asked.append(victims)
        for namespace in ("a", "b"):
            pods = {one.uid for one in cycle.snapshot.pods.values() if one.namespace == namespace}
            left = pods - {one.uid for one in victims}
            if 0 < len(left) < 2:
                return f"{namespace} is protected"
        return None


def test_pods_are_protected_that_may_not_go_one_after_the_other() -> None:
    """Two of a namespace may go together, and one of three alone."""
    names = ("a1", "a2", "b1", "b2", "b3")
    pods = {name: model.Pod(uid=name, namespace=name[0], name=name, node="n") for name in names}
    state = snapshots.empty(schema=declared.SCHEMA)
    state = projections.project_all(state, [events.PodSeen(pod=one) for one in pods.values()])
    asked = list[object]()
    made = registry.Registry([fake_plugins.Idle(), Counting(asked=asked)])
    for going, stay in (("a1", {"a1"}), ("a1 a2", set()), ("b1", set()), ("b1 a1", {"a1"})):
        assert made.protected(state, [pods[name] for name in going.split()]) == stay
    assert made.protected(state, []) == set()
    for going, questions in (("a1", 1), ("a1 a2", 3), ("a1 b1", 2)):
        asked.clear()
        made.protected(state, [pods[name] for name in going.split()])
        assert len(asked) == questions, "together only where several are refused alike"
    assert registry.Registry([fake_plugins.Idle()]).protected(state, [pods["a1"]]) == set()
