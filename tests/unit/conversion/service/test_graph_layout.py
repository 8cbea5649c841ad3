"""Where the nodes of a graph are drawn."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

from app.conversion.service.graph_layout import NODE_HEIGHT, NODE_WIDTH, Layout, layout

DIAMOND = [[], [0], [0], [1, 2], [3], [0, 4]]
"""With an edge from the first node to the last, past all others."""


def overlaps(drawn: Layout) -> bool:
    return any(abs(a.x - b.x) < NODE_WIDTH and abs(a.y - b.y) < NODE_HEIGHT for a, b in combinations(drawn.nodes, 2))


def test_each_node_is_below_what_it_reads_from_and_none_overlap() -> None:
    drawn = layout(DIAMOND)
    for target, sources in enumerate(DIAMOND):
        assert all(drawn.nodes[source].y + NODE_HEIGHT < drawn.nodes[target].y for source in sources)
    assert not overlaps(drawn)
    assert len(drawn.edges) == 7


def test_everything_lies_inside_the_drawing() -> None:
    drawn = layout([[], *([n] for n in range(20)), *([0] for _ in range(9))])
    assert not overlaps(drawn)
    for node in drawn.nodes:
        assert node.x >= 0 and node.x + NODE_WIDTH <= drawn.width
        assert node.y >= 0 and node.y + NODE_HEIGHT <= drawn.height


def test_a_long_edge_goes_around_the_nodes_on_its_way() -> None:
    drawn = layout(DIAMOND)
    long = next(edge for edge in drawn.edges if (edge.source, edge.target) == (0, 5))
    stops = [tuple(map(float, pair)) for pair in re.findall(r"(?:^M|L| )(-?[\d.]+) (-?[\d.]+)(?=[CL]|$)", long.path)]
    for (x1, y1), (x2, y2) in pairwise(stops):
        if x1 != x2 or y2 - y1 != NODE_HEIGHT:
            continue  # between two ranks
        assert not any(node.y == y1 and node.x < x1 < node.x + NODE_WIDTH for node in drawn.nodes)


def test_a_chain_is_straight() -> None:
    drawn = layout([[], [0], [1], [2]])
    assert len({node.x for node in drawn.nodes}) == 1


def test_a_source_that_comes_later_and_an_empty_graph_do_no_harm() -> None:
    assert layout([[1], []]).edges == ()
    assert layout([]).nodes == ()
