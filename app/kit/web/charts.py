"""Charts as SVG text: pure functions of numbers. The stylesheet sets colors, fonts and both themes, by CSS class.

Each chart has a title and a description for screen readers, and stands beside a table of the same numbers, so it may
omit clutter. This module does not interpret the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 14, 46
SIDE = 400
TICKS_MAX = 24
BAR_WIDTH, BAR_HEIGHT = 100, 10
TICKS_PER_AXIS = 8.0
EMPTY = Markup("")


@dataclass(frozen=True)
class Column:
    """One position on the x axis."""

    label: str
    values: tuple[float | None, ...]
    """One per series, None if there is none."""
    tip: str
    """Shown on hover."""
    kind: str = ""


@dataclass(frozen=True)
class ChartPoint:
    x: float
    y: float
    tip: str
    kind: str = ""


@dataclass(frozen=True)
class ChartWords:
    """The texts of a chart."""

    id: str
    """Unique on its page."""
    title: str
    description: str
    x: str
    y: str


@dataclass(frozen=True)
class Scale:
    """Maps values low..high to pixels start..stop; values outside are drawn at the edge."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / (self.high - self.low) * (self.stop - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        step = _choose_step(self.high - self.low)
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def columns(
    places: Sequence[Column],
    words: ChartWords,
    *,
    rule: float | None = None,
    rule_label: str = "",
    cap: float = math.inf,
) -> Markup:
    """Dots over positions: the first series connected by a line, the others not.

    Args:
        places: the positions, from left to right.
        words: the texts of the chart.
        rule: a horizontal line at this value.
        rule_label: the label of that line.
        cap: values from here on are drawn as arrows at the upper edge, so that they do not flatten the others.
    """
    shown = [v for place in places for v in place.values if v is not None and v < cap]
    y = _make_scale([*shown, 0.0, *([] if rule is None else [rule * 1.5])], HEIGHT - BOTTOM, TOP)
    step = (WIDTH - LEFT - RIGHT) / max(len(places), 1)
    centres = [round(LEFT + (index + 0.5) * step, 1) for index in range(len(places))]
    parts = [*_draw_y_grid(y, WIDTH), *_draw_rule(y, rule, rule_label), *_draw_x_labels(places, centres)]
    parts.append(_draw_trace(places, centres, y))
    for place, centre in zip(places, centres, strict=True):
        parts.append(_draw_marks(place, centre, step, y, cap))
    return _draw_figure(WIDTH, HEIGHT, words, parts)


def scatter(
    points: Sequence[ChartPoint], words: ChartWords, *, rule: float | None = None, cap: float = math.inf
) -> Markup:
    """Points over two equal axes, with the diagonal of equal values.

    Args:
        points: the points to draw.
        words: the texts of the chart.
        rule: a line on both axes.
        cap: as in columns.
    """
    values = [v for point in points for v in (point.x, point.y) if v < cap]
    low_high = _make_scale([*values, 0.0, *([] if rule is None else [rule * 1.5])], 0, 1)
    x = Scale(low_high.low, low_high.high, LEFT, SIDE - RIGHT)
    y = Scale(low_high.low, low_high.high, SIDE - BOTTOM, TOP)
    parts = [*_draw_y_grid(y, SIDE), *_draw_x_grid(x)]
    parts.append(_draw_line("chart-diagonal", x(x.low), y(y.low), x(x.high), y(y.high)))
    if rule is not None:
        parts.append(_draw_line("chart-rule", x.start, y(rule), x.stop, y(rule)))
        parts.append(_draw_line("chart-rule", x(rule), y.start, x(rule), y.stop))
    parts += [_draw_dot(x(p.x), y(p.y), f"series-1 {p.kind}".strip(), p.tip) for p in points]
    return _draw_figure(SIDE, SIDE, words, parts, style="chart chart-square")


def bar(value: float | None, maximum: float, kind: str = "series-1", rule: float | None = None) -> Markup:
    """A bar for a table cell, without text: the number stands beside it.

    Args:
        value: None: an empty bar.
        maximum: the value of the full width.
        kind: CSS class that colors it.
        rule: a value to mark with a line; None, or outside the bar: no line.
    """
    parts = [_make_tag("rect", class_="bar-track", x=0, y=0, width=BAR_WIDTH, height=BAR_HEIGHT, rx=2)]
    if value is not None and maximum > 0:
        width = round(BAR_WIDTH * min(max(value / maximum, 0.0), 1.0), 1)
        parts.append(_make_tag("rect", class_=f"bar {kind}", x=0, y=0, width=max(width, 1), height=BAR_HEIGHT, rx=2))
    if rule is not None and 0 < rule < maximum:
        at = round(BAR_WIDTH * rule / maximum, 1)
        parts += [_draw_line(name, at, 0, at, BAR_HEIGHT) for name in ("bar-rule-edge", "bar-rule")]
    return _make_tag(
        "svg",
        EMPTY.join(parts),
        class_="bar-cell",
        viewBox=f"0 0 {BAR_WIDTH} {BAR_HEIGHT}",
        preserveAspectRatio="none",
        aria_hidden="true",
        focusable="false",
    )


def _make_scale(values: Iterable[float], start: float, stop: float) -> Scale:
    """A scale with whole steps around the values."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    step = _choose_step(max(high - low, 1.0))
    return Scale(math.floor(low / step) * step, max(math.ceil(high / step) * step, step), start, stop)


def _choose_step(length: float) -> float:
    """A tick distance of 1, 2 or 5 times a power of ten, for four to eight ticks."""
    power = 10.0 ** math.floor(math.log10(length / 4))
    return next(power * times for times in (1, 2, 5, 10) if length / (power * times) <= TICKS_PER_AXIS)


def _draw_y_grid(y: Scale, width: int) -> list[Markup]:
    parts = []
    for tick in y.ticks:
        parts.append(_draw_line("chart-grid", LEFT, y(tick), width - RIGHT, y(tick)))
        parts.append(_draw_text("chart-tick", LEFT - 6, y(tick) + 4, f"{tick:g}", "end"))
    return parts


def _draw_x_grid(x: Scale) -> list[Markup]:
    parts = []
    for tick in x.ticks:
        parts.append(_draw_line("chart-grid", x(tick), TOP, x(tick), SIDE - BOTTOM))
        parts.append(_draw_text("chart-tick", x(tick), SIDE - BOTTOM + 17, f"{tick:g}", "middle"))
    return parts


def _draw_rule(y: Scale, rule: float | None, label: str) -> list[Markup]:
    if rule is None:
        return []
    at = y(rule)
    return [
        _draw_line("chart-rule", LEFT, at, WIDTH - RIGHT, at),
        _draw_text("chart-rule-label", WIDTH - RIGHT - 2, at - 4, label, "end"),
    ]


def _draw_x_labels(places: Sequence[Column], centres: Sequence[float]) -> list[Markup]:
    every = max(1, math.ceil(len(places) / TICKS_MAX))
    return [
        _draw_text("chart-tick", centre, HEIGHT - BOTTOM + 17, place.label, "middle")
        for index, (place, centre) in enumerate(zip(places, centres, strict=True))
        if index % every == 0
    ]


def _draw_trace(places: Sequence[Column], centres: Sequence[float], y: Scale) -> Markup:
    """The first series as a line, with gaps where it has no value."""
    path, is_drawing = [], False
    for place, centre in zip(places, centres, strict=True):
        value = place.values[0]
        if value is not None:
            path.append(f"{'L' if is_drawing else 'M'}{centre} {y(value)}")
        is_drawing = value is not None
    return _make_tag("path", class_="chart-trace series-1", d=" ".join(path) or "M0 0", fill="none")


def _draw_marks(place: Column, centre: float, step: float, y: Scale, cap: float) -> Markup:
    hit = _make_tag(
        "rect",
        class_="chart-hit",
        x=round(centre - step / 2, 1),
        y=TOP,
        width=round(step, 1),
        height=HEIGHT - TOP - BOTTOM,
    )
    marks = [
        _mark(centre, y(value), number, place.kind, is_capped=value >= cap)
        for number, value in enumerate(place.values, start=1)
        if value is not None
    ]
    return _make_tag("g", _make_tag("title", escape(place.tip)) + hit + EMPTY.join(marks), class_="chart-place")


def _mark(x: float, y: float, series: int, kind: str, *, is_capped: bool) -> Markup:
    style = f"chart-mark series-{series} {kind}".strip()
    if is_capped:
        return _make_tag("path", class_=style, d=f"M{x} {y - 5} l5 9 h-10 z")
    if series == 1:
        return _make_tag("circle", class_=style, cx=x, cy=y, r=4)
    return _make_tag("path", class_=style, d=f"M{x} {y - 5} l5 5 l-5 5 l-5 -5 z")


def _draw_dot(x: float, y: float, style: str, tip: str) -> Markup:
    return _make_tag("circle", _make_tag("title", escape(tip)), class_=f"chart-mark {style}", cx=x, cy=y, r=4.5)


def _draw_figure(width: int, height: int, words: ChartWords, parts: Sequence[Markup], style: str = "chart") -> Markup:
    head = _make_tag("title", escape(words.title), id=f"{words.id}-title")
    head += _make_tag("desc", escape(words.description), id=f"{words.id}-desc")
    axes = [
        _draw_text("chart-axis", (width + LEFT) / 2, height - 6, words.x, "middle"),
        _make_tag(
            "text",
            escape(words.y),
            class_="chart-axis",
            x=-(height - BOTTOM + TOP) / 2,
            y=12,
            text_anchor="middle",
            transform="rotate(-90)",
        ),
    ]
    return _make_tag(
        "svg",
        head + EMPTY.join([*parts, *axes]),
        class_=style,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{words.id}-title {words.id}-desc",
    )


def _draw_line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return _make_tag("line", class_=style, x1=x1, y1=y1, x2=x2, y2=y2)


def _draw_text(style: str, x: float, y: float, text: str, anchor: str) -> Markup:
    return _make_tag("text", escape(text), class_=style, x=x, y=y, text_anchor=anchor)


def _make_tag(name: str, inner: Markup = EMPTY, **attributes: Any) -> Markup:
    """Attribute names as Python writes them: class_ → class, text_anchor → text-anchor."""
    written = EMPTY.join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inner)  # noqa: S704  # name is ours
