"""Small models whose answers are known, cards for them, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from app.inference.model_card import Format, ModelCard
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from tests.harness.models.host import model_of

SIDE = 16
RED, GREEN, BLUE = range(3)


def brightest_channel(batch: Any = 1, side: Any = SIDE) -> onnx.ModelProto:
    """[batch, 3, side, side] → logits [batch, 3]: ten times the mean of each channel."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w"], ["y"], "times_ten"),
    ]
    weights = {"w": np.eye(3, dtype=np.float32) * 10}
    return model_of(nodes, {"x": [batch, 3, side, side]}, {"y": [batch, 3]}, weights)


def answering(outputs: dict[str, np.ndarray], shape: tuple[int, ...] = (1, 3, SIDE, SIDE)) -> onnx.ModelProto:
    """A model that answers the same to every picture."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["mean"], "mean", keepdims=0), *_noughts()]
    for name in outputs:
        nodes.append(helper.make_node("Add", [f"{name}_value", "nought"], [name], f"give_{name}"))
    weights = {f"{name}_value": array.astype(np.float32) for name, array in outputs.items()}
    weights["zero"] = np.zeros((), np.float32)
    shapes = {name: list(array.shape) for name, array in outputs.items()}
    return model_of(nodes, {"x": list(shape)}, shapes, weights)


def two_classes() -> onnx.ModelProto:
    """A detector that sees a person, a car less surely, and another person hardly; a box for each cell of 32×32."""
    rows = np.zeros((1, 6, 21), np.float32)
    for place, (x, person, car) in enumerate([(8, 0.9, 0.0), (16, 0.0, 0.7), (24, 0.3, 0.0)]):
        rows[0, :, place] = [x, 8, 6, 6, person, car]
    return answering({"output0": rows}, (1, 3, 32, 32))


def _noughts() -> list[onnx.NodeProto]:
    return [helper.make_node("Mul", ["mean", "zero"], ["nought"], "nought")]


def takes_bytes() -> onnx.ModelProto:
    """uint8 [1, 16, 16, 3] → the mean of each channel, [1, 3]."""
    nodes = [
        helper.make_node("Cast", ["x"], ["floats"], "cast", to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["y"], "mean", axes=[1, 2], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, SIDE, SIDE, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def save(folder: Path, model: onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def card(format_: Format = Format.ONNX, **fields: Any) -> ModelCard:
    return ModelCard("a model", format_, "0" * 64, 1, **fields)


def opened(folder: Path, model: onnx.ModelProto, card_: ModelCard | None = None, **options: Any) -> Predictor:
    return open_predictor(card_ or card(), save(folder, model), None, PredictorOptions(**options))


def plain(red: int, green: int, blue: int, width: int = 40, height: int = 30) -> np.ndarray:
    """A picture of one colour."""
    return np.full((height, width, 3), (red, green, blue), np.uint8)
