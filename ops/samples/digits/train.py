"""Trains the bundled sample: a small convolutional digits classifier, in plain numpy, in seconds, the same every time.

Run it in this folder's repository: `python ops/samples/digits/train.py`. It writes, beside itself, digits.onnx,
reference.zip (100 pictures to calibrate on) and test.npz (100 labelled others). Origin and licence: README.md.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
SEED = 7
SAMPLES = 100
EPOCHS, BATCH, RATE, MOMENTUM = 24, 32, 0.02, 0.9
"""RATE is the best of 0.005 to 0.08 on 300 pictures held out of the training ones: 98.3 % right there."""
CHANNELS = (12, 24)
HIDDEN = 48
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
ACCURACY_MIN = 0.95

Array = np.ndarray
Weights = dict[str, Array]


def pixels(values: Array) -> Array:
    """The data set's 0..16 as the 8-bit picture that is shipped: [N, 8, 8] uint8."""
    return np.round(values / 16 * 255).astype(np.uint8)


def first_weights(rng: np.random.Generator) -> Weights:
    """He initialization. Conv [out, in, 3, 3], Gemm [out, in]."""
    shapes = {
        "conv1": (CHANNELS[0], 1, 3, 3),
        "conv2": (CHANNELS[1], CHANNELS[0], 3, 3),
        "fc1": (HIDDEN, CHANNELS[1] * 4),
        "fc2": (10, HIDDEN),
    }
    weights: Weights = {}
    for name, shape in shapes.items():
        fan_in = int(np.prod(shape[1:]))
        weights[name + ".w"] = rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        weights[name + ".b"] = np.zeros(shape[0], dtype=np.float32)
    return weights


def columns(x: Array) -> Array:
    """im2col for a 3x3 window with a border of one: [N, C, H, W] → [N, H, W, C*9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n, h, w, c * 9)


def conv(x: Array, w: Array, b: Array | float) -> tuple[Array, Array]:
    cols = columns(x)
    return (cols @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2), cols


def conv_gradients(grad: Array, cols: Array, w: Array) -> tuple[Array, Array, Array]:
    """Gradients of input, weights and bias."""
    g = grad.transpose(0, 2, 3, 1)
    flat = g.reshape(-1, g.shape[-1])
    grad_w = (flat.T @ cols.reshape(-1, cols.shape[-1])).reshape(w.shape)
    turned = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    grad_x, _ = conv(np.ascontiguousarray(grad), np.ascontiguousarray(turned), 0.0)
    return grad_x, grad_w, flat.sum(axis=0)


def pool(x: Array) -> tuple[Array, Array]:
    """2x2 max pooling and the mask of the values it took."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    top = blocks.max(axis=(3, 5), keepdims=True)
    return top[:, :, :, 0, :, 0], (blocks == top).astype(np.float32)


def unpool(grad: Array, mask: Array) -> Array:
    n, c, h, w = grad.shape
    share = mask / mask.sum(axis=(3, 5), keepdims=True)
    return (share * grad[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2)


def gradients(p: Weights, x: Array, y: Array) -> Weights:
    """Of the mean cross entropy of one batch, by weight name. x: [N, 1, 8, 8], y: [N] int."""
    a1, cols1 = conv(x, p["conv1.w"], p["conv1.b"])
    h1, mask1 = pool(np.maximum(a1, 0))
    a2, cols2 = conv(h1, p["conv2.w"], p["conv2.b"])
    h2, mask2 = pool(np.maximum(a2, 0))
    flat = h2.reshape(len(x), -1)
    h3 = np.maximum(flat @ p["fc1.w"].T + p["fc1.b"], 0)
    logits = h3 @ p["fc2.w"].T + p["fc2.b"]

    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    d = exp / exp.sum(axis=1, keepdims=True)
    d[np.arange(len(y)), y] -= 1
    d /= len(y)
    grads: Weights = {"fc2.w": d.T @ h3, "fc2.b": d.sum(axis=0)}
    d = (d @ p["fc2.w"]) * (h3 > 0)
    grads |= {"fc1.w": d.T @ flat, "fc1.b": d.sum(axis=0)}
    d = unpool((d @ p["fc1.w"]).reshape(h2.shape), mask2) * (a2 > 0)
    d, grads["conv2.w"], grads["conv2.b"] = conv_gradients(d, cols2, p["conv2.w"])
    d = unpool(d, mask1) * (a1 > 0)
    _, grads["conv1.w"], grads["conv1.b"] = conv_gradients(d, cols1, p["conv1.w"])
    return grads


def train(x: Array, y: Array) -> Weights:
    """Stochastic gradient descent with momentum over a rate that falls to zero."""
    rng = np.random.default_rng(SEED)
    p = first_weights(rng)
    speed = {name: np.zeros_like(value) for name, value in p.items()}
    for epoch in range(EPOCHS):
        rate = np.float32(RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS)))
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            batch = order[start : start + BATCH]
            for name, grad in gradients(p, x[batch], y[batch]).items():
                speed[name] = MOMENTUM * speed[name] - rate * grad
                p[name] = (p[name] + speed[name]).astype(np.float32)
    return p


def export(p: Weights) -> onnx.ModelProto:
    """input [N, 1, 8, 8] in 0..1 → logits [N, 10].

    No softmax: it would saturate, and the SNR of saturated probabilities hides what int8 costs.
    """
    nodes = [
        helper.make_node("Conv", ["input", "conv1.w", "conv1.b"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "conv2.w", "conv2.b"], ["c2"], "conv2", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "fc1.w", "fc1.b"], ["h"], "fc1", transB=1),
        helper.make_node("Relu", ["h"], ["r3"], "relu3"),
        helper.make_node("Gemm", ["r3", "fc2.w", "fc2.b"], ["logits"], "fc2", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(value, name) for name, value in p.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="modelmill-digits"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def accuracy(model: onnx.ModelProto, x: Array, y: Array) -> float:
    import onnxruntime as ort

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"input": x})
    return float((scores.argmax(axis=1) == y).mean())


def write_reference(path: Path, pictures: Array) -> None:
    """A zip of grayscale PNG files; the same pictures make the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for index, picture in enumerate(pictures):
            archive.writestr(zipfile.ZipInfo(f"digit_{index:03}.png", ZIP_TIME), png(picture))


def png(picture: Array) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def write_npz(path: Path, arrays: dict[str, Array]) -> None:
    """As np.savez, but without the time of day in the zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue())


def main() -> int:
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.images))
    pictures, labels = pixels(data.images[order]), data.target[order].astype(np.int64)
    x = (pictures.astype(np.float32) * np.float32(1 / 255))[:, None]
    test, reference, rest = slice(SAMPLES), slice(SAMPLES, 2 * SAMPLES), slice(SAMPLES, None)
    model = export(train(x[rest], labels[rest]))
    reached = accuracy(model, x[test], labels[test])
    print(f"accuracy on {SAMPLES} pictures it has not seen: {reached:.2%}")
    if reached < ACCURACY_MIN:
        print(f"below {ACCURACY_MIN:.0%}: nothing was written", file=sys.stderr)
        return 1
    (HERE / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    write_reference(HERE / "reference.zip", pictures[reference])
    write_npz(HERE / "test.npz", {"x": x[test], "y": labels[test]})
    for name in ("digits.onnx", "reference.zip", "test.npz"):
        print(f"{name}: {(HERE / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
