"""What a step did to a graph."""

from __future__ import annotations

from app.conversion.service.graph_outlines import GraphNode, GraphOutline, difference


def node(name: str, op: str, *outputs: str, bits: str = "float") -> GraphNode:
    return GraphNode(name, op, outputs, (), bits)


def graph(*nodes: GraphNode) -> GraphOutline:
    return GraphOutline("g", nodes, len(nodes))


BEFORE = graph(
    node("conv", "Conv", "c"),
    node("norm", "BatchNormalization", "n"),
    node("drop", "Dropout", "d"),
    node("", "Relu", "r"),
)


def test_a_node_whose_output_another_makes_now_was_merged_into_it() -> None:
    after = graph(node("conv", "Conv", "n"), node("other name", "Relu", "r"))
    change = difference(BEFORE, after)
    assert change.merged == {1: "conv"}
    assert change.removed == {2} and change.added == frozenset() and change.requantized == frozenset()


def test_a_node_that_was_not_there_is_added_and_one_in_other_bits_is_told() -> None:
    after = graph(*BEFORE.nodes[:3], node("", "Relu", "r", bits="int8"), node("cast", "Cast", "x"))
    change = difference(BEFORE, after)
    assert change.added == {4} and change.requantized == {3}
    assert not change.removed and not change.merged


def test_equal_graphs_have_no_difference() -> None:
    change = difference(BEFORE, BEFORE)
    assert not (change.removed or change.merged or change.added or change.requantized)


def test_a_graph_that_is_too_large_has_no_nodes_but_says_how_many() -> None:
    assert GraphOutline("g", (), 4000).is_too_large and not BEFORE.is_too_large
    assert BEFORE.nodes[3].key == "r"
