"""Trees of quotas from arbitrary objects: what is wrong is named, and the rest is used."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.elastic_quota.trees import chains, forests
from tests.support.decisions.small_quotas import check, cluster, node, pod, quota, runtime

TEAM = quota("team", 40, 80, is_parent=True)


def test_a_parent_and_its_children() -> None:
    forest = forests.grown([quota("b", 1, 80, parent="team"), TEAM, quota("a", 2, 80, parent="team")])
    assert forest.errors == {}
    assert forest.warnings == {}
    assert forest.trees[""].names == ("team", "a", "b")
    assert forest.chains["a"] == ("a", "team")
    assert [child.name for child in forest.children("team")] == ["a", "b"]


def test_the_older_of_two_quotas_of_one_name_is_used() -> None:
    old = quota("q", namespace="z", created="2026-01-01T00:00:00Z")
    new = quota("q", namespace="a", created="2026-01-02T00:00:00Z")
    for order in ([old, new], [new, old]):
        forest = forests.grown(order)
        assert forest.quotas == {"q": old}
        assert forest.unused == {"a/q": "its name is used by the older quota z/q"}


def test_parents_that_cannot_be_used() -> None:
    forest = forests.grown(
        [
            TEAM,
            quota("lost", parent="absent"),
            quota("below", parent="leaf"),
            quota("leaf"),
            quota("elsewhere", parent="team", tree="t"),
            quota("builtin", parent="koordinator-default-quota"),
            quota("broken", errors=("spec.min is odd",), is_parent=True),
            quota("inner", parent="broken", is_parent=True),
            quota("innermost", parent="inner"),
        ]
    )
    assert forest.errors == {
        "lost": ("parent absent does not exist",),
        "below": ('parent leaf does not have the label is-parent: "true"',),
        "elsewhere": ("its tree-id is 't', that of parent team is ''",),
        "builtin": ("parent koordinator-default-quota does not exist",),
        "broken": ("spec.min is odd",),
        "inner": ("broken above it is invalid",),
        "innermost": ("broken above it is invalid",),
    }
    assert forest.trees[""].names == ("leaf", "team")


def test_a_built_in_quota_has_no_parent() -> None:
    """Its pods are subtracted from what the trees divide, and would count in one of them, too."""
    default = quota("koordinator-default-quota", 50, 50, parent="team", max={"memory": 1})
    below = quota("below", parent="koordinator-default-quota", max={"memory": 1})
    forest = forests.grown([quota("team", 40, 80, parent="absent", is_parent=True), default, below])
    assert forest.chains["koordinator-default-quota"] == ("koordinator-default-quota",)
    assert forest.chains["below"] == ("below", "koordinator-default-quota")
    assert forest.errors == {
        "team": ("parent absent does not exist",),
        "below": ("parent koordinator-default-quota does not exist",),
    }
    assert forest.warnings == {
        "koordinator-default-quota": ("its parent team is ignored: it is below the root",)
    }


def test_cycles_are_named_and_do_not_hang() -> None:
    forest = forests.grown(
        [
            quota("a", parent="b", is_parent=True),
            quota("b", parent="a", is_parent=True),
            quota("self", parent="self", is_parent=True),
            quota("beside", parent="a"),
            quota("sound"),
        ]
    )
    assert forest.errors == {
        "a": ("its parents form a cycle: a -> b -> a",),
        "b": ("its parents form a cycle: b -> a -> b",),
        "self": ("its parents form a cycle: self -> self",),
        "beside": ("a above it is invalid",),
    }
    assert forest.chains["beside"] == ("beside", "a", "b")
    assert forest.trees[""].names == ("sound",)


def test_a_tree_has_a_limited_depth() -> None:
    line = [quota(f"q{n:02}", parent=f"q{n - 1:02}" if n else "", is_parent=True) for n in range(40)]
    forest = forests.grown(line)
    assert len(forest.trees[""].names) == chains.DEPTH == len(forest.chains["q31"])
    assert forest.errors["q32"] == ("it is more than 32 levels below the root",)
    # They count in no quota of the tree.
    assert forest.outside() == [f"q{n}" for n in range(32, 40)]
    assert all(forest.chains[name] == (name,) for name in forest.outside())


@pytest.mark.parametrize("size", [chains.DEPTH, chains.DEPTH + 1, 500])
def test_a_long_cycle_is_named_in_each_of_its_quotas(size: int) -> None:
    line = [quota(f"q{n}", parent=f"q{(n + 1) % size}", is_parent=True) for n in range(size)]
    below = [quota("r0", parent="q0", is_parent=True), quota("r1", parent="r0")]
    forest = forests.grown([*line, *below, quota("sound")])
    assert len(forest.errors) == size + 2
    assert all(
        errors[0].startswith("its parents form a cycle") and len(errors[0]) < 400
        for name, errors in forest.errors.items()
        if name.startswith("q")
    )
    assert {forest.errors["r0"], forest.errors["r1"]} <= {
        ("q0 above it is invalid",),
        ("the quotas above it form a cycle",),
    }
    assert forest.trees[""].names == ("sound",)


@pytest.mark.parametrize("size", [1, 2, chains.DEPTH, chains.DEPTH + 1, 40])
def test_what_lies_outside_of_the_trees_is_counted_once(size: int) -> None:
    """By a pod of each quota of a cycle, and of each of a line that hangs from it."""
    cycle = [quota(f"q{n}", parent=f"q{(n + 1) % size}", is_parent=True) for n in range(size)]
    line = [quota(f"r{n}", parent=f"r{n - 1}" if n else "q0", is_parent=True) for n in range(40)]
    pods = [pod(f"of-{one.name}", 1, one.name, node="n1") for one in (*cycle, *line)]
    small = cluster(node("n1", 100), *cycle, *line, quota("sound", 0, 100), *pods, pod("asks", 100, "sound"))
    assert runtime(small, "sound") == 100 - len(pods)
    check(small)


def test_what_is_probably_not_meant_is_a_warning() -> None:
    forest = forests.grown(
        [
            TEAM,
            quota("a", 30, 80, parent="team", namespaces=("x",)),
            quota("b", 20, 80, parent="team", namespaces=("x",)),
            quota("c", 0, 80, parent="team", max={"cpu": 1, "memory": 1}),
            quota("no-root", tree="t"),
            quota("rooted", tree="u", is_root=True),
            quota("treeless", is_root=True),
        ]
    )
    assert forest.errors == {}
    assert forest.warnings == {
        "team": ("the mins of its children exceed spec.min in cpu",),
        "b": ("namespace x is listed by a too, which is used",),
        "c": ("spec.max and that of parent team differ in their resources: memory",),
        "no-root": ("tree t has no quota with the label is-root: its total is zero",),
        "rooted": ("its annotation total-resource is missing: spec.min is the total of the tree",),
        "treeless": ("is-root has no effect without the label tree-id",),
    }


names = st.sampled_from(["a", "b", "c", "d", "e", "koordinator-root-quota", "koordinator-default-quota"])


@given(
    st.lists(
        st.tuples(names, names, st.booleans(), st.sampled_from(["", "t"]), st.integers(0, 2)), max_size=12
    ),
    st.integers(),
)
def test_any_objects_make_a_forest_in_any_order(
    rows: list[tuple[str, str, bool, str, int]], seed: int
) -> None:
    objects = [
        quota(
            name,
            parent=parent,
            is_parent=parents,
            tree=tree,
            created=str(age),
            uid=str(at),
            namespace=str(at),
        )
        for at, (name, parent, parents, tree, age) in enumerate(rows)
    ]
    forest = forests.grown(objects)
    shuffled = random.Random(seed).sample(objects, len(objects))
    again = forests.grown(shuffled)
    assert (again.quotas, again.errors, again.unused) == (forest.quotas, forest.errors, forest.unused)
    assert len(forest.quotas) + len(forest.unused) == len(objects)
    in_trees = [name for tree in forest.trees.values() for name in tree.names]
    valid = set(forest.quotas) - set(forest.errors)
    assert sorted(in_trees) == sorted(valid - {"koordinator-root-quota", "koordinator-default-quota"})
    for tree in forest.trees.values():
        assert all(parent < at for at, parent in enumerate(tree.parents))
