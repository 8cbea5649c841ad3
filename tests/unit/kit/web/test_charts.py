from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from app.kit.web import charts
from app.kit.web.charts import ChartPoint, ChartWords, Column, Scale

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ChartWords(id="one", title="A title", description="What it shows", x="layer", y="dB")


def parsed(markup: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def places(*values: float | None) -> list[Column]:
    return [Column(str(n), (value, None), f"tip {n}") for n, value in enumerate(values, start=1)]


def y_of(element: ElementTree.Element) -> float:
    return float(element.attrib["cy"])


def test_a_chart_names_itself_for_screen_readers() -> None:
    svg = parsed(charts.columns(places(30.0, 40.0), WORDS))
    assert svg.attrib["role"] == "img"
    ids = svg.attrib["aria-labelledby"].split()
    assert [svg.find(f"{SVG}title").text, svg.find(f"{SVG}desc").text] == ["A title", "What it shows"]  # type: ignore[union-attr]
    assert {element.attrib.get("id") for element in svg.iter()} >= set(ids)


def test_a_chart_carries_no_colour_and_no_inline_style() -> None:
    drawn = str(charts.columns(places(3.0), WORDS, rule=20.0, rule_label="rule")) + str(charts.bar(1.0, 2.0))
    assert "style=" not in drawn
    assert not re.search(r"(stroke|fill)=\"(?!none)", drawn)


def test_texts_cannot_break_out_of_a_chart() -> None:
    hostile = '<script>alert("x")</script>'
    words = ChartWords(id="a", title=hostile, description=hostile, x=hostile, y=hostile)
    drawn = charts.columns([Column(hostile, (1.0,), hostile, kind='"><b>')], words, rule=1.0, rule_label=hostile)
    drawn += charts.scatter([ChartPoint(1.0, 2.0, hostile)], words)
    assert "<script" not in drawn
    assert "<b>" not in drawn


def test_a_higher_value_is_drawn_higher() -> None:
    dots = list(parsed(charts.columns(places(10.0, 40.0), WORDS)).iter(f"{SVG}circle"))
    assert y_of(dots[1]) < y_of(dots[0])


def test_the_rule_is_a_line_across_the_chart_at_its_value() -> None:
    svg = parsed(charts.columns(places(20.0, 50.0), WORDS, rule=20.0, rule_label="20 dB rule"))
    rule = next(line for line in svg.iter(f"{SVG}line") if line.attrib["class"] == "chart-rule")
    dot = next(svg.iter(f"{SVG}circle"))
    assert rule.attrib["y1"] == rule.attrib["y2"] == dot.attrib["cy"]
    assert "20 dB rule" in [text.text for text in svg.iter(f"{SVG}text")]


def test_the_rule_is_in_the_picture_even_when_every_value_is_below_it() -> None:
    svg = parsed(charts.columns(places(2.0, 5.0), WORDS, rule=20.0))
    rule = next(line for line in svg.iter(f"{SVG}line") if line.attrib["class"] == "chart-rule")
    assert charts.TOP < float(rule.attrib["y1"]) < charts.HEIGHT - charts.BOTTOM


def test_capped_values_do_not_flatten_the_others() -> None:
    svg = parsed(charts.columns(places(10.0, 30.0, 120.0), WORDS, cap=120.0))
    ticks = [float(t.text or 0) for t in svg.iter(f"{SVG}text") if (t.text or "").isdigit()]
    assert max(ticks) < 120
    assert len(list(svg.iter(f"{SVG}circle"))) == 2  # the third is an arrow at the edge


def test_a_missing_value_breaks_the_line() -> None:
    svg = parsed(charts.columns(places(10.0, None, 30.0), WORDS))
    trace = next(path for path in svg.iter(f"{SVG}path") if "chart-trace" in path.attrib["class"])
    assert trace.attrib["d"].count("M") == 2
    assert "L" not in trace.attrib["d"]


def test_many_places_get_few_labels_but_all_their_marks() -> None:
    svg = parsed(charts.columns(places(*[float(n % 50) for n in range(300)]), WORDS))
    below = [t for t in svg.iter(f"{SVG}text") if float(t.attrib["y"]) > charts.HEIGHT - charts.BOTTOM + 10]
    assert len(below) <= charts.TICKS_MAX + 1  # and the name of the axis
    assert len(list(svg.iter(f"{SVG}circle"))) == 300


@pytest.mark.parametrize("values", [[], [None], [0.0], [120.0], [-30.0, 5.0], [1e-9, 2e-9]])
def test_any_values_can_be_drawn(values: list[float | None]) -> None:
    parsed(charts.columns(places(*values), WORDS, rule=20.0, cap=120.0))
    points = [ChartPoint(value, value, "tip") for value in values if value is not None]
    parsed(charts.scatter(points, WORDS, rule=20.0, cap=120.0))


def test_points_of_equal_values_lie_on_the_diagonal() -> None:
    svg = parsed(charts.scatter([ChartPoint(30.0, 30.0, "tip"), ChartPoint(10.0, 50.0, "tip")], WORDS))
    line = next(one for one in svg.iter(f"{SVG}line") if one.attrib["class"] == "chart-diagonal")
    x1, y1, x2, y2 = (float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2"))
    dot = next(svg.iter(f"{SVG}circle"))
    share = (float(dot.attrib["cx"]) - x1) / (x2 - x1)
    assert y_of(dot) == pytest.approx(y1 + share * (y2 - y1), abs=0.2)


def test_a_bar_is_as_long_as_its_share() -> None:
    track, bar = parsed(charts.bar(25.0, 100.0)).iter(f"{SVG}rect")
    assert float(bar.attrib["width"]) == 25.0 == float(track.attrib["width"]) / 4


@pytest.mark.parametrize(("value", "width"), [(-5.0, 1.0), (0.0, 1.0), (500.0, 100.0)])
def test_a_bar_never_leaves_its_track(value: float, width: float) -> None:
    bar = list(parsed(charts.bar(value, 100.0)).iter(f"{SVG}rect"))[-1]
    assert float(bar.attrib["width"]) == width


def test_a_bar_without_a_value_is_an_empty_track() -> None:
    assert [r.attrib["class"] for r in parsed(charts.bar(None, 100.0)).iter(f"{SVG}rect")] == ["bar-track"]


@pytest.mark.parametrize("span", [(0, 1), (0, 60), (-20, 120), (0, 7e6)])
def test_an_axis_has_a_readable_number_of_ticks(span: tuple[float, float]) -> None:
    ticks = Scale(*span, 0, 100).ticks
    assert 3 <= len(ticks) <= 10
    assert ticks == sorted(ticks)
