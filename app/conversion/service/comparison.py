"""Two jobs side by side: what was asked differently, and what came of it. Pure, but for reading the reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion import object_keys
from app.conversion.model import JobRecord, Stage
from app.conversion.options import HostQuantization, KneronOptions, Options, ToolchainName
from app.conversion.service import Conversion
from app.conversion.service.quality import Quality, quality_of
from app.conversion.service.quality.views import LayerQuality, OutputQuality
from app.kit.clock import from_text

SECTIONS = {ToolchainName.HOST: "quantization", ToolchainName.KNERON: "kneron"}
DEFAULTS: dict[str, dict[str, Any]] = {
    "quantization": HostQuantization().model_dump(mode="json"),
    "kneron": KneronOptions().model_dump(mode="json"),
}


@dataclass(frozen=True)
class OptionDifference:
    """An option with its two values; None where the toolchain of that job does not know it."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class StageDurations:
    """Seconds that a stage (or "total") took in each job; None while it has not ended or never ran."""

    step: str
    a: float | None
    b: float | None


@dataclass(frozen=True)
class IntakeFact:
    """A fact found at intake."""

    name: str
    kind: str
    """How to show it: number, bytes, text or sha256."""
    a: Any
    b: Any

    @property
    def differs(self) -> bool:
        return bool(self.a != self.b)


@dataclass(frozen=True)
class OutputPair:
    """The same output of both, or of one only."""

    name: str
    a: OutputQuality | None
    b: OutputQuality | None

    @property
    def change_db(self) -> float | None:
        """How much b gains, in dB; None without two numbers."""
        first = self.a.snr_db.shown if self.a else None
        second = self.b.snr_db.shown if self.b else None
        return None if first is None or second is None else second - first


@dataclass(frozen=True)
class LayerPair:
    a: LayerQuality
    b: LayerQuality

    @property
    def change_db(self) -> float:
        return (self.b.snr_db.shown or 0.0) - (self.a.snr_db.shown or 0.0)


@dataclass(frozen=True)
class JobComparison:
    a: JobRecord
    b: JobRecord
    quality_a: Quality
    quality_b: Quality
    options: tuple[OptionDifference, ...]
    times: tuple[StageDurations, ...]
    outputs: tuple[OutputPair, ...]
    layers: tuple[LayerPair, ...]
    """Layers that both have and measured, the largest change first; empty for different models."""
    facts: tuple[IntakeFact, ...]

    @property
    def is_same_model(self) -> bool:
        return _is_same(self.a, self.b, object_keys.MODEL)

    @property
    def is_same_images(self) -> bool:
        return _is_same(self.a, self.b, object_keys.IMAGES)


def compare(conversion: Conversion, a: JobRecord, b: JobRecord) -> JobComparison:
    """Compare two jobs, which need not have ended.

    Args:
        a: The first job, already checked to be the user's.
        b: The second, likewise.
    """
    first, second = quality_of(conversion, a), quality_of(conversion, b)
    return JobComparison(
        a,
        b,
        first,
        second,
        options=differing_options(a.options, b.options),
        times=_times(a, b),
        outputs=matched_outputs(first, second),
        layers=matched_layers(first, second) if _is_same(a, b, object_keys.MODEL) else (),
        facts=_facts(a, b),
    )


def differing_options(a: Options, b: Options) -> tuple[OptionDifference, ...]:
    """Only what differs, by dotted name. Of options that one toolchain alone knows, only those not at their default."""
    first, second = _flat_options(a), _flat_options(b)
    shared = a.toolchain is b.toolchain
    return tuple(
        OptionDifference(name, first.get(name), second.get(name))
        for name in sorted(first.keys() | second.keys(), key=_option_order)
        if first.get(name) != second.get(name) and (shared or not _is_default(name, first, second))
    )


def matched_outputs(a: Quality, b: Quality) -> tuple[OutputPair, ...]:
    """Outputs after quantization, by name, in the order of the first job."""
    first, second = ({output.name: output for output in quality.boundaries[1].outputs} for quality in (a, b))
    return tuple(OutputPair(name, first.get(name), second.get(name)) for name in {**first, **second})


def matched_layers(a: Quality, b: Quality) -> tuple[LayerPair, ...]:
    others = {layer.name: layer for layer in b.layers}
    pairs = [
        LayerPair(layer, others[layer.name])
        for layer in a.layers
        if layer.name in others and layer.snr_db.shown is not None and others[layer.name].snr_db.shown is not None
    ]
    return tuple(sorted(pairs, key=lambda pair: (-abs(pair.change_db), pair.a.position)))


def _flat_options(options: Options) -> dict[str, Any]:
    unused = {section for toolchain, section in SECTIONS.items() if toolchain is not options.toolchain}
    return dict(_flattened({k: v for k, v in options.model_dump(mode="json").items() if k not in unused}))


def _flattened(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_default(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    section, _, option = name.partition(".")
    if section not in DEFAULTS:
        return False
    return bool(DEFAULTS[section].get(option) == (first if name in first else second)[name])


def _option_order(name: str) -> tuple[bool, bool, str]:
    return name != "toolchain", name != "platform", name


def _times(a: JobRecord, b: JobRecord) -> tuple[StageDurations, ...]:
    stages = [StageDurations(stage.step, _stage_s(a, stage), _stage_s(b, stage)) for stage in Stage]
    return (
        *stages,
        StageDurations("total", _apart_s(a.created_at, a.finished_at), _apart_s(b.created_at, b.finished_at)),
    )


def _stage_s(record: JobRecord, stage: Stage) -> float | None:
    own = record.stages[stage.step]
    return _apart_s(own.started_at, own.finished_at)


def _apart_s(start: str | None, end: str | None) -> float | None:
    return (from_text(end) - from_text(start)).total_seconds() if start and end else None


def _facts(a: JobRecord, b: JobRecord) -> tuple[IntakeFact, ...]:
    def both(name: str, kind: str, *path: str) -> IntakeFact:
        return IntakeFact(name, kind, _at(a.intake, *path), _at(b.intake, *path))

    return (
        IntakeFact("model_sha256", "sha256", _sha256(a, object_keys.MODEL), _sha256(b, object_keys.MODEL)),
        IntakeFact("model_size", "bytes", _size(a, object_keys.MODEL), _size(b, object_keys.MODEL)),
        both("opset", "number", "model", "opset"),
        both("nodes", "number", "model", "nodes"),
        both("parameters", "number", "model", "parameters"),
        both("macs", "number", "model", "macs"),
        IntakeFact("images_sha256", "sha256", _sha256(a, object_keys.IMAGES), _sha256(b, object_keys.IMAGES)),
        both("samples", "number", "samples", "samples"),
        both("producer", "text", "model", "producer"),
    )


def _at(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _is_same(a: JobRecord, b: JobRecord, name: str) -> bool:
    return _sha256(a, name) == _sha256(b, name)


def _sha256(record: JobRecord, name: str) -> str | None:
    return record.artifacts[name].sha256 if name in record.artifacts else None


def _size(record: JobRecord, name: str) -> int | None:
    return record.artifacts[name].size_bytes if name in record.artifacts else None
