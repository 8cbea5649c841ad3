"""Runs an out.nef on this machine and prints its results."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.samples import SampleSet
from app.inference.errors import InvalidModel
from app.inference.preprocess_options import read_preprocess
from app.inference.runtimes.sessions import HostModel
from app.kit.errors import BadInput, NotFound
from app.kit.text.json_values import JsonObject

Array = npt.NDArray[Any]
TOP = 5
CLASSES_MIN, CLASSES_MAX = 3, 100_000
SHOWN_SAMPLES = 5
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class InferenceResult:
    sample: str
    """The sample's name."""
    outputs: dict[str, Array]
    """Output name → array."""


@dataclass(frozen=True)
class _Input:
    name: str
    shape: tuple[int | str | None, ...]
    dtype: str


def open_model(path: Path) -> HostModel:
    """Opens a model of toolchain host.

    Raises:
        NotFound: There is no such file.
        InvalidModel: It is something else; a vendor's NEF is named as such.
    """
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="Check the path.")
    try:
        return HostModel(path)
    except InvalidModel:
        if _is_kneron(path):
            raise InvalidModel(
                f"{path.name} is for a Kneron chip: it needs the vendor's runtime (Kneron PLUS) and the chip itself",
                hint="Convert with the host toolchain to run a model here; `modelmill inspect` reads this file.",
            ) from None
        raise


def run_all(model: HostModel, sample: Path) -> list[InferenceResult]:
    """One result per sample of the file, prepared exactly as the reference pictures were."""
    if not sample.is_file():
        raise NotFound(f"there is no file {sample}", hint="INPUT is a picture, a .npy or a .npz file.")
    inputs = [_Input(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in model.inputs]
    with tempfile.TemporaryDirectory(prefix="modelmill-") as folder:
        shutil.copyfile(sample, Path(folder) / sample.name.lstrip("."))
        samples = SampleSet(Path(folder), inputs, read_preprocess(model.preprocess))
        return [InferenceResult(entry.name, model.run(entry.arrays)) for entry in samples]


def save(results: Sequence[InferenceResult], path: Path) -> None:
    """One array per output; several samples are stacked along a new first axis."""
    try:
        if len(results) == 1:
            np.savez(path, **results[0].outputs)  # type: ignore[arg-type]  # its stub takes the names for its own flag
        else:
            np.savez(path, **{name: np.stack([r.outputs[name] for r in results]) for name in results[0].outputs})  # type: ignore[arg-type]  # NumPy types a flag of its own
    except (OSError, ValueError) as error:
        raise BadInput(f"the outputs cannot be saved to {path}: {error}") from error


def to_json(result: InferenceResult) -> JsonObject:
    return {"sample": result.sample, "outputs": [_describe(name, a) for name, a in result.outputs.items()]}


def lines(results: Sequence[InferenceResult]) -> Iterator[str]:
    for result in results[:SHOWN_SAMPLES]:
        yield result.sample
        for name, array in result.outputs.items():
            facts = _describe(name, array)
            yield f"  {name}: {facts['dtype']} {facts['shape']}  min {facts['min']:.6g}  max {facts['max']:.6g}"
            for entry in facts.get("top", []):
                share = f"  {100 * entry['probability']:5.1f} %" if "probability" in entry else ""
                yield f"    class {entry['class']:>5}  {entry['score']:.6g}{share}"
    if len(results) > SHOWN_SAMPLES:
        yield f"and {len(results) - SHOWN_SAMPLES} more samples (all of them with --json or -o)"


def _describe(name: str, array: Array) -> JsonObject:
    has_values = array.size > 0
    facts: JsonObject = {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": float(array.min()) if has_values else 0.0,
        "max": float(array.max()) if has_values else 0.0,
    }
    top = _rank_classes(array)
    return {**facts, "top": top} if top else facts


def _rank_classes(array: Array) -> list[JsonObject]:
    """The best classes, when the array looks like one score per class."""
    scores = np.squeeze(array)
    if scores.ndim != 1 or array.ndim > 4 or not CLASSES_MIN <= scores.size <= CLASSES_MAX or scores.dtype.kind != "f":
        return []
    probabilities = _to_probabilities(scores.astype(np.float64))
    best = np.argsort(scores)[::-1][:TOP]
    return [{"class": int(i), "score": float(scores[i]), "probability": float(probabilities[i])} for i in best]


def _to_probabilities(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The scores themselves when they are probabilities, else their softmax."""
    if scores.min() >= 0 and abs(scores.sum() - 1) < SUM_TOLERANCE:
        return scores
    raised = np.exp(scores - scores.max())
    shares: npt.NDArray[np.float64] = raised / raised.sum()
    return shares


def _is_kneron(path: Path) -> bool:
    from app.conversion.inspection import inspect_file

    return bool(inspect_file(path)["kind"] == "kneron-nef")
