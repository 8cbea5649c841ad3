"""The sandbox entry points that preview one upload, before anything is submitted: facts and measurements without a
verdict.

The result depends only on the file, so one preview serves every choice of options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import onnx

from app.conversion.errors import DynamicShape
from app.conversion.intake import sample_measurement
from app.conversion.intake.archive import unpack
from app.conversion.intake.entry_points import (
    ModelPreviewRequest,
    ModelPreviewResult,
    OpenInput,
    PicturesPreviewRequest,
    PicturesPreviewResult,
    Thumbnail,
)
from app.conversion.intake.expected_range import expectation_of
from app.conversion.intake.model_checks import check_model
from app.conversion.intake.preprocess_recognition import recognize
from app.conversion.options import Chip, Options, ToolchainName
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.facts import GraphFacts
from app.conversion.toolchains.kneron.operators import probably_missing
from app.conversion.toolchains.samples.pictures import DECODER_ERRORS
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject

THUMBNAILS = 24
THUMBNAIL_SIDE = 96
LOOKED_AT_MOST = 1000
"""Of a larger set, this many samples are measured, spread evenly over it."""
NAMED_AT_MOST = 100


def preview_model(request: ModelPreviewRequest, progress: Progress) -> ModelPreviewResult:
    """Describe a model, and what each toolchain says about it.

    Raises:
        BadInput: What graph.load raises for a file that no toolchain can use.
    """
    path, offered = Path(request["model"]), [ToolchainName(name) for name in request["toolchains"]]
    progress(0.0, "reading the model")
    model = graph.load(path)
    facts: GraphFacts = {**graph.facts(model), "size_bytes": path.stat().st_size}
    is_kneron = ToolchainName.KNERON in offered
    missing = {chip.value: probably_missing(chip, model) for chip in Chip} if is_kneron else {}
    expects = asdict(expectation_of(model))
    open_inputs = _open_inputs(model)
    recognition = recognize(model)
    del model
    progress(0.4, "checking it")
    problems = {name.value: problem for name in offered if (problem := _find_problem(path, name, request["max_bytes"]))}
    return {
        "facts": facts,
        "open_inputs": open_inputs,
        "expects": expects,
        "recognition": recognition.to_json() if recognition else None,
        "missing": missing,
        "problems": problems,
    }


def _open_inputs(model: onnx.ModelProto) -> list[OpenInput]:
    """Returns the inputs with axes that a submission could not settle by itself."""
    try:
        graph.fix_shapes(model, {})
    except DynamicShape as error:
        return [{"name": entry["name"], "shape": entry["shape"]} for entry in error.detail["inputs"]]
    return []


def _find_problem(path: Path, toolchain: ToolchainName, max_bytes: int) -> JsonObject | None:
    """Returns why this toolchain cannot use the model. Unknown shapes are a question to the user, not a problem."""
    chip = Chip.KL720 if toolchain is ToolchainName.KNERON else None
    try:
        check_model(path, Options(toolchain=toolchain, platform=chip), max_bytes=max_bytes)
    except DynamicShape:
        return None
    except ModelmillError as error:
        return error.to_dict()
    return None


def preview_pictures(request: PicturesPreviewRequest, progress: Progress) -> PicturesPreviewResult:
    """Measure reference samples, and make thumbnails of some. Arrays are measured only if the inputs are known.

    Raises:
        BadInput: What archive.extract raises.
    """
    samples, folder = Path(request["images"]), Path(request["unpack_to"])
    progress(0.0, "unpacking")
    unpacked = unpack(request)
    specs = request["inputs"]
    inputs = (
        None
        if specs is None
        else [graph.TensorSpec(entry["name"], tuple(entry["shape"]), entry["dtype"]) for entry in specs]
    )
    measured, problem = sample_measurement.measure_samples(
        folder, unpacked, inputs, LOOKED_AT_MOST, lambda done: progress(0.1 + 0.6 * done, "looking")
    )
    progress(0.8, "making thumbnails")
    pictures = [asdict(picture) for picture in measured.pictures]
    return {
        "count": measured.count,
        "size_bytes": samples.stat().st_size,
        "kinds": measured.kinds,
        "formats": dict(Counter(picture.format for picture in measured.pictures)),
        "ignored": list(measured.ignored)[:NAMED_AT_MOST],
        "unreadable": [asdict(entry) for entry in measured.unreadable],
        "looked_at": len(measured.pictures) + len(measured.unreadable) + len(measured.arrays),
        "pictures": pictures,
        "arrays": [asdict(array) for array in measured.arrays],
        "thumbnails": _make_thumbnails(folder, [picture["name"] for picture in pictures], Path(request["thumbs"])),
        "problem": problem.to_dict() if problem else None,
    }


def _make_thumbnails(folder: Path, names: Sequence[str], into: Path) -> list[Thumbnail]:
    into.mkdir(parents=True, exist_ok=True)
    thumbnails = list[Thumbnail]()
    for number, name in enumerate(sample_measurement.spread(names, THUMBNAILS)):
        target = into / f"{number}.jpg"
        try:
            sample_measurement.thumbnail(folder / name, target, THUMBNAIL_SIDE)
        except DECODER_ERRORS:
            continue
        thumbnails.append({"file": target.name, "name": name})
    return thumbnails
