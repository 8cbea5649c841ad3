"""Learning curves in a terminal."""

from __future__ import annotations

from typing import Any

from uniplot import plot_to_string

MOST_DRAWN = 6
HEIGHT = 10
MARGIN = 14
"""Columns beside the curve: its frame and the labels of its axis."""


def curve_text(series: dict[str, Any], *, columns: int, by_time: bool = False, has_color: bool = True) -> str:
    """One curve as lines of text.

    Args:
        series: as the API gives it.
        columns: of the terminal, in characters.
        by_time: over seconds in place of steps; steps where nothing tells the time.
    """
    times = series["times_s"] if by_time else None
    return plot_to_string(
        ys=series["values"],
        xs=times or series["steps"],
        title=f"{series['name']} over {'steps' if times is None else 'seconds'}",
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
