"""The drawing of a graph: colours, marks and links of its nodes."""

from __future__ import annotations

import pytest

from app.conversion.pages import graph_view
from app.conversion.service.graph_outlines import GraphNode, GraphOutline
from app.conversion.service.quality.views import Boundary, LayerQuality, Quality, Spread

STEP = Boundary("quantise", "a", "b", "measured")


def node(name: str, op: str, out: str, *sources: int, bits: str = "float") -> GraphNode:
    return GraphNode(name, op, (out,), sources, bits)


def quality(**snr_db: float) -> Quality:
    layers = tuple(
        LayerQuality(place, name, "Conv", True, "", Spread(mean=snr), Spread(), None, None)
        for place, (name, snr) in enumerate(snr_db.items(), start=1)
    )
    return Quality("host", (STEP, STEP, STEP), layers=layers, sensitivity={"conv": 12.0})


BEFORE = GraphOutline("out.onnx", (node("conv", "Conv", "c"), node("", "Relu", "r", 0)), 2)
AFTER = GraphOutline("out.bie", (node("conv", "Conv", "r", bits="int8"), node("new", "Cast", "z", 0)), 2)


@pytest.mark.parametrize(
    ("snr_db", "kind", "value"),
    [
        (45.0, "heat-0", "45.0 dB"),
        (20.0, "heat-2", "20.0 dB"),
        (9.9, "heat-4", "9.9 dB"),
        (130.0, "heat-0", "≥ 120 dB"),
    ],
)
def test_a_node_is_coloured_by_the_snr_of_its_layer_and_leads_to_its_row(snr_db: float, kind: str, value: str) -> None:
    first, second = graph_view.draw([BEFORE], quality(conv=snr_db), "snr")[0].nodes
    assert (first.kind, first.value, first.layer) == (kind, value, 1)
    assert (second.kind, second.value, second.layer) == ("unknown", "", None)


def test_a_layer_that_is_named_by_its_output_belongs_to_the_node_that_makes_it() -> None:
    assert graph_view.draw([BEFORE], quality(conv=30.0, r=25.0), "snr")[0].nodes[1].layer == 2


def test_other_colours_are_the_bits_and_the_error_of_the_layer_alone() -> None:
    assert [n.kind for n in graph_view.draw([AFTER], quality(conv=30.0), "bits")[0].nodes] == [
        "bits-int8",
        "bits-float",
    ]
    assert graph_view.draw([AFTER], quality(conv=30.0), "alone")[0].nodes[0].value == "12.0 dB"


def test_side_by_side_shows_what_was_merged_and_added() -> None:
    before, after = graph_view.draw([BEFORE, AFTER], quality(conv=30.0), "snr")
    assert before.difference is None and after.difference is not None
    assert "is-merged" in before.nodes[1].kind and "→ conv" in before.nodes[1].tip
    assert "is-added" in after.nodes[1].kind


def test_only_what_is_known_is_offered_as_a_colour() -> None:
    assert graph_view.colours(quality(conv=30.0)) == ["snr", "alone", "bits"]
    assert graph_view.colours(Quality("host", (STEP, STEP, STEP))) == ["bits"]
