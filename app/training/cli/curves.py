"""Learning curves in a terminal."""

from __future__ import annotations

from typing import Any

from uniplot import plot_to_string

MOST_DRAWN = 6
HEIGHT = 10
MARGIN = 14
"""Columns beside the curve: its frame and the labels of its axis."""


def curve_text(drawn: dict[str, Any], *, columns: int, by_time: bool = False, has_color: bool = True) -> str:
    """The curves of one figure as lines of text, with a legend if there are several.

    Args:
        drawn: by task, each as the API gives it.
        columns: of the terminal, in characters.
        by_time: over seconds in place of steps; steps where one of them does not tell the time.
    """
    series = list(drawn.values())
    is_timed = by_time and all(one["times_s"] for one in series)
    return plot_to_string(
        ys=[one["values"] for one in series],
        xs=[one["times_s"] if is_timed else one["steps"] for one in series],
        title=f"{series[0]['name']} over {'seconds' if is_timed else 'steps'}",
        legend_labels=list(drawn) if len(drawn) > 1 else None,
        lines=True,
        width=max(20, columns - MARGIN),
        height=HEIGHT,
        color=has_color,
    )


def summary_line(series: dict[str, Any]) -> str:
    """The last value of a curve, and its best."""
    last = f"{series['name']}: {series['values'][-1]:.4g} at step {series['steps'][-1]:g}"
    best = series["best"]
    return last if best is None else f"{last}, best {best['value']:.4g} at step {best['step']:g}"
