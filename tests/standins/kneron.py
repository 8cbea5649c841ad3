"""The Kneron toolchain over the stand-in `ktc`, and small models and pictures for it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from app.conversion.model import Stage
from app.conversion.options import KneronOptions, Options, ToolchainName
from app.conversion.toolchains.base import StageRequest, StageResult
from app.conversion.toolchains.kneron import KneronToolchain

PACKAGE = Path(__file__).with_name("ktc_package")
VERSION_FILE = PACKAGE / "version.txt"
BY_TEXT = {
    "cpu_op": "undefined_cpu_op", "not_on_hardware": "not_on_hardware", "kill": "killed",
    "stored_shapes": "stored_shapes", "ir_version": "ir_version", "opset": "opset", "dtype": "calibration_dtype",
    "external": "external_weights", "lfs": "lfs_pointer", "weight_radix": "weight_radix", "bad_alloc": "out_of_memory",
    "no_python": "python_not_found", "failed_to_compile": "compile_failed", "unsupported": "not_supported",
    "argument": "unexpected_argument",
}
"""Modes of `analysis` that raise at once → class. They differ in what they print and raise, and in nothing else."""


def toolchain(folder: Path, **changes: Any) -> KneronToolchain:
    """folder: where the lock lies and stray outputs are looked for."""
    installation = {
        "python": Path(sys.executable),
        "pythonpath": str(PACKAGE),
        "version_file": VERSION_FILE,
        "search": (folder / "stray",),
        "lock": folder / "kneron.lock",
    }
    return KneronToolchain(**{**installation, **changes})


def options(platform: str = "520", **changes: Any) -> Options:
    """Fields of KneronOptions and of Options, mixed."""
    own = {key: changes.pop(key) for key in list(changes) if key in KneronOptions.model_fields}
    return Options(toolchain=ToolchainName.KNERON, platform=platform, kneron=KneronOptions(**own), **changes)


def model(fail: str = "", *, inputs: tuple[str, ...] = ("input",), shape: tuple[Any, ...] = (1, 3, 8, 8), ir: int = 8,
          opset: int = 13, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Conv, Identity, Softmax over the sum of the inputs. fail: what the stand-in should do, as `call:mode`."""
    weight = numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    head = inputs[0]
    nodes = []
    if len(inputs) > 1:
        nodes.append(helper.make_node("Add", list(inputs[:2]), ["sum"], name="add_0"))
        head = "sum"
    nodes += [
        helper.make_node("Conv", [head, "w"], ["c"], name="conv_0", kernel_shape=[1, 1]),
        helper.make_node("Identity", ["c"], ["i"], name="identity_0"),
        helper.make_node("Softmax", ["i"], ["out"], name="softmax_0", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, dtype, shape) for name in inputs],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [shape[0], 4, *shape[2:]])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    if fail:
        helper.set_model_props(made, {"standin.fail": fail})
    return made


class Job:
    """A work folder with a model and reference samples, walked stage by stage as the pipeline does."""

    def __init__(self, folder: Path, made: onnx.ModelProto, chosen: Options, *, samples: int = 3) -> None:
        self.folder, self.options = folder / "work", chosen
        self.work, self.images = self.folder, self.folder / "ref_images"
        self.images.mkdir(parents=True)
        (self.work / "model.onnx").write_bytes(made.SerializeToString())
        names = [value.name for value in made.graph.input]
        random = np.random.default_rng(7)
        for index in range(samples):
            arrays = {name: random.random((1, 3, 8, 8), np.float32) for name in names}
            np.savez(self.images / f"s{index}.npz", **arrays)
        self.progress: list[tuple[float, str]] = []

    def prime(self) -> Job:
        """As if the ONNX stage had been done: the model is its own out.onnx."""
        (self.work / "out.onnx").write_bytes((self.work / "model.onnx").read_bytes())
        return self

    def request(self, stage: Stage) -> StageRequest:
        return StageRequest(stage=stage, work_dir=self.work, options=self.options, threads=2)

    def run(self, stage: Stage, tool: KneronToolchain) -> StageResult:
        result = tool.run(self.request(stage), lambda fraction, text: self.progress.append((fraction, text)))
        for name, path in result.extra_files.items():
            (self.work / f"out.{name}").write_bytes(path.read_bytes())
        return result

    def until(self, stage: Stage, tool: KneronToolchain) -> StageResult:
        """Run the stages up to this one."""
        for step in Stage:
            result = self.run(step, tool)
            if step is stage:
                return result
        raise AssertionError("no such stage")


def job(folder: Path, fail: str = "", platform: str = "520", samples: int = 3, **changes: Any) -> Job:
    """With the usual model. fail: see `model`. changes: see `options`."""
    return Job(folder, model(fail), options(platform, **changes), samples=samples)


def told(result: StageResult) -> str:
    """Its warnings."""
    return "\n".join(result.report["warnings"])


def log_of(mode: str) -> list[str]:
    """What the process prints that fails so, without a process. For those of BY_TEXT that kill nothing."""
    spec = importlib.util.spec_from_file_location("standin_failures", PACKAGE / "ktc" / "failures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            module.RAISING[mode]()
        except Exception:
            traceback.print_exc(file=printed)
    return printed.getvalue().splitlines()


def kneron_contract(folder: Path) -> tuple[KneronToolchain, Options]:
    """What the contract suite needs: a toolchain that keeps the contract, and options that choose it."""
    return toolchain(folder), options("720")
