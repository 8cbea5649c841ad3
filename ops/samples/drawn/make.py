"""Makes the drawn samples beside itself: two small models and the pictures to calibrate them on. Same files each time.

    python ops/samples/drawn/make.py

shapes.onnx tells circles, squares and triangles apart: edges by fixed filters, the last layer fitted by ridge
regression to drawn pictures. dots.onnx answers with a map that is high where a bright dot is: centre against surround.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

FOLDER = Path(__file__).parent
SIDE = 32
KINDS = ("circle", "square", "triangle")
Array = NDArray[np.float32]


def shape(random: np.random.Generator, kind: str) -> Image.Image:
    """One filled shape of any place, size and colour on a dark ground."""
    picture = Image.new("RGB", (SIDE, SIDE), tuple(int(v) for v in random.integers(0, 60, 3)))
    draw, radius = ImageDraw.Draw(picture), int(random.integers(6, 12))
    x, y = (int(v) for v in random.integers(radius + 1, SIDE - radius - 1, 2))
    colour = tuple(int(v) for v in random.integers(120, 256, 3))
    box = (x - radius, y - radius, x + radius, y + radius)
    if kind == "circle":
        draw.ellipse(box, fill=colour)
    elif kind == "square":
        draw.rectangle(box, fill=colour)
    else:
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=colour)
    return picture


def dots(random: np.random.Generator) -> Image.Image:
    """Bright dots on noise."""
    ground = random.integers(0, 70, (SIDE, SIDE, 3)).astype(np.uint8)
    picture = Image.fromarray(ground)
    for _ in range(int(random.integers(1, 5))):
        x, y = (int(v) for v in random.integers(3, SIDE - 3, 2))
        ImageDraw.Draw(picture).ellipse((x - 2, y - 2, x + 2, y + 2), fill=(250, 250, 240))
    return picture


def pack(name: str, pictures: list[Image.Image]) -> None:
    """As a zip of PNG, without times: the same bytes each time."""
    with zipfile.ZipFile(FOLDER / name, "w") as packed:
        for number, picture in enumerate(pictures):
            written = io.BytesIO()
            picture.save(written, "PNG")
            packed.writestr(zipfile.ZipInfo(f"{number:03}.png"), written.getvalue())


def as_input(pictures: list[Image.Image]) -> Array:
    """[n, 3, 32, 32] in 0..1."""
    return np.stack([np.asarray(p, np.float32).transpose(2, 0, 1) / 255 for p in pictures])


def edge_filters() -> Array:
    """[16, 3, 5, 5]: steps of brightness in sixteen directions."""
    y, x = np.mgrid[-2:3, -2:3].astype(np.float32)
    bell = np.exp(-(x * x + y * y) / 3)
    angles = np.arange(16) * (2 * np.pi / 16)
    filters = [bell * (np.cos(a) * x + np.sin(a) * y) for a in angles]
    return np.stack([np.repeat(f[None] / np.abs(f).sum(), 3, 0) for f in filters]).astype(np.float32)


def surround_filter() -> Array:
    """[1, 3, 9, 9]: the centre against what is around it."""
    y, x = np.mgrid[-4:5, -4:5].astype(np.float32)
    near, far = (np.exp(-(x * x + y * y) / (2 * width**2)) for width in (1.5, 3.0))
    one = near / near.sum() - far / far.sum()
    return np.repeat(one[None, None] * 4, 3, 1).astype(np.float32)


def model(name: str, nodes: list[onnx.NodeProto], weights: dict[str, Array], output: tuple[str, list[int]]) -> bytes:
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
    outputs = [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])]
    kept = [numpy_helper.from_array(value, key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def features(run: Callable[[Array], Array], pictures: Array) -> Array:
    return np.stack([run(picture[None])[0] for picture in pictures])


def fitted_shapes(random: np.random.Generator) -> tuple[bytes, list[Image.Image]]:
    """The classifier, and pictures to calibrate it on that it was fitted to."""
    from onnx.reference import ReferenceEvaluator

    labels = [KINDS[number % 3] for number in range(360)]
    pictures = [shape(random, kind) for kind in labels]
    mix = random.normal(0, 0.25, (32, 16, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "edges"], ["a"], name="edges", pads=[2] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="rise"),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "mix"], ["d"], name="corners", pads=[1] * 4),
        helper.make_node("Relu", ["d"], ["e"], name="corners_rise"),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], name="whole"),
        helper.make_node("Flatten", ["f"], ["g"], name="flat"),
    ]
    weights = {"edges": edge_filters() * 3, "mix": mix}
    session: Any = ReferenceEvaluator(onnx.load_from_string(model("features", nodes, weights, ("g", [1, 32]))))
    seen = features(lambda one: session.run(None, {"image": one})[0], as_input(pictures))
    with_one = np.hstack([seen, np.ones((len(seen), 1), np.float32)])
    targets = np.array([[kind == label for kind in KINDS] for label in labels], np.float32)
    solved = np.linalg.solve(with_one.T @ with_one + 1e-4 * np.eye(33), with_one.T @ targets).astype(np.float32)
    nodes.append(helper.make_node("Gemm", ["g", "w", "bias"], ["scores"], name="classes"))
    weights |= {"w": solved[:32], "bias": solved[32]}
    right = (with_one @ solved).argmax(1) == targets.argmax(1)
    print(f"shapes: {right.mean():.1%} of the {len(right)} pictures it was fitted to")
    return model("shapes", nodes, weights, ("scores", [1, 3])), pictures[:60]


def main() -> None:
    random = np.random.default_rng(7)
    classifier, pictures = fitted_shapes(random)
    (FOLDER / "shapes.onnx").write_bytes(classifier)
    pack("shapes.zip", pictures)
    nodes = [
        helper.make_node("Conv", ["image", "surround"], ["a"], name="surround", pads=[4] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="rise"),
        helper.make_node("MaxPool", ["b"], ["heat"], name="peaks", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4),
    ]
    network = model("dots", nodes, {"surround": surround_filter()}, ("heat", [1, 1, SIDE, SIDE]))
    (FOLDER / "dots.onnx").write_bytes(network)
    pack("dots.zip", [dots(random) for _ in range(60)])


if __name__ == "__main__":
    main()
