"""Models for the rendered clip, built from arithmetic: faces are found by their color, and their pose by the nose. They
have the inputs and outputs of the model families for real faces, and are decoded in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from app.standalone.sample_clip import NOSE, REACH, SKIN

OPSET = 17
CELL = 8
"""Pixels: side of a cell."""
WIDEST = 0.3
"""Of the picture's height: side of the window in which a whole face is looked for."""
SMALLEST = 0.1
"""Of the window: less of the color is no face."""
SIDE = 64
WIDENED = 1.4
"""A face is cut out with so much around it: see the stage face_alignment."""


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def whole(self, values: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def named(self, kind: str, output: str, *inputs: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attributes))

    def like(self, colour: tuple[int, int, int], mean: float, scale: float, width: float) -> str:
        """1 where the input has that colour, less where it is another, 0 from `width` of the range on."""
        target = self.constant(((np.array(colour) - mean) / scale).reshape(1, 3, 1, 1))
        apart = self.add("ReduceMax", self.add("Abs", self.add("Sub", "input", target)), axes=[1], keepdims=1)
        near = self.add("Sub", self.constant(1.0), self.add("Div", apart, self.constant(width * 255 / scale)))
        return self.clipped(self.add("Mul", near, self.constant(2.0)))

    def clipped(self, values: str) -> str:
        """To 0..1."""
        return self.add("Clip", values, self.constant(0.0), self.constant(1.0))

    def window(self, values: str, side: int) -> str:
        """Means of so many cells across and down, around each."""
        return self.add("AveragePool", values, kernel_shape=[side, side], pads=[side // 2] * 4, count_include_pad=1)

    def part(self, values: str, number: int) -> str:
        """One channel."""
        return self.add("Slice", values, self.whole([number]), self.whole([number + 1]), self.whole([1]))

    def rows(self, name: str, columns: list[str]) -> None:
        """1×C×H×W → 1×N×C"""
        joined = self.add("Transpose", self.add("Concat", *columns, axis=1), perm=[0, 2, 3, 1])
        self.named("Reshape", name, joined, self.whole([1, -1, len(columns)]))

    def model(self, shape: list[int], outputs: dict[str, list[int]]) -> bytes:
        input_ = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
        outputs_ = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sides) for name, sides in outputs.items()]
        graph = helper.make_graph(self.nodes, "sample", [input_], outputs_, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def faces(width: int, height: int) -> bytes:
    """As Ultra-Light-Fast-Generic-Face-Detector: scores 1×N×2 and corners 1×N×4 in 0..1 of the picture.

    Around each cell a window is looked at. Where the colour is in it and not at its edge, there is a face: in the
    middle of the colour, and as wide as it is spread."""
    graph, rows, columns = _Graph(), height // CELL, width // CELL
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    moments = graph.constant(np.stack([np.ones_like(x), x, y, x * x, y * y])[None])
    mask = graph.add("AveragePool", graph.like(SKIN, 127, 128, 0.25), kernel_shape=[CELL, CELL], strides=[CELL, CELL])
    inner, outer = _make_odd(WIDEST * rows), _make_odd(WIDEST * rows) + 2
    sums = graph.window(graph.add("Mul", mask, moments), inner)
    share, *means = (graph.part(sums, number) for number in range(5))
    some = graph.add("Add", share, graph.constant(1e-6))
    x_mean, y_mean, xx, yy = (graph.add("Div", mean, some) for mean in means)
    corners: dict[str, list[str]] = {"Sub": [], "Add": []}
    for mean, square in ((x_mean, xx), (y_mean, yy)):
        spread = graph.add("Sub", square, graph.add("Mul", mean, mean))
        half = graph.add("Mul", graph.add("Sqrt", graph.add("Relu", spread)), graph.constant(2.0))  # of an ellipse
        for sign, sides in corners.items():
            sides.append(graph.add(sign, mean, half))
    around = graph.add("Mul", graph.window(mask, outer), graph.constant((outer / inner) ** 2))
    alone = graph.add("Div", share, graph.add("Add", around, graph.constant(1e-6)))
    sharp = graph.clipped(graph.add("Sub", graph.add("Mul", alone, graph.constant(10.0)), graph.constant(9.0)))
    score = graph.add("Mul", sharp, graph.clipped(graph.add("Div", share, graph.constant(SMALLEST))))
    graph.rows("boxes", [*corners["Sub"], *corners["Add"]])
    graph.rows("scores", [graph.add("Sub", graph.constant(1.0), score), score])
    count = rows * columns
    return graph.model([1, 3, height, width], {"scores": [1, count, 2], "boxes": [1, count, 4]})


def head_poses() -> bytes:
    """As FSA-Net: yaw, pitch and roll in degrees, of a face of 64 × 64 with the blue first."""
    graph = _Graph()
    nose = graph.like((NOSE[2], NOSE[1], NOSE[0]), 127.5, 128, 0.35)
    places = (np.arange(SIDE) + 0.5) / SIDE - 0.5
    across = graph.constant(np.broadcast_to(places, (1, 1, SIDE, SIDE)))
    down = graph.constant(np.broadcast_to(places[:, None], (1, 1, SIDE, SIDE)))
    total = graph.add("Add", graph.add("ReduceSum", nose, graph.whole([1, 2, 3]), keepdims=0), graph.constant([1e-6]))
    reach = REACH / 2 / WIDENED
    angles = []
    for axis in (across, down):
        sum_ = graph.add("ReduceSum", graph.add("Mul", nose, axis), graph.whole([1, 2, 3]), keepdims=0)
        sine = graph.add("Div", graph.add("Div", sum_, total), graph.constant([-reach]))
        clipped = graph.add("Clip", sine, graph.constant(-1.0), graph.constant(1.0))
        angles.append(graph.add("Mul", graph.add("Asin", clipped), graph.constant([180 / np.pi])))
    angles.append(graph.add("Mul", angles[0], graph.constant([0.0])))
    joined = graph.add("Concat", *angles, axis=0)
    graph.named("Reshape", "pose", joined, graph.whole([1, 3]))
    return graph.model([1, 3, SIDE, SIDE], {"pose": [1, 3]})


def _make_odd(pixels: float) -> int:
    return int(pixels) // 2 * 2 + 1


MODELS = {
    "sample_faces_640": lambda: faces(640, 480),
    "sample_faces_320": lambda: faces(320, 240),
    "sample_faces_160": lambda: faces(160, 120),
    "sample_poses": head_poses,
}


def write_models(folder: Path) -> None:
    """Writes all MODELS as ONNX into an existing folder."""
    for name, make in MODELS.items():
        (folder / f"{name}.onnx").write_bytes(make())
