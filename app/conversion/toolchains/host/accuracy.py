"""Accuracy of a classifier on labelled samples: float against int8. For the bundled sample's table and for users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.runtimes.sessions import HostModel, open_session, run

Array = npt.NDArray[Any]
Predict = Callable[[Array], Array]
"""Maps one sample, including the batch axis, to the scores of its classes in any shape."""


@dataclass(frozen=True)
class ClassifierAccuracy:
    """Share of correct answers, 0..1, for `samples` labelled samples."""

    fp32: float
    int8: float
    samples: int


def accuracy(predict: Predict, x: Array, y: Array) -> float:
    """Returns the share of samples whose highest score is at their label.

    Args:
        predict: called with x[i:i+1].
        x: the samples, [N, …].
        y: their labels, [N], int.
    """
    if len(x) == 0:
        raise ValueError("accuracy of no samples")
    right = sum(int(np.argmax(predict(x[i : i + 1]))) == int(y[i]) for i in range(len(x)))
    return right / len(x)


def compare_accuracy(onnx_model: Path, nef: Path, labelled: Path) -> ClassifierAccuracy:
    """Returns the accuracy of an ONNX file (fp32) and of its host NEF (int8).

    For both, the first input and the first output count. The ONNX file may have a symbolic batch.

    Args:
        labelled: an npz of x (the inputs, [N, …]) and y (the classes, [N]).
    """
    with np.load(labelled, allow_pickle=False) as data:
        x, y = data["x"].astype(np.float32), data["y"]
    return ClassifierAccuracy(
        fp32=accuracy(_make_onnx_predictor(onnx_model), x, y),
        int8=accuracy(_make_nef_predictor(nef), x, y),
        samples=len(x),
    )


def _make_onnx_predictor(path: Path) -> Predict:
    session = open_session(path, 1)
    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    return lambda x: run(session, {name: x}, [output])[output]


def _make_nef_predictor(path: Path) -> Predict:
    model = HostModel(path, 1)
    name, output = model.inputs[0]["name"], model.outputs[0]["name"]
    return lambda x: model.run({name: x})[output]
