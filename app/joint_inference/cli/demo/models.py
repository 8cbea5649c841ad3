"""Drawn digits, and two classifiers of them, trained here in a second or two: a small one that distinguishes lines from
curves, and one with a hundred times its weights. Only NumPy; the same seed gives the same models on the same
machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

Array = npt.NDArray[np.float32]
BATCH = 64
DECAY = 1e-4
OPSET = 17


@dataclass(frozen=True)
class Recipe:
    """How a model is trained."""

    hidden: tuple[int, ...]
    """Sizes of the layers between input and output."""
    epochs: int
    rate: float
    """Of the first steps; it falls to nothing."""


SMALL = Recipe((), 8, 0.01)
BIG = Recipe((256, 64), 40, 0.002)


@dataclass(frozen=True)
class Layer:
    """One layer of a model."""

    weights: Array
    """[inputs, outputs]."""
    bias: Array


def train(digits: Digits, recipe: Recipe, *, seed: int) -> list[Layer]:
    """By Adam, with the cross entropy of the classes as the loss."""
    random = np.random.default_rng(seed)
    x, targets = _to_inputs(digits), np.eye(CLASSES, dtype=np.float32)[digits.truth]
    layers = _draw_first_layers(random, (x.shape[1], *recipe.hidden, CLASSES))
    adam = _Adam([array for layer in layers for array in (layer.weights, layer.bias)])
    for epoch in range(recipe.epochs):
        order = random.permutation(len(x))
        rate = recipe.rate * (1 - epoch / recipe.epochs)
        for start in range(0, len(x), BATCH):
            some = order[start : start + BATCH]
            adam.step(_compute_gradients(layers, x[some], targets[some]), rate)
    return layers


def to_onnx(layers: Sequence[Layer]) -> bytes:
    """input: [N, 1, SIDE, SIDE] in 0..1, output: probabilities [N, CLASSES]."""
    nodes = [helper.make_node("Flatten", ["input"], ["x0"], "flatten")]
    weights = []
    for number, layer in enumerate(layers):
        names = [f"w{number}", f"b{number}"]
        weights += [
            numpy_helper.from_array(array, name) for array, name in zip((layer.weights, layer.bias), names, strict=True)
        ]
        is_last = number == len(layers) - 1
        nodes.append(helper.make_node("Gemm", [f"x{number}", *names], [f"z{number}"], f"gemm{number}"))
        after = ("Softmax", "probabilities") if is_last else ("Relu", f"x{number + 1}")
        nodes.append(helper.make_node(after[0], [f"z{number}"], [after[1]], f"{after[0].lower()}{number}"))
    taken = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 1, SIDE, SIDE])
    given = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])
    graph = helper.make_graph(nodes, "digits", [taken], [given], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def probabilities(layers: Sequence[Layer], digits: Digits) -> Array:
    """[N, CLASSES]"""
    return _run_forward(layers, _to_inputs(digits))[-1]


def _to_inputs(digits: Digits) -> Array:
    return digits.pictures.reshape(len(digits.pictures), -1).astype(np.float32) / np.float32(255)


def _draw_first_layers(random: np.random.Generator, sizes: Sequence[int]) -> list[Layer]:
    return [
        Layer(random.normal(0, np.sqrt(2 / fan_in), (fan_in, out)).astype(np.float32), np.zeros(out, np.float32))
        for fan_in, out in pairwise(sizes)
    ]


def _run_forward(layers: Sequence[Layer], x: Array) -> list[Array]:
    """What each layer gives, the input first."""
    known = [x]
    for layer in layers[:-1]:
        known.append(np.maximum(known[-1] @ layer.weights + layer.bias, 0))
    last = known[-1] @ layers[-1].weights + layers[-1].bias
    raised = np.exp(last - last.max(axis=1, keepdims=True))
    return [*known, raised / raised.sum(axis=1, keepdims=True)]


def _compute_gradients(layers: Sequence[Layer], x: Array, targets: Array) -> list[Array]:
    known = _run_forward(layers, x)
    error = (known[-1] - targets) / np.float32(len(x))
    gradients: list[Array] = []
    for number in range(len(layers) - 1, -1, -1):
        weights = layers[number].weights
        gradients = [known[number].T @ error + DECAY * weights, error.sum(axis=0), *gradients]
        error = (error @ weights.T) * (known[number] > 0)
    return gradients


class _Adam:
    """Changes the arrays in place."""

    def __init__(self, arrays: list[Array]) -> None:
        self._arrays = arrays
        self._means = [np.zeros_like(array) for array in arrays]
        self._squares = [np.zeros_like(array) for array in arrays]
        self._steps = 0

    def step(self, gradients: list[Array], rate: float) -> None:
        self._steps += 1
        fading = (1 - 0.9**self._steps, 1 - 0.999**self._steps)
        for number, gradient in enumerate(gradients):
            self._means[number] += 0.1 * (gradient - self._means[number])
            self._squares[number] += 0.001 * (gradient * gradient - self._squares[number])
            scale = np.sqrt(self._squares[number] / fading[1]) + 1e-8
            self._arrays[number] -= rate * (self._means[number] / fading[0]) / scale


SIDE = 16
"""Of a picture, in pixels."""
CANVAS = 64
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """Pictures of digits, and which they are."""

    pictures: npt.NDArray[np.uint8]
    """[N, SIDE, SIDE] in gray, 0..255."""
    truth: npt.NDArray[np.int64]
    """[N], 0..9."""


def draw_digits(count: int, *, seed: int) -> Digits:
    random = np.random.default_rng(seed)
    truth = random.integers(0, CLASSES, count)
    pictures = np.stack([_draw(random, str(digit)) for digit in truth])
    return Digits(pictures, truth)


def _draw(random: np.random.Generator, digit: str) -> npt.NDArray[np.uint8]:
    canvas = Image.new("L", (CANVAS, CANVAS), 0)
    x, y = CANVAS / 2 + random.normal(0, 2.2, 2)
    font = ImageFont.load_default(int(random.integers(44, 54)))
    stroke = int(random.integers(0, 3))
    ImageDraw.Draw(canvas).text((x, y), digit, fill=255, font=font, anchor="mm", stroke_width=stroke)
    canvas = canvas.rotate(random.normal(0, 9), resample=Image.Resampling.BILINEAR)
    slant = random.normal(0, 0.1)
    slanted = (1, slant, -slant * CANVAS / 2, 0, 1, 0)
    canvas = canvas.transform(canvas.size, Image.Transform.AFFINE, slanted, resample=Image.Resampling.BILINEAR)
    small = np.asarray(canvas.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    faint = small * random.uniform(0.5, 1.0) + random.uniform(0, 40)
    noisy = faint + random.normal(0, random.uniform(0, 35), small.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)
