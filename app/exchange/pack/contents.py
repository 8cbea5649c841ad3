"""Creates the contents of a pack. Runs in the sandbox, because it opens untrusted pictures and models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.intake.archive import unpack
from app.conversion.options import Options
from app.conversion.sample_kinds import KINDS
from app.conversion.toolchains.samples import InputSpec, SampleSet
from app.exchange.pack import files
from app.exchange.pack.requests import PackRequest
from app.inference.decoders import OutputSpec, family_of
from app.inference.errors import ModelUnusable
from app.inference.picture_codec import decode
from app.inference.prediction import Decoder
from app.inference.preprocessing import Preprocessor, axis_order, input_layout
from app.inference.runtimes import npu_layout
from app.inference.runtimes.sessions import HostModel, numeric_outputs, open_session, run
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject

TESTS = 3
PICTURE_BYTES_MAX = 64 << 20
HOST_SHARE, CHIP_SHARE = 0.02, 0.25
"""How much an output may differ, as a share of its largest value: other CPUs add in another order, and the expected
outputs for a chip are those of the float model."""
LEAST = 1e-4
NEEDED = ("preprocess.py", "preprocess.c", "smoke.py")
Array = npt.NDArray[Any]
RunModel = Any


def build(request: PackRequest, progress: Any) -> JsonObject:
    """Create everything but the NEF and pack.json.

    Returns:
        {"tests": […], "decoder": {…}}, as in pack.json.
    """
    folder, options = Path(request["folder"]), Options.model_validate(request["options"])
    specs, model, share = _open(request, is_host=options.toolchain.value == "host")
    unpack(request)
    prepared = _write_preprocessing(folder, specs, options)
    tests, limits = [], _Limits(_get_level(options, specs[0].dtype), share)
    for number, (arrays, picture) in enumerate(_iterate_samples(Path(request["unpack_to"]), specs, options, prepared)):
        tests.append(_test(folder, number, arrays, picture, model(arrays), limits))
        progress(number / TESTS, "testing")
    for name in NEEDED:
        shutil.copyfile(Path(files.__file__).with_name(name), folder / name)
    (folder / "npu_layout.py").write_text(_strip_import(Path(npu_layout.__file__).read_text("utf-8")), "utf-8")
    outputs = np.load(folder / tests[0]["folder"] / "expected.npz") if tests else {}
    return {"tests": tests, "decoder": _describe_decoder(folder, specs, {name: outputs[name] for name in outputs})}


def _open(request: PackRequest, *, is_host: bool) -> tuple[list[Any], RunModel, float]:
    """Opens the model.

    Returns:
        Its inputs, a function that runs it, and by which share of the largest value its outputs may differ elsewhere.
    """
    if is_host:
        nef = HostModel(Path(request["nef"]))
        return [_Spec(**spec) for spec in nef.inputs], nef.run, HOST_SHARE
    session = open_session(Path(request["onnx"]), 1)
    kinds = {"tensor(float)": "float32", "tensor(uint8)": "uint8", "tensor(int8)": "int8"}
    specs = [_Spec(node.name, list(node.shape), kinds.get(node.type, "float32")) for node in session.get_inputs()]
    return specs, lambda arrays: run(session, arrays, numeric_outputs(session)), CHIP_SHARE


class _Spec:
    """An input, as samples.InputSpec has it."""

    def __init__(self, name: str, shape: list[Any], dtype: str, **_: Any) -> None:
        self.name, self.shape, self.dtype = name, tuple(shape), dtype


def _write_preprocessing(folder: Path, specs: list[InputSpec], options: Options) -> Preprocessor | None:
    """Writes the preprocessing as data and as a C header; returns None for a model that takes no pictures."""
    if len(specs) != 1 or axis_order(_get_sides(specs[0].shape)) is None:
        return None
    layout = input_layout(_get_sides(specs[0].shape), (0, 0))
    preparer = Preprocessor(layout, specs[0].dtype, options.preprocess)
    chosen = options.preprocess
    color = chosen.color if chosen.color != "auto" else ("GRAY" if layout.channels == 1 else "RGB")
    data = {
        "color": color,
        "resize": chosen.resize,
        "pad_value": chosen.pad_value,
        "scale": chosen.scale,
        "mean": list(chosen.mean) * (layout.channels if len(chosen.mean) == 1 else 1),
        "std": list(chosen.std) * (layout.channels if len(chosen.std) == 1 else 1),
        "layout": layout.order,
        "batch": layout.shape[0],
        "channels": layout.channels,
        "width": layout.size[0],
        "height": layout.size[1],
        "dtype": specs[0].dtype,
    }
    (folder / "preprocess.json").write_text(json.dumps(data, indent=2), "utf-8")
    (folder / "preprocess.h").write_text(c_header(data), "utf-8")
    return preparer


def _get_sides(shape: tuple[Any, ...]) -> tuple[int | None, ...]:
    return tuple(side if isinstance(side, int) and side > 0 else None for side in shape)


def _iterate_samples(folder: Path, specs: list[InputSpec], options: Options, preparer: Preprocessor | None) -> Any:
    """Yields (inputs by name, the picture or None), at most TESTS."""
    pictures = [path for path in sorted(folder.rglob("*")) if KINDS.get(path.suffix.lower()) == "image"]
    count = 0
    for path in pictures:
        if preparer is None:
            break
        try:
            picture = decode(path.read_bytes())
        except ModelmillError:
            continue
        rgb = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
        array, _ = preparer.prepare(rgb)
        yield {specs[0].name: array}, rgb
        count += 1
        if count == TESTS:
            return
    if not count:
        samples = SampleSet(folder, specs, options.preprocess)
        for sample, _ in zip(samples, range(TESTS), strict=False):
            yield sample.arrays, None


@dataclass(frozen=True)
class _Limits:
    """How much the results of a device may differ."""

    input: float
    """In values of the input."""
    share: float
    """As a share of an output's largest value."""


def _get_level(options: Options, dtype: str) -> float:
    """Returns the value of one level of 255: versions of Pillow filter rows or columns first, and may differ by one
    level."""
    level = abs(options.preprocess.scale) / min(options.preprocess.std)
    return 1.01 * level + (1.0 if np.dtype(dtype).kind in "iu" else 0.0)


def _test(
    folder: Path,
    number: int,
    arrays: Mapping[str, Array],
    picture: Array | None,
    outputs: Mapping[str, Array],
    limits: _Limits,
) -> JsonObject:
    own = folder / "tests" / str(number)
    own.mkdir(parents=True)
    np.savez(own / "input.npz", **dict[str, Any](arrays))
    np.savez(own / "expected.npz", **dict[str, Any](outputs))
    if picture is not None:
        np.save(own / "picture.npy", picture)
    return {
        "folder": f"tests/{number}",
        "has_picture": picture is not None,
        "input_atol": limits.input,
        "atol": {
            name: max(limits.share * float(np.max(np.abs(values.astype(np.float64)), initial=0.0)), LEAST)
            for name, values in outputs.items()
        },
    }


def _describe_decoder(folder: Path, specs: list[InputSpec], outputs: Mapping[str, Array]) -> JsonObject:
    """Describes how the outputs are read, as far as their shapes show it."""
    ports = [OutputSpec(name, values.shape, values) for name, values in outputs.items()]
    try:
        layout = input_layout(_get_sides(specs[0].shape), (0, 0))
        family = family_of(Decoder.AUTO, ports, layout.size)
    except (ModelUnusable, IndexError):
        return {"family": "", "labels": 0}
    labels = family.usual_labels(ports)
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels), "utf-8")
    return {"family": family.name.value, "labels": len(labels)}


def _strip_import(source: str) -> str:
    """Returns a module without the one import that devices do not have."""
    error = (
        "class ModelUnusable(Exception):\n"
        '    def __init__(self, message: str, hint: str = "") -> None:\n'
        '        super().__init__(f"{message}. {hint}")\n'
    )
    return source.replace("from app.inference.errors import ModelUnusable\n", f"\n{error}")


TYPES = {
    "float32": ("float", 0, 0),
    "float64": ("double", 0, 0),
    "uint8": ("uint8_t", 0, 255),
    "int8": ("int8_t", -128, 127),
    "int16": ("int16_t", -32768, 32767),
    "uint16": ("uint16_t", 0, 65535),
    "int32": ("int32_t", -(2**31), 2**31 - 1),
}
HEADER = """\
#pragma once
#include <stdint.h>
typedef {type} input_t;
enum {{ WIDTH = {width}, HEIGHT = {height}, CHANNELS = {channels}, BATCH = {batch} }};
enum {{ NHWC = {nhwc}, BGR = {bgr}, LETTERBOX = {letterbox}, PAD_VALUE = {pad}, IS_INTEGER = {integer} }};
static const double SCALE = {scale!r}, LOWEST = {lowest}, HIGHEST = {highest};
static const double MEAN[] = {{{mean}}}, STD[] = {{{std}}};
int preprocess(const uint8_t *rgb, int width, int height, input_t *input);
"""


def c_header(data: Mapping[str, Any]) -> str:
    """Returns preprocess.h. A float16 input is written as float; the caller converts it.

    Args:
        data: preprocess.json.
    """
    kind, lowest, highest = TYPES.get(data["dtype"], TYPES["float32"])
    return HEADER.format(
        type=kind,
        width=data["width"],
        height=data["height"],
        channels=data["channels"],
        batch=data["batch"],
        nhwc=int(data["layout"] == "NHWC"),
        bgr=int(data["color"] == "BGR"),
        letterbox=int(data["resize"] == "letterbox"),
        pad=data["pad_value"],
        integer=int(lowest != highest),
        scale=float(data["scale"]),
        lowest=f"{lowest}.0",
        highest=f"{highest}.0",
        mean=", ".join(repr(float(value)) for value in data["mean"]),
        std=", ".join(repr(float(value)) for value in data["std"]),
    )
