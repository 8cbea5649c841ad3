"""Masks of objects as polygons: from a map of values, and how far two of them overlap. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from contourpy import LineType, contour_generator
from PIL import Image, ImageDraw

from app.inference.polygons import Polygon

MOST_POINTS = 64
"""Of a polygon."""
MOST_POLYGONS = 4
"""Of a mask: the largest parts."""
MOST_SAMPLES = 96
"""On each side of a box; two for each pixel of the maps, if these are not more."""
RASTER = 192
"""Longer side of the picture on which masks are compared, in pixels."""
Points: TypeAlias = npt.NDArray[np.float64]
"""x and y: N×2."""


def mask_of(
    weights: npt.NDArray[Any], prototypes: npt.NDArray[Any], corners: npt.NDArray[Any], size: tuple[int, int]
) -> list[Points]:
    """Returns the parts of a box where the weighted sum of maps, interpolated between their pixels, is above 0.

    Args:
        weights: of the box: P values.
        prototypes: P maps over the whole input, P×H×W.
        corners: of the box, x1, y1, x2, y2 in pixels of the input.
        size: width and height of the input.

    Returns:
        At most MOST_POLYGONS polygons of at most MOST_POINTS points in pixels of the input, the largest first.
    """
    shape = prototypes.shape[2], prototypes.shape[1]
    grid, places = [], []
    for low, high, side, cells in zip(*np.clip(corners.reshape(2, 2), 0, size), size, shape, strict=True):
        count = int(np.clip(np.ceil(2 * (high - low) * cells / side) + 1, 2, MOST_SAMPLES))
        grid.append(np.linspace(low, high, count))
        places.append(np.clip(grid[-1] * cells / side - 0.5, 0, cells - 1))
    (left, right), (upper, lower) = ((int(place[0]), int(np.ceil(place[-1])) + 1) for place in places)
    values = np.tensordot(weights, prototypes[:, upper:lower, left:right], 1)
    sampled = _interpolate_rows(_interpolate_rows(values, places[1] - upper).T, places[0] - left).T
    if not np.isfinite(sampled).all():
        return []
    step = min(float(axis[1] - axis[0]) for axis in grid)
    parts = [simplify_polygon(part, step / 4) for part in outlines(sampled, *grid)[:MOST_POLYGONS]]
    return [part for part in parts if len(part) > 2]


def _interpolate_rows(rows: npt.NDArray[Any], places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns rows at fractional places, interpolated between their neighbors."""
    first = places.astype(np.intp)
    share = (places - first)[:, None]
    between: npt.NDArray[Any] = rows[first] * (1 - share) + rows[np.minimum(first + 1, len(rows) - 1)] * share
    return between


def outlines(values: npt.NDArray[Any], xs: npt.NDArray[Any], ys: npt.NDArray[Any]) -> list[Points]:
    """Returns the outlines of the parts where values are above 0, the largest first, without holes in them.

    Args:
        values: at the crossings of a grid: R×C. Beyond it is outside.
        xs: x of the columns: C.
        ys: y of the rows: R.
    """
    padded = np.pad(values.astype(np.float64), 1, constant_values=-1)
    xs, ys = np.pad(xs, 1, mode="edge"), np.pad(ys, 1, mode="edge")
    lines = contour_generator(xs, ys, padded, line_type=LineType.Separate).lines(0)
    loops = sorted(((signed_area(loop), loop[:-1]) for loop in map(np.asarray, lines)), key=lambda loop: -loop[0])
    return [loop for area, loop in loops if area > 0]


def signed_area(points: Points) -> float:
    """Returns the area; negative for the outline of a hole."""
    x, y = points.T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def simplify_polygon(points: Points, tolerance: float) -> Points:
    """Returns a polygon of at most MOST_POINTS by Douglas and Peucker.

    Args:
        tolerance: how far it may be from the given one; doubled until the points are few enough.
    """
    far = int(np.argmax(((points - points[0]) ** 2).sum(axis=1)))
    closed = np.concatenate([points, points[:1]])
    while True:
        kept = {0, far}
        spans = [(0, far), (far, len(points))]
        while spans:
            start, end = spans.pop()
            between = closed[start + 1 : end]
            if not len(between):
                continue
            distances = _compute_distances(between, closed[start], closed[end])
            most = int(distances.argmax())
            if distances[most] > tolerance:
                middle = start + 1 + most
                kept.add(middle)
                spans += [(start, middle), (middle, end)]
        if len(kept) <= MOST_POINTS:
            return points[sorted(kept)]
        tolerance *= 2


def _compute_distances(points: Points, start: Points, end: Points) -> npt.NDArray[np.float64]:
    """Returns the distances of points from the line between two others."""
    line = end - start
    length = float(np.hypot(*line))
    if length == 0:
        distances: npt.NDArray[np.float64] = np.hypot(*(points - start).T)
        return distances
    across: npt.NDArray[np.float64] = np.abs((points - start) @ np.array([-line[1], line[0]])) / length
    return across


def pixels_inside(outline: Points, xs: npt.NDArray[Any], ys: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns which crossings of a regular grid lie within an outline: R×C.

    Args:
        xs: x of the columns: C, at least 2.
        ys: y of the rows: R, at least 2.
    """
    steps = xs[1] - xs[0], ys[1] - ys[0]
    image = Image.new("1", (len(xs), len(ys)))
    places = (outline - (xs[0], ys[0])) / steps
    ImageDraw.Draw(image).polygon([(x, y) for x, y in places.tolist()], fill=1)
    return np.asarray(image)


def mask_overlap(one: Sequence[Polygon], other: Sequence[Polygon]) -> float:
    """Returns the intersection over union of two masks in the same pixels, 0..1, on a raster of RASTER pixels."""
    points = np.array([point for polygon in (*one, *other) for point in polygon])
    low = points.min(axis=0)
    scale = RASTER / max(float((points.max(axis=0) - low).max()), 1e-6)
    width, height = (int(side) + 1 for side in np.ceil((points.max(axis=0) - low) * scale))
    first, second = (_draw_raster(mask, low, scale, (width, height)) for mask in (one, other))
    return float((first & second).sum() / max(1, (first | second).sum()))


def _draw_raster(
    mask: Sequence[Polygon], low: npt.NDArray[Any], scale: float, size: tuple[int, int]
) -> npt.NDArray[np.bool_]:
    image = Image.new("1", size)
    pen = ImageDraw.Draw(image)
    for polygon in mask:
        pen.polygon([((x - low[0]) * scale, (y - low[1]) * scale) for x, y in polygon], fill=1)
    return np.asarray(image)
