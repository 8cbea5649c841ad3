"""The inputs of the vendor's process: a model it can read, and calibration arrays on disk."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from app.conversion.errors import NotFinite, SamplesTooLarge, UnsupportedInput
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import FEW_SAMPLES, GOOD_SAMPLES, StageRequest
from app.conversion.toolchains.samples import SampleSet
from app.conversion.toolchains.samples.spec import static_shape
from app.inference.errors import WrongSampleShape

CALIBRATION_LIMIT = 8 << 30


@dataclass(frozen=True)
class StagedModel:
    path: Path
    notes: list[str]
    shapes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class StagedSamples:
    paths: dict[str, list[str]]
    """By input name, one .npy file (float32, full shape) for each sample."""
    warnings: list[str]
    skipped: list[dict[str, str]]
    """Damaged files, each {name, reason}."""

    @property
    def count(self) -> int:
        return max((len(files) for files in self.paths.values()), default=0)


def fresh_folder(path: Path) -> Path:
    """Creates an empty folder: a leftover of another run must never look like an output of this one."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def stage_model(request: StageRequest, target: Path) -> StagedModel:
    """Writes the input model to `target` with fixed shapes and an IR version that the vendor reads."""
    model = graph.load(request.input())
    notes = graph.fit_versions(model, graph.KNERON) + graph.sort_nodes(model)
    notes += graph.fix_shapes(model, request.options.input_shapes) + _hide_weights(model)
    inputs = graph.graph_inputs(model)
    shapes = read_fixed_shapes(inputs)
    _check_inputs(inputs)
    onnx.save(model, str(target))
    return StagedModel(target, notes, shapes)


def read_fixed_shapes(inputs: Sequence[graph.TensorSpec]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes of each input, by name.

    Raises:
        DynamicShape: A size is not fixed.
    """
    return {spec.name: static_shape(spec) for spec in inputs}


def _hide_weights(model: onnx.ModelProto) -> list[str]:
    """Removes weights that old exporters list as inputs; the vendor would want calibration data for them."""
    hidden = graph.remove_weight_inputs(model)
    if not hidden:
        return []
    model.ir_version = max(model.ir_version, 4)  # before IR 4 every weight had to be an input
    return [f"{hidden} weights were listed as inputs; they are weights only now"]


def _check_inputs(inputs: Sequence[graph.TensorSpec]) -> None:
    for spec in inputs:
        if spec.dtype != "float32":
            raise UnsupportedInput(
                f"input {spec.name!r} is {spec.dtype}; the Kneron toolchain takes float32 inputs only",
                hint="Export the model with float32 inputs.",
            )


def stage_calibration(request: StageRequest, model: onnx.ModelProto, folder: Path) -> StagedSamples:
    """Writes every preprocessed reference sample as float32 .npy files, with one sample in memory at a time.

    Raises:
        SamplesTooLarge: The files would be too large.
        WrongSampleShape: A sample has another shape than the input.
        NotFinite: A sample contains NaN or infinity.
        NoSamples, DamagedSamples, WrongSampleType: See SampleSet.
    """
    inputs = graph.graph_inputs(model)
    samples = SampleSet(
        request.ref_images, inputs, request.options.preprocess, skip_damaged=request.options.allow_damaged_images
    )
    shapes = read_fixed_shapes(inputs)
    _check_room(shapes, len(samples))
    paths: dict[str, list[str]] = {name: [] for name in shapes}
    for number, sample in enumerate(samples):
        for index, name in enumerate(shapes):
            path = folder / f"input{index}_{number:05d}.npy"  # names of inputs may contain anything
            array = np.ascontiguousarray(sample.arrays[name], dtype=np.float32)
            _check_array(array, shapes[name], f"{sample.name} for input {name}")
            np.save(path, array)
            paths[name].append(str(path))
    count = max((len(files) for files in paths.values()), default=0)
    return StagedSamples(paths, _count_warnings(count), list(samples.skipped))


def _check_room(shapes: dict[str, tuple[int, ...]], count: int) -> None:
    size = 4 * count * sum(math.prod(shape) for shape in shapes.values())
    if size > CALIBRATION_LIMIT:
        raise SamplesTooLarge(
            f"{count} reference samples need {size / (1 << 30):.1f} GiB; the Kneron toolchain reads them all at once",
            hint=f"Give at most {max(1, count * CALIBRATION_LIMIT // size)} samples of this size.",
        )


def _check_array(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]], shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise WrongSampleShape(f"{what} has shape {list(array.shape)}, but the model wants {list(shape)}")
    if not np.isfinite(array).all():
        raise NotFinite(f"{what} holds NaN or infinity", hint="Check mean, std and scale, or the .npy file itself.")


def _count_warnings(count: int) -> list[str]:
    if count >= FEW_SAMPLES:
        return []
    return [f"only {count} reference samples: value ranges may be off; {GOOD_SAMPLES} are a good number"]
