"""`ops/bench large_model [--pictures N] [--megabytes N]`: memory and CPU of a large model with many pictures.

A residual network with made weights is converted without a search and with the goal `snr>=20`, each stage in its
sandbox as a worker runs it. Memory is the peak of the sandboxed processes with their libraries.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.stages.runner import CHILD
from app.kit.sandbox.runner import Finished, Limits, Sandbox
from app.settings import load_settings
from ops.benchmarks.goal_cost import AIM_OF_LARGE, PLAIN, SEARCH, SIDES
from tests.harness.paths import SHARED_DATA

MB = 1_000_000
MEGABYTES, PICTURES, SIDE = 100, 1000, 64
AIM_TIMES, AIM_PLUS_MB = 4, 500
"""The peak is at most so many times the size of the model, and so many MB."""
SEED = 7
MEMORY_BYTES, TIME_S, PICTURES_MAX = 8 << 30, 3600.0, 100_000
"""The limits of the sandbox."""
WIDTHS = (64, 128, 256, 512)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench large_model")
    parser.add_argument("--pictures", type=int, default=PICTURES, help=f"of reference; default {PICTURES}")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help=f"size of the model; default {MEGABYTES}")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="modelmill-large-model-") as name:
        folder = Path(name)
        model = folder / "large.onnx"
        onnx.save(residual_network(chosen.megabytes * MB), model)
        pictures = folder / "pictures.zip"
        _write_pictures(pictures, chosen.pictures)
        size_mb = model.stat().st_size / MB
        aim_mb = AIM_TIMES * size_mb + AIM_PLUS_MB
        print(f"{size_mb:.0f} MB, {chosen.pictures} pictures of {SIDE} × {SIDE}; aim: at most {aim_mb:.0f} MB")
        print("peaks of the stages in MB")
        cpu_s = {}
        with closing(Sandbox()) as sandbox:
            for side, options in SIDES.items():
                stages = convert(sandbox, folder / side, model, pictures, options)
                peaks = " ".join(f"{step} {done.peak_bytes / MB:6.0f}" for step, done in stages.items())
                cpu_s[side] = sum(done.cpu_s for done in stages.values())
                print(f"{side:6} {peaks}, CPU {cpu_s[side]:6.1f} s", flush=True)
        print(f"CPU of the goal: {cpu_s[SEARCH] / cpu_s[PLAIN]:.2f} times; aim {AIM_OF_LARGE:.0f}")


def convert(
    sandbox: Sandbox, work: Path, model: Path, pictures: Path, quantization: Mapping[str, str]
) -> dict[str, Finished]:
    """Runs all stages, and returns what each took.

    Args:
        work: the folder to make for it.
        pictures: a ZIP file.
    """
    work.mkdir()
    shutil.copy(model, work)
    packed = Path(shutil.copy(pictures, work))
    options = Options.model_validate({"preprocess": {"scale": 1 / 255}, "quantization": dict(quantization)})
    request = {
        "work_dir": str(work),
        "images": str(packed),
        "options": options.model_dump(mode="json"),
        "threads": load_settings().threads,
        "time_s": TIME_S,
        "limits": {"max_images": PICTURES_MAX, "unpacked_bytes": MEMORY_BYTES},
        "kneron_python": "",
    }
    limits = Limits(MEMORY_BYTES, TIME_S, load_settings().threads)
    return {
        stage.step: sandbox.run(CHILD, {**request, "stage": stage.value}, work_dir=work, limits=limits)
        for stage in Stage
    }


def residual_network(size_bytes: int) -> onnx.ModelProto:
    """Returns a classifier of SIDE × SIDE pictures whose weights have about that size."""
    rng = np.random.default_rng(SEED)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def convolve(source: str, inputs: int, outputs: int, stride: int, gain: float) -> str:
        number = len(weights)
        spread = gain * np.sqrt(2 / (9 * inputs))
        kernel = rng.normal(0, spread, (outputs, inputs, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{number}"))
        strides = [stride, stride]
        nodes.append(
            helper.make_node("Conv", [source, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1], strides=strides)
        )
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        return f"r{number}"

    top, width = "x", 3
    for wider in WIDTHS:
        top, width = convolve(top, width, wider, 2, 1.0), wider
    while sum(len(weight.raw_data) for weight in weights) < size_bytes:
        branch = convolve(top, width, width, 1, 0.5)
        nodes.append(helper.make_node("Add", [top, branch], [f"a{len(weights)}"]))
        top = f"a{len(weights)}"
    weights.append(numpy_helper.from_array(rng.normal(0, 0.05, (width, 100)).astype(np.float32), "classes"))
    nodes.append(helper.make_node("GlobalAveragePool", [top], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", "classes"], ["y"]))
    shapes = {"x": [1, 3, SIDE, SIDE], "y": [1, 100]}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(nodes, "large", [infos["x"]], [infos["y"]], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _write_pictures(path: Path, count: int) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number, picture in enumerate(_crops(count)):
            encoded = BytesIO()
            picture.save(encoded, "PNG")
            archive.writestr(f"{number:05}.png", encoded.getvalue())


def _crops(count: int) -> Iterator[Image.Image]:
    """Squares of the shared photographs."""
    chance = random.Random(SEED)
    photographs = [Image.open(path).convert("RGB") for path in sorted(SHARED_DATA.glob("images/*.jpg"))]
    for number in range(count):
        photograph = photographs[number % len(photographs)]
        side = chance.randint(SIDE, min(photograph.size))
        left, top = (chance.randint(0, length - side) for length in photograph.size)
        yield photograph.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))
