"""Interned node sets: the results of any sets, computed once for each pair of operands."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain import model, node_sets, topology

NODES = st.frozensets(st.sampled_from("abcdef"))
KIND = st.sampled_from([frozenset, node_sets.InternedNodes])
OPERATIONS = (node_sets.minus, node_sets.common, node_sets.union)


@given(one=NODES, other=NODES, kind=KIND, other_kind=KIND)
def test_results_are_those_of_plain_sets(
    one: frozenset[str], other: frozenset[str], kind: type[frozenset[str]], other_kind: type[frozenset[str]]
) -> None:
    nodes, others = kind(one), other_kind(other)
    for _ in ("computed", "held"):
        assert node_sets.minus(nodes, others) == one - other
        assert node_sets.common(nodes, others) == one & other
        assert node_sets.union(nodes, others) == one | other
        assert node_sets.union(nodes) == one


def test_a_result_of_interned_sets_is_interned_and_computed_once() -> None:
    nodes, others = node_sets.InternedNodes("abc"), node_sets.InternedNodes("bcd")
    for operation in OPERATIONS:
        first = operation(nodes, others)
        assert isinstance(first, node_sets.InternedNodes)
        assert operation(nodes, others) is first
        assert not isinstance(operation(nodes, frozenset("bcd")), node_sets.InternedNodes)


def test_sets_of_equal_content_hold_results_apart() -> None:
    others = node_sets.InternedNodes("bcd")
    one, other = node_sets.InternedNodes("abc"), node_sets.InternedNodes("abc")
    assert one == other
    for operation in OPERATIONS:
        assert operation(one, others) == operation(other, others)
        assert operation(one, others) is not operation(other, others)


def test_operators_return_plain_sets() -> None:
    nodes, others = node_sets.InternedNodes("abc"), node_sets.InternedNodes("bcd")
    assert {type(result) for result in (nodes | others, nodes & others, nodes - others)} == {frozenset}


def test_the_results_held_by_one_set_are_bounded() -> None:
    nodes = node_sets.InternedNodes("abc")
    several = [node_sets.InternedNodes(f"b{number}") for number in range(3 * node_sets.MAX_RESULTS)]
    first = node_sets.minus(nodes, several[0])
    for others in several[1:]:
        assert node_sets.minus(nodes, others) == nodes - others
    assert node_sets.minus(nodes, several[0]) is not first


def test_the_values_held_by_one_set_and_its_results_are_bounded_together() -> None:
    """A policy refuses as many sets of nodes as it has states, each with a sentence for its counts."""
    nodes = node_sets.InternedNodes("abc")
    several = [node_sets.InternedNodes(f"b{number}") for number in range(node_sets.MAX_RESULTS)]
    differences = [node_sets.minus(nodes, others) for others in several]
    results = [one for one in differences if isinstance(one, node_sets.InternedNodes)]
    first = results[0].value("named", object)
    assert results[0].value("named", object) is first
    assert results[1].value("named", object) is not first
    for result in results:
        for number in range(4):
            result.value(number, object)
    assert results[0].value("named", object) is not first


def test_a_part_is_itself_what_it_has_in_common_with_the_whole() -> None:
    part = frozenset("ab")
    assert node_sets.common(part, frozenset("abc")) is part


@given(whole=NODES, other=NODES, data=st.data())
def test_a_subset_has_the_results_of_a_plain_set(
    whole: frozenset[str], other: frozenset[str], data: st.DataObject
) -> None:
    some = data.draw(st.frozensets(st.sampled_from(sorted(whole)))) if whole else frozenset()
    part = node_sets.Subset(some, node_sets.InternedNodes(whole))
    assert part == some
    for kind in (frozenset, node_sets.InternedNodes):
        others = kind(other)
        assert node_sets.minus(part, others) == some - other
        assert node_sets.common(part, others) == some & other
        assert node_sets.minus(others, part) == other - some
        assert node_sets.common(others, part) == other & some
    if whole <= other:
        assert node_sets.common(part, node_sets.InternedNodes(other)) is part


@given(whole=NODES, other=NODES, kind=KIND)
def test_nodes_share_the_results_of_all_nodes_if_they_are_some_of_them(
    whole: frozenset[str], other: frozenset[str], kind: type[frozenset[str]]
) -> None:
    everywhere = node_sets.InternedNodes(whole)
    found = node_sets.shared(kind(other), everywhere)
    assert found == other
    assert (found is everywhere) == (other == whole)
    assert (isinstance(found, node_sets.Subset) and found.of is everywhere) == (other < whole)
    assert node_sets.shared(other, frozenset(whole)) == other


@given(whole=NODES, other=NODES)
def test_what_is_left_of_a_part_is_a_part_of_the_same_whole(
    whole: frozenset[str], other: frozenset[str]
) -> None:
    everywhere = node_sets.InternedNodes(whole)
    part = node_sets.Subset(whole - other, everywhere)
    found = node_sets.narrowed(node_sets.minus(part, frozenset("a")), part)
    assert found == whole - other - {"a"}
    assert isinstance(found, node_sets.Subset)
    assert found.of is everywhere
    assert node_sets.narrowed(other, everywhere) is other


def test_the_shared_empty_set_holds_no_results() -> None:
    """It is a constant of the module topology and outlives every snapshot."""
    empty, nodes = topology.EMPTY.everywhere, node_sets.InternedNodes("ab")
    for operation in OPERATIONS:
        assert operation(empty, nodes) == operation(frozenset(), frozenset("ab"))
        assert operation(nodes, empty) == operation(frozenset("ab"), frozenset())
    assert empty._results is None


def test_a_union_of_domains_is_computed_once_and_kept_while_no_node_of_its_label_changes() -> None:
    nodes = {
        name: model.Node(name=name, uid=f"uid-{name}", labels={"zone": zone, "rack": "r"})
        for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "c"))
    }
    before = topology.of(nodes.values())
    held = before["zone"].union(("a", "b"))
    assert sorted(held) == ["n1", "n2"]
    assert before["zone"].union(("a", "b")) is held

    elsewhere = before.moved([(nodes["n3"], model.Node(name="n3", uid="uid-n3", labels={"zone": "c"}))])
    assert elsewhere["zone"].union(("a", "b")) is held

    moved = before.moved(
        [(nodes["n2"], model.Node(name="n2", uid="uid-n2", labels={"zone": "c", "rack": "r"}))]
    )
    assert sorted(moved["zone"].union(("a", "b"))) == ["n1"]
    assert before["zone"].union(("a", "b")) is held
    assert not moved["zone"].union(())
    assert not moved["none"].union(("a", "b"))


def test_what_follows_from_labels_is_held_until_a_label_changes() -> None:
    node = model.Node(name="n1", uid="u", labels={"zone": "a"})
    before = topology.of([node])
    computed: list[str] = []

    def compute() -> tuple[str, ...]:
        computed.append("once")
        return tuple(before["zone"])

    same = before.moved([(node, model.Node(name="n1", uid="u", labels={"zone": "a"}, ready=True))])
    assert [held.derived("zones", compute) for held in (before, same, before)] == [("a",)] * 3
    assert computed == ["once"]
    other = before.moved([(node, model.Node(name="n1", uid="u", labels={"zone": "b"}))])
    assert other.derived("zones", lambda: tuple(other["zone"])) == ("b",)


_NODES = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3", "n4"]),
    st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from(["a", "b"])),
)


@given(before=_NODES, after=_NODES)
def test_nodes_that_change_at_once_leave_the_topology_of_what_they_are(
    before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]
) -> None:
    old, new = (
        {name: model.Node(name=name, uid=name, labels=labels) for name, labels in nodes.items()}
        for nodes in (before, after)
    )
    moved = topology.of(old.values()).moved((old.get(name), new.get(name)) for name in {*old, *new})
    fresh = topology.of(new.values())
    assert moved.everywhere == fresh.everywhere == frozenset(after)
    assert set(moved.columns) == set(fresh.columns)
    for key in fresh.columns:
        assert {value: moved[key][value] for value in moved[key]} == {
            value: fresh[key][value] for value in fresh[key]
        }
