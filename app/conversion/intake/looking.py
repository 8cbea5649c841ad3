"""The sandbox entry points for a look at one upload, before anything is submitted: facts and measures, no verdicts.

What is found depends on the file alone, so one look serves every choice of options afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from app.conversion.errors import DynamicShape
from app.conversion.intake import measures
from app.conversion.intake.archive import extract
from app.conversion.intake.expectation import expectation_of
from app.conversion.intake.measured import Numbers
from app.conversion.intake.model import check_model
from app.conversion.options import Chip, Options, Preprocess, ToolchainName
from app.conversion.toolchains import graph
from app.conversion.toolchains.kneron.operators import probably_missing
from app.conversion.toolchains.samples import KINDS, SampleSet
from app.conversion.toolchains.samples.pictures import DECODER_ERRORS
from app.kit.errors import ModelmillError

THUMBNAILS = 24
THUMBNAIL_SIDE = 96
LOOKED_AT_MOST = 1000
"""Of a larger set as many are measured, evenly spread over it."""
NAMED_AT_MOST = 100

Progress = Callable[[float, str], None]


def look_at_model(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """request: {"model": path, "toolchains": names, "max_bytes"}.

    Returns graph.facts with "size_bytes"; "open_inputs": inputs whose shape must be asked for; "expects": see
    ranges.Expectation; "missing": chip → operators it probably lacks; "problems": toolchain → error as a dict.
    Raises what graph.load raises: a file that no toolchain can use.
    """
    path, offered = Path(request["model"]), [ToolchainName(name) for name in request["toolchains"]]
    progress(0.0, "reading the model")
    model = graph.load(path)
    facts = {**graph.facts(model), "size_bytes": path.stat().st_size}
    is_kneron = ToolchainName.KNERON in offered
    missing = {chip.value: probably_missing(chip, model) for chip in Chip} if is_kneron else {}
    expects = asdict(expectation_of(model))
    open_inputs = _open_inputs(model)
    del model
    progress(0.4, "checking it")
    problems = {name.value: found for name in offered if (found := _problem(path, name, request["max_bytes"]))}
    return {
        "facts": facts,
        "open_inputs": open_inputs,
        "expects": expects,
        "missing": missing,
        "problems": problems,
    }


def _open_inputs(model: onnx.ModelProto) -> list[dict[str, Any]]:
    """The inputs with axes that a submission could not settle by itself."""
    try:
        graph.fix_shapes(model, {})
    except DynamicShape as error:
        return list(error.detail["inputs"])
    return []


def _problem(path: Path, toolchain: ToolchainName, max_bytes: int) -> dict[str, Any] | None:
    """Why this toolchain will not take the model; unknown shapes are a question and no problem."""
    chip = Chip.KL720 if toolchain is ToolchainName.KNERON else None
    try:
        check_model(path, Options(toolchain=toolchain, platform=chip), max_bytes=max_bytes)
    except DynamicShape:
        return None
    except ModelmillError as error:
        return error.to_dict()
    return None


def look_at_images(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """request: {"images": path, "unpack_to", "thumbs": folder, "limits": {"unpacked_bytes", "max_images"}, and when the
    model is known "inputs": [{name, shape, dtype}] with fixed shapes}.

    Returns {"count", "size_bytes", "kinds", "formats", "ignored", "unreadable", "looked_at", "pictures", "arrays",
    "thumbnails": [{"file", "name"}], "problem": an error as a dict or None}. Arrays are measured only with inputs.
    Raises what archive.extract raises.
    """
    images, limits = Path(request["images"]), request["limits"]
    folder = Path(request["unpack_to"])
    progress(0.0, "unpacking")
    unpacked = extract(images, folder, max_files=limits["max_images"], max_bytes=limits["unpacked_bytes"])
    files = sorted(folder / name for name in unpacked.files)
    pictures = [path for path in files if KINDS[path.suffix.lower()] == "image"]
    chosen = _spread(pictures, LOOKED_AT_MOST)
    found, unreadable = measures.measure_pictures(chosen, lambda done: progress(0.1 + 0.6 * done, "looking"))
    kinds = Counter(KINDS[path.suffix.lower()] for path in files)
    counted, arrays, problem = _look_at_arrays(folder, kinds, request.get("inputs"))
    progress(0.8, "making thumbnails")
    return {
        "count": len(pictures) + counted,
        "size_bytes": images.stat().st_size,
        "kinds": dict(kinds),
        "formats": dict(Counter(picture.format for picture in found)),
        "ignored": unpacked.ignored[:NAMED_AT_MOST],
        "unreadable": [asdict(entry) for entry in unreadable],
        "looked_at": len(chosen) + len(arrays),
        "pictures": [asdict(picture) for picture in found],
        "arrays": [asdict(array) for array in arrays],
        "thumbnails": _thumbnails(folder, [picture.name for picture in found], Path(request["thumbs"])),
        "problem": problem,
    }


def _look_at_arrays(
    folder: Path, kinds: Counter[str], inputs: Sequence[dict[str, Any]] | None
) -> tuple[int, list[Numbers], dict[str, Any] | None]:
    """How many samples the arrays hold, the measures of the first, and why they do not fit the model."""
    files = kinds["npy"] + kinds["npz"]
    if not files or inputs is None:
        return files, [], None
    specs = [graph.TensorSpec(entry["name"], tuple(entry["shape"]), entry["dtype"]) for entry in inputs]
    try:
        samples = SampleSet(folder, specs, Preprocess(), skip_damaged=True)
        found = [
            measures.measure_array(sample.name, name, array)
            for sample, _ in zip(_arrays_only(samples), range(LOOKED_AT_MOST), strict=False)
            for name, array in sample.arrays.items()
            if array.size and array.dtype.kind in "fiu"
        ]
        return len(samples) - kinds["image"], found, None
    except ModelmillError as error:
        return files, [], error.to_dict()


def _arrays_only(samples: SampleSet) -> Any:
    return (s for s in samples if not any(s.name.lower().endswith(end) for end in KINDS if KINDS[end] == "image"))


def _thumbnails(folder: Path, names: Sequence[str], into: Path) -> list[dict[str, str]]:
    into.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(_spread(names, THUMBNAILS)):
        target = into / f"{number}.jpg"
        try:
            measures.thumbnail(folder / name, target, THUMBNAIL_SIDE)
        except DECODER_ERRORS:
            continue
        made.append({"file": target.name, "name": name})
    return made


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of them, evenly spread, in order."""
    if len(items) <= count:
        return list(items)
    return [items[int(index)] for index in np.linspace(0, len(items) - 1, count)]
