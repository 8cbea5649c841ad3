"""Compares jobs: their options and results. Pure, except for reading the reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.conversion import object_keys
from app.conversion.model import JobRecord, Stage
from app.conversion.options import HostQuantization, KneronOptions, Options, ToolchainName
from app.conversion.service import Conversion
from app.conversion.service.quality import Quality, quality_of
from app.conversion.service.quality.views import LayerQuality, OutputQuality
from app.kit.clock import from_text
from app.kit.text.json_values import JsonObject

SECTIONS = {ToolchainName.HOST: "quantization", ToolchainName.KNERON: "kneron"}
DEFAULTS: dict[str, JsonObject] = {
    "quantization": HostQuantization().model_dump(mode="json"),
    "kneron": KneronOptions().model_dump(mode="json"),
}


@dataclass(frozen=True)
class OptionDifference:
    """An option of two jobs with its two values; None if the job's toolchain does not have it."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class ComparedValues:
    """One fact or number of all jobs, in their order; None if a job has none."""

    name: str
    kind: str
    """How to show it: number, bytes, seconds, text, sha256 or option."""
    values: tuple[Any, ...]

    @property
    def differs(self) -> bool:
        return any(value != self.values[0] for value in self.values)


@dataclass(frozen=True)
class ComparedOutput:
    """The same output of all jobs; None if a job has no output of this name."""

    name: str
    outputs: tuple[OutputQuality | None, ...]

    @property
    def worst_db(self) -> float | None:
        return min((snr for snr in self.snr_db if snr is not None), default=None)

    @property
    def snr_db(self) -> tuple[float | None, ...]:
        return tuple(output.snr_db.shown if output else None for output in self.outputs)


@dataclass(frozen=True)
class LayerPair:
    a: LayerQuality
    b: LayerQuality

    @property
    def change_db(self) -> float:
        return (self.b.snr_db.shown or 0.0) - (self.a.snr_db.shown or 0.0)


@dataclass(frozen=True)
class JobsComparison:
    """Parts that concern a single model (options, outputs, layers) are empty for different models."""

    jobs: tuple[JobRecord, ...]
    qualities: tuple[Quality, ...]
    options: tuple[ComparedValues, ...]
    """Those that differ between the jobs."""
    times: tuple[ComparedValues, ...]
    outputs: tuple[ComparedOutput, ...]
    """The worst first."""
    layers: tuple[LayerPair, ...]
    """Between the first and the last job: those that both measured, the largest change first."""
    facts: tuple[ComparedValues, ...]

    @property
    def is_same_model(self) -> bool:
        return _is_same(self.jobs, object_keys.MODEL)

    @property
    def is_same_pictures(self) -> bool:
        return _is_same(self.jobs, object_keys.IMAGES)


def compare(conversion: Conversion, jobs: Sequence[JobRecord]) -> JobsComparison:
    """Compares jobs, which may still be running.

    Args:
        jobs: Two or more, already checked to be the user's.
    """
    return comparison_of(jobs, [quality_of(conversion, job) for job in jobs])


def comparison_of(jobs: Sequence[JobRecord], qualities: Sequence[Quality]) -> JobsComparison:
    """Pure.

    Args:
        qualities: of the jobs, in their order.
    """
    is_same = _is_same(jobs, object_keys.MODEL)
    return JobsComparison(
        tuple(jobs),
        tuple(qualities),
        options=option_rows([job.options for job in jobs]) if is_same else (),
        times=_collect_times(jobs),
        outputs=output_rows(qualities) if is_same else (),
        layers=match_layers(qualities[0], qualities[-1]) if is_same else (),
        facts=_collect_facts(jobs),
    )


def option_rows(options: Sequence[Options]) -> tuple[ComparedValues, ...]:
    """Options that differ between the jobs, by dotted name. See differing_options."""
    names = {
        difference.name: None for one in options for other in options for difference in differing_options(one, other)
    }
    flat = [_flatten_options(one) for one in options]
    return tuple(
        ComparedValues(name, "option", tuple(one.get(name) for one in flat)) for name in sorted(names, key=_rank_option)
    )


def output_rows(qualities: Sequence[Quality]) -> tuple[ComparedOutput, ...]:
    """Outputs after quantization, by name, the worst first; those without a number last."""
    by_name = [{output.name: output for output in quality.boundaries[1].outputs} for quality in qualities]
    names = dict.fromkeys(name for outputs in by_name for name in outputs)
    rows = [ComparedOutput(name, tuple(outputs.get(name) for outputs in by_name)) for name in names]
    return tuple(sorted(rows, key=lambda row: (row.worst_db is None, row.worst_db or 0.0)))


def differing_options(a: Options, b: Options) -> tuple[OptionDifference, ...]:
    """Only differences, by dotted name. Options that only one toolchain has are included if they are not at their
    default."""
    first, second = _flatten_options(a), _flatten_options(b)
    shared = a.toolchain is b.toolchain
    return tuple(
        OptionDifference(name, first.get(name), second.get(name))
        for name in sorted(first.keys() | second.keys(), key=_rank_option)
        if first.get(name) != second.get(name) and (shared or not _is_default(name, first, second))
    )


def match_layers(a: Quality, b: Quality) -> tuple[LayerPair, ...]:
    others = {layer.name: layer for layer in b.layers}
    pairs = [
        LayerPair(layer, others[layer.name])
        for layer in a.layers
        if layer.name in others and layer.snr_db.shown is not None and others[layer.name].snr_db.shown is not None
    ]
    return tuple(sorted(pairs, key=lambda pair: (-abs(pair.change_db), pair.a.position)))


def _flatten_options(options: Options) -> JsonObject:
    unused = {section for toolchain, section in SECTIONS.items() if toolchain is not options.toolchain}
    return dict(_flatten({k: v for k, v in options.model_dump(mode="json").items() if k not in unused}))


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_default(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    section, _, option = name.partition(".")
    if section not in DEFAULTS:
        return False
    return bool(DEFAULTS[section].get(option) == (first if name in first else second)[name])


def _rank_option(name: str) -> tuple[bool, bool, str]:
    return name != "toolchain", name != "platform", name


def _collect_times(jobs: Sequence[JobRecord]) -> tuple[ComparedValues, ...]:
    """Seconds that each stage took, and the total; None if it has not ended or never ran."""
    stages = [
        ComparedValues(stage.step, "seconds", tuple(_measure_stage_s(job, stage) for job in jobs)) for stage in Stage
    ]
    total = tuple(_measure_seconds(job.created_at, job.finished_at) for job in jobs)
    return (*stages, ComparedValues("total", "seconds", total))


def _measure_stage_s(record: JobRecord, stage: Stage) -> float | None:
    own = record.stages[stage.step]
    return _measure_seconds(own.started_at, own.finished_at)


def _measure_seconds(start: str | None, end: str | None) -> float | None:
    return (from_text(end) - from_text(start)).total_seconds() if start and end else None


def _collect_facts(jobs: Sequence[JobRecord]) -> tuple[ComparedValues, ...]:
    """The findings at intake."""

    def row(name: str, kind: str, value: Callable[[JobRecord], Any]) -> ComparedValues:
        return ComparedValues(name, kind, tuple(value(job) for job in jobs))

    def fact(name: str, kind: str, part: str) -> ComparedValues:
        return row(name, kind, lambda job: _parse_time(job.intake, part, name))

    return (
        row("model_sha256", "sha256", lambda job: _get_sha256(job, object_keys.MODEL)),
        row("model_size", "bytes", lambda job: _get_size(job, object_keys.MODEL)),
        *(fact(name, "number", "model") for name in ("opset", "nodes", "parameters", "macs")),
        row("images_sha256", "sha256", lambda job: _get_sha256(job, object_keys.IMAGES)),
        fact("samples", "number", "samples"),
        fact("producer", "text", "model"),
    )


def _parse_time(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _is_same(jobs: Sequence[JobRecord], name: str) -> bool:
    return len({_get_sha256(job, name) for job in jobs}) == 1


def _get_sha256(record: JobRecord, name: str) -> str | None:
    return record.artifacts[name].sha256 if name in record.artifacts else None


def _get_size(record: JobRecord, name: str) -> int | None:
    return record.artifacts[name].size_bytes if name in record.artifacts else None
