"""What rounding the input and the weights of a linear layer to 8 bits costs at its output, predicted from some of its
inputs: errors of single channels are independent, so their energies add up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import bytes_with_outputs
from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.search.statistics import groups_of
from app.inference.runtimes.sessions import open_session, run

ROWS = 256
"""Number of positions of a tensor in a picture, evenly spaced."""
LEVELS, TOP = 255.0, 127.0
TINY = float(np.finfo(np.float32).tiny)


def rows_of(
    model: Any, tensors: Mapping[str, int], pictures: Sequence[SampleArrays], threads: int
) -> Iterator[tuple[str, Array]]:
    """Yields each tensor with values of its channels, [positions, channels], as the model (onnx.ModelProto) computes
    them.

    Args:
        tensors: the axis of the channels, by name.
        pictures: a few are enough.
        threads: of onnxruntime.
    """
    given = {value.name for value in model.graph.input}
    for group in groups_of(model, sorted(tensors)) if tensors else ():
        inner = [name for name in group if name not in given]
        session = open_session(bytes_with_outputs(model, inner), threads) if inner else None
        rows: dict[str, list[Array]] = {name: [] for name in group}
        for picture in pictures:
            values = run(session, picture.arrays, inner) if session is not None else {}
            for name in group:
                rows[name].append(_list_positions(values.get(name, picture.arrays.get(name)), tensors[name]))
        yield from ((name, np.concatenate(arrays)) for name, arrays in rows.items() if arrays)


def _list_positions(array: Any, axis: int) -> Array:
    flat = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    places = np.arange(min(len(flat), ROWS)) * len(flat) // max(1, min(len(flat), ROWS))
    taken: Array = flat[places].astype(np.float32)
    return taken


def noise(rows: Array, weights: Array, *, factors: Array | None = None, copies: Array | None = None) -> float:
    """Returns the energy of the error at the output, as a sum over output channels.

    Args:
        rows: inputs of the layer, [positions, channels].
        weights: [channels, outputs].
        factors: channels are divided by these, and the weights multiplied; None: 1.
        copies: as how many equal parts each channel is represented; None: 1.
    """
    by = np.ones(rows.shape[1], np.float32) if factors is None else factors
    parts = np.ones(rows.shape[1], np.float32) if copies is None else copies
    scaled = rows / (by * parts)
    step = max((max(float(scaled.max()), 0.0) - min(float(scaled.min()), 0.0)) / LEVELS, TINY)
    errors = np.square(np.rint(scaled / step) * step - scaled).mean(axis=0)
    own = weights * by[:, None]
    steps = np.maximum(np.abs(own).max(axis=0) / TOP, TINY)
    rounded = np.square(np.rint(own / steps) * steps - own).sum(axis=1)
    by_input = np.dot(errors * np.square(parts), np.square(own).sum(axis=1))
    return float(by_input + np.dot(np.square(rows / by).mean(axis=0), rounded))
