"""Reads the report artifacts of a job into views. Lenient: a report of another version may lack a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.conversion.goals import find_hidden_loss
from app.conversion.model.saturation import SaturationCurve
from app.conversion.service.quality.candidates import read_search
from app.conversion.service.quality.chip import boundaries_of, chip_report, chip_verdict
from app.conversion.service.quality.goal import read_goal, read_judgement, read_labeled, read_sensitivity
from app.conversion.service.quality.views import (
    Boundary,
    FloatInt8Pair,
    LayerQuality,
    Outcome,
    OutputQuality,
    Quality,
    QualityVerdict,
    Spread,
    Step,
    WorstSample,
)
from app.kit.text.json_values import JsonObject


def quality(onnx: JsonObject | None, bie: JsonObject | None, nef: JsonObject | None, *, toolchain: str) -> Quality:
    """The quality of a job by its three reports.

    Args:
        onnx: report of that stage; None if there is none (yet), as for the others.
        bie: report of that stage.
        nef: report of that stage.
        toolchain: "kneron" reports in another form than the host.
    """
    if toolchain == "kneron":
        return _of_chip(onnx, bie, nef)
    boundaries = _read_optimized(onnx), _read_quantized(bie), _read_compiled(nef)
    if bie is None:
        return Quality(toolchain, boundaries, warnings=_read_warnings(onnx))
    measured = bie.get("quality", {})
    calibration, quantization = bie.get("calibration", {}), bie.get("quantization", {})
    latency = bie.get("latency_ms", {})
    return Quality(
        toolchain,
        boundaries,
        verdict=_read_verdict(bie.get("verdict")),
        layers=tuple(_read_layer(place, row) for place, row in enumerate(measured.get("layers", ()), start=1)),
        layers_left_out=measured.get("layers_left_out", 0),
        layer_samples=measured.get("layer_samples", 0),
        worst_samples=_read_worst_samples(measured),
        size_bytes=_read_pair(bie.get("size", {}), "float_bytes", "int8_bytes"),
        latency_ms=_read_pair(latency, "float", "int8"),
        latency_threads=latency.get("threads", 1),
        nef_bytes=(nef or {}).get("size_bytes"),
        samples=measured.get("samples", 0),
        calibration_samples=calibration.get("samples", 0),
        calibration_method=calibration.get("method", ""),
        skipped=len(calibration.get("skipped", ())),
        float_tail=quantization.get("float_tail", {}).get("reason", ""),
        warnings=_read_warnings(onnx) + _read_warnings(bie),
        goal=read_goal(bie),
        judgement=read_judgement(bie),
        labeled=read_labeled(bie),
        search=read_search(bie),
        saturation=SaturationCurve.from_json(curve) if (curve := bie.get("saturation")) else None,
        sensitivity=read_sensitivity(bie),
        hidden_loss=find_hidden_loss(bie),
    )


def _of_chip(onnx: JsonObject | None, bie: JsonObject | None, nef: JsonObject | None) -> Quality:
    boundaries = boundaries_of(onnx, bie, nef)
    return Quality(
        "kneron",
        boundaries,
        verdict=chip_verdict(boundaries[1].snr_db),
        samples=(bie or {}).get("samples", 0),
        calibration_samples=(bie or {}).get("samples", 0),
        skipped=len((bie or {}).get("skipped", ())),
        warnings=_read_warnings(onnx) + _read_warnings(bie) + _read_warnings(nef),
        chip=chip_report(onnx, bie, nef),
        goal=read_goal(bie or {}),
        search=read_search(bie or {}),
    )


def _read_optimized(report: JsonObject | None) -> Boundary:
    equivalence = (report or {}).get("equivalence")
    return _read_proof(
        "optimise",
        "model.onnx",
        "out.onnx",
        equivalence,
        is_same=bool(equivalence and equivalence.get("exact")),
        word="exact",
    )


def _read_compiled(report: JsonObject | None) -> Boundary:
    agreement = (report or {}).get("agreement")
    is_same = bool(agreement and agreement.get("bit_true"))
    return _read_proof("compile", "out.bie", "out.nef", agreement, is_same=is_same, word="bit_true")


def _read_proof(
    step: Step, before: str, after: str, proof: JsonObject | None, *, is_same: bool, word: Outcome
) -> Boundary:
    if proof is None:
        return Boundary(step, before, after, "pending")
    outcome: Outcome = word if is_same else "measured"
    return Boundary(
        step,
        before,
        after,
        outcome,
        samples=proof.get("samples", 0),
        inputs=proof.get("inputs", ""),
        outputs=tuple(_read_output(row) for row in proof.get("outputs", ())),
    )


def _read_quantized(report: JsonObject | None) -> Boundary:
    quality = (report or {}).get("quality")
    if quality is None:
        return Boundary("quantise", "out.onnx", "out.bie", "pending")
    outputs = tuple(_read_output(row) for row in quality.get("outputs", ()))
    outcome: Outcome = "exact" if outputs and all(output.is_exact for output in outputs) else "measured"
    return Boundary(
        "quantise",
        "out.onnx",
        "out.bie",
        outcome,
        samples=quality.get("samples", 0),
        inputs=quality.get("images", ""),
        outputs=outputs,
    )


def _read_output(row: JsonObject) -> OutputQuality:
    return OutputQuality(
        name=str(row["name"]),
        snr_db=_read_spread(row.get("snr_db")),
        cosine=_read_spread(row.get("cosine")),
        max_abs=row.get("max_abs", row.get("max_abs_diff")),
        is_exact=bool(row.get("exact")),
        saturates=row.get("saturates", ""),
        silent_samples=row.get("silent_samples", 0),
        other_shape_samples=row.get("other_shape_samples", 0),
    )


def _read_layer(position: int, row: JsonObject) -> LayerQuality:
    return LayerQuality(
        position=position,
        name=str(row["name"]),
        op_type=row.get("op_type", ""),
        is_int8=bool(row.get("int8")),
        merged=row.get("merged", ""),
        snr_db=_read_spread(row.get("snr_db")),
        cosine=_read_spread(row.get("cosine")),
        max_abs=row.get("max_abs"),
        weight_snr_db=row.get("weight_snr_db"),
    )


def _read_spread(value: Mapping[str, Any] | float | None) -> Spread:
    """A summary over samples, or the lowest number alone."""
    if isinstance(value, Mapping):
        return Spread(value.get("mean"), value.get("min"), value.get("p5"), value.get("n", 0))
    return Spread(min=value)


def _read_verdict(verdict: JsonObject | None) -> QualityVerdict | None:
    if verdict is None:
        return None
    return QualityVerdict(
        verdict.get("snr_db"),
        verdict.get("rule", ""),
        bool(verdict.get("passed")),
        bool(verdict.get("nothing_quantized")),
        bool(verdict.get("shows_nothing")),
    )


def _read_worst_samples(measured: JsonObject) -> tuple[WorstSample, ...]:
    rows = measured.get("worst_samples", ())
    return tuple(WorstSample(index, row["name"], row["snr_db"]) for index, row in enumerate(rows))


def _read_pair(costs: JsonObject, float_: str, int8: str) -> FloatInt8Pair | None:
    first, second = costs.get(float_), costs.get(int8)
    return None if first is None or second is None else FloatInt8Pair(first, second)


def _read_warnings(report: JsonObject | None) -> tuple[str, ...]:
    return tuple(str(text) for text in (report or {}).get("warnings", ()))
