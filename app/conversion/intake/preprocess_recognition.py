"""Recognizes the preprocessing with which a model was trained, from its family, its metadata and its first layer.

Each preset in the table of families has a probability: the table's value for the family, times its agreement with the
first layer. A sufficiently certain one is the default of a conversion without a preprocessing; otherwise the page asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from app.conversion.intake.first_layer import FirstLayer, first_layer_of
from app.conversion.intake.graph_view import Array
from app.conversion.intake.preprocess_evidence import FAR, NEAR, distance, log_likelihood
from app.conversion.intake.preprocess_reasons import REASONS
from app.conversion.toolchains import graph
from app.conversion.toolchains.graph.signature import signature_of
from app.conversion.toolchains.graph.specs import TensorSpec
from app.inference.model_families import FamilyRule, FamilyTable, GraphSignature, family_table
from app.inference.preprocess_options import Color, Preprocess
from app.inference.preprocessing import AxisOrder
from app.kit.text.json_values import JsonObject

SURE = 0.9
"""From this probability on, a preprocessing is used without asking."""
DOUBT = 0.03
"""Probability, in every family, that a model was prepared in another way than the table says."""
ALONE = 0.85
"""Greatest weight of a first layer's mean, if neither a family nor the deviation supports it."""
NAMED_AT_MOST = 3
SAME = 0.02
"""Presets are equal if their values differ by less than this share of their span."""
PIXEL_RANGES: Mapping[str, Mapping[str, Any]] = {
    "NominalRange_0_255": {"scale": 1.0},
    "Normalized_0_1": {"scale": 1 / 255},
    "Normalized_1_1": {"scale": 1.0, "mean": [127.5], "std": [127.5]},
}
"""ONNX's metadata of pictures (docs/MetadataProps.md): Image.NominalPixelRange."""
PIXEL_FORMATS: Mapping[str, Color] = {"Bgr8": "BGR", "Bgra8": "BGR", "Rgb8": "RGB", "Rgba8": "RGB", "Gray8": "GRAY"}


@dataclass(frozen=True)
class Recognition:
    """What was recognized of a model's preprocessing."""

    preprocess: Preprocess
    """The most likely preprocessing."""
    confidence: float
    """Its probability, 0..1."""
    reason_code: str
    """A key of REASONS."""
    reason_params: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    title: str = ""
    """Name of the family, for readers."""
    task: str = ""
    """Kind of the outputs: boxes, top1, mask, keypoints, cosine, text, values; empty if unknown."""
    layout: str = "NCHW"
    alternatives: tuple[tuple[Preprocess, float], ...] = ()
    """The next likely ones, each with its probability."""

    @property
    def is_sure(self) -> bool:
        return self.confidence >= SURE

    @property
    def is_default(self) -> bool:
        """Returns whether a conversion without a preprocessing uses it."""
        return _is_same(self.preprocess, Preprocess(color=self.preprocess.color), 3) and self.preprocess.color != "BGR"

    @property
    def summary(self) -> str:
        return summary_of(self.preprocess)

    def to_json(self) -> JsonObject:
        """Returns the form for previews, records and `modelmill inspect`."""
        return {
            "family": self.family,
            "title": self.title,
            "task": self.task,
            "layout": self.layout,
            "preprocess": self.preprocess.to_json(),
            "summary": self.summary,
            "confidence": round(self.confidence, 3),
            "is_sure": self.is_sure,
            "reason_code": self.reason_code,
            "reason_params": dict(self.reason_params),
            "reason": REASONS[self.reason_code] % self.reason_params,
            "alternatives": [
                {"preprocess": each.to_json(), "summary": summary_of(each), "confidence": round(share, 3)}
                for each, share in self.alternatives
            ],
        }


def summary_of(preprocess: Preprocess) -> str:
    """Describes it for readers: "BGR, x / 255, letterbox 114", or "BGR, 0 … 255" if pixels keep their values."""
    scale, mean, std = preprocess.scale, preprocess.mean, preprocess.std
    scaled = "x" if scale == 1 else f"x / {1 / scale:.4g}"
    if any(mean):
        scaled = f"{scaled} − {_join_values(mean)}"
    if set(std) != {1.0}:
        scaled = f"({scaled}) / {_join_values(std)}" if " " in scaled else f"{scaled} / {_join_values(std)}"
    fit = f", letterbox {preprocess.pad_value}" if preprocess.resize == "letterbox" else ""
    return f"{preprocess.color}, {'0 … 255' if scaled == 'x' else scaled}{fit}"


def _join_values(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{value:g}' for value in values)}]"


def recognize(model: onnx.ModelProto) -> Recognition | None:
    """Recognizes the preprocessing of a model; None if the model has more than one input or does not take pictures."""
    signature = signature_of(model)
    if signature is None:
        return None
    (spec,) = graph.graph_inputs(model)
    channels, order = signature.channels or 3, signature.order
    family = family_table().family_of(signature)
    stated = _of_metadata(signature, family) or _of_type(spec, family, channels)
    if stated is None:
        layer = first_layer_of(model, spec.name, channels, order)
        stated = _weigh_presets(family_table(), family, layer, channels)
    return _with_family(stated, family, order)


def _with_family(recognition: Recognition, family: FamilyRule | None, order: AxisOrder) -> Recognition:
    known = {"family": family.name, "title": family.title, "task": family.task} if family else {}
    return Recognition(**{**vars(recognition), **known, "layout": order})


def _fit_family(preprocess: Preprocess, family: FamilyRule | None) -> Preprocess:
    """Returns the preprocessing with the family's way of fitting pictures into the input."""
    if family is None:
        return preprocess
    return replace(preprocess, resize=family.resize, pad_value=family.pad_value)


def _of_metadata(signature: GraphSignature, family: FamilyRule | None) -> Recognition | None:
    values = PIXEL_RANGES.get(signature.metadata.get("Image.NominalPixelRange", ""))
    color = PIXEL_FORMATS.get(signature.metadata.get("Image.BitmapPixelFormat", ""))
    if values is None or color is None or (color == "GRAY") != (signature.channels == 1):
        return None
    return Recognition(_fit_family(Preprocess(color=color, **values), family), 0.99, "metadata")


def _of_type(spec: TensorSpec, family: FamilyRule | None, channels: int) -> Recognition | None:
    if spec.dtype != "uint8":
        return None
    color: Color = "GRAY" if channels == 1 else "RGB"
    share = 0.97 if channels == 1 else 0.92
    return Recognition(_fit_family(Preprocess(color=color, scale=1.0), family), share, "bytes")


def _weigh_presets(table: FamilyTable, family: FamilyRule | None, layer: FirstLayer, channels: int) -> Recognition:
    usual = table.usual.get(channels)
    if usual is None:
        return Recognition(Preprocess(), 0.0, "unknown")
    before = _weigh_family(family.prepared if family else {}, usual)
    if layer.factor is not None:
        before = _weigh_inside(table, before, layer, channels)
    log = {
        name: math.log(share) + log_likelihood(layer, table.presets[name], channels) for name, share in before.items()
    }
    shares = _merge(table, _normalize(log), channels)
    ranked = sorted(shares, key=lambda name: -shares[name])
    best = table.presets[ranked[0]]
    confidence = shares[ranked[0]]
    away = distance(layer, best, channels)
    is_far = away > FAR
    if family is None and (layer.kind == "folded" or layer.spread is None or away > NEAR):
        confidence = min(confidence, ALONE)
    code, params = _describe_reason(table, family, layer, ranked[0], is_far=is_far)
    others = tuple((_fit_family(table.presets[name], family), shares[name]) for name in ranked[1 : NAMED_AT_MOST + 1])
    return Recognition(
        _fit_family(best, family), min(confidence, 0.5) if is_far else confidence, code, params, alternatives=others
    )


def _weigh_family(prepared: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, float]:
    """Returns the family's probabilities, and a rest for all other presets."""
    rest = max(1 - sum(prepared.values()), DOUBT)
    total = sum(usual.values())
    names = {*prepared, *usual}
    return {name: prepared.get(name, 0.0) + rest * usual.get(name, 0.0) / total for name in names}


def _weigh_inside(
    table: FamilyTable, before: Mapping[str, float], layer: FirstLayer, channels: int
) -> dict[str, float]:
    """For a graph that normalizes its input itself: returns what has to be fed so that a usual preprocessing
    results."""
    weights = {}
    for name in before:
        preset = table.presets[name]
        inner = _compose(preset, layer, channels)
        close = (
            share * math.exp(-_measure_distance(inner, _map_black_and_white(table.presets[other], channels)))
            for other, share in before.items()
        )
        is_plain = not any(preset.mean) and set(preset.std) == {1.0}
        weights[name] = sum(close) * (1.0 if is_plain else 0.01) + 1e-9
    return weights


def _map_black_and_white(preset: Preprocess, channels: int) -> Array:
    """Returns the values of black and white by channel: 2 × channels numbers."""
    mean = np.broadcast_to(np.array(preset.mean), (channels,))
    std = np.broadcast_to(np.array(preset.std), (channels,))
    return np.stack([-mean / std, (255 * preset.scale - mean) / std])


def _compose(preset: Preprocess, layer: FirstLayer, channels: int) -> Array:
    line: Array = _map_black_and_white(preset, channels) * layer.factor + layer.offset
    return line


def _measure_distance(one: Array, other: Array) -> float:
    """Returns the distance of two lines: 0 if equal; it grows fast beyond a few percent of their span."""
    span = np.abs(other[1] - other[0])
    return float((np.abs(one - other) / (0.05 * span)).mean())


def _normalize(log: Mapping[str, float]) -> dict[str, float]:
    top = max(log.values())
    raised = {name: math.exp(value - top) for name, value in log.items()}
    total = sum(raised.values())
    return {name: value / total for name, value in raised.items()}


def _merge(table: FamilyTable, shares: Mapping[str, float], channels: int) -> dict[str, float]:
    """Merges equal presets, such as (x - 127) / 128 and (x - 127.5) / 127.5, into the likelier one."""
    merged: dict[str, float] = {}
    for name in sorted(shares, key=lambda each: -shares[each]):
        twin = next((other for other in merged if _is_same(table.presets[name], table.presets[other], channels)), name)
        merged[twin] = merged.get(twin, 0.0) + shares[name]
    return merged


def _is_same(one: Preprocess, other: Preprocess, channels: int) -> bool:
    lines = _map_black_and_white(one, channels), _map_black_and_white(other, channels)
    span = np.abs(lines[1][1] - lines[1][0])
    return one.color == other.color and bool((np.abs(lines[0] - lines[1]) <= SAME * span).all())


def _describe_reason(
    table: FamilyTable, family: FamilyRule | None, layer: FirstLayer, best: str, *, is_far: bool
) -> tuple[str, JsonObject]:
    title = {"title": family.title} if family else {}
    usual = max(family.prepared, key=lambda name: family.prepared[name]) if family and family.prepared else ""
    if (
        family
        and usual
        and (is_far or not _is_same(table.presets[usual], table.presets[best], _count_channels(layer, best)))
    ):
        return ("inside", {}) if layer.factor is not None and not is_far else ("contradiction", title)
    if layer.factor is not None:
        return "inside", {}
    if layer.mean is None:
        return ("family", title) if usual else ("unknown", {})
    return ("family_and_layer", title) if usual else ("layer", {"mean": _format_means(layer.mean)})


def _count_channels(layer: FirstLayer, best: str) -> int:
    return len(layer.mean) if layer.mean is not None else 1 if best.startswith("gray") else 3


def _format_means(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
