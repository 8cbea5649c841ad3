"""BIE stage: out.onnx → out.bie, an int8 QDQ ONNX calibrated on the reference samples, with its quality measured."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from app.conversion.errors import NoSamples
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress, StageRequest, StageResult
from app.conversion.toolchains.host import provenance, quality
from app.conversion.toolchains.host.bie_report import (
    feature_warnings,
    mark_saturating,
    print_report,
    quality_warnings,
    search_report,
    speed_warnings,
    summary_of,
)
from app.conversion.toolchains.host.inputs import CachedSamples, first, reference_samples
from app.conversion.toolchains.host.labeled_quality import measure_labeled_quality
from app.conversion.toolchains.host.layers import LAYER_SAMPLES, match_layers, measure_layers
from app.conversion.toolchains.host.logarithm_features import logarithm_features
from app.conversion.toolchains.host.model_quantization import QUANTIZED, ModelQuantization, QuantizedModel
from app.conversion.toolchains.host.output_saturation import expose, saturating_outputs
from app.conversion.toolchains.host.quantization_plan import WEIGHTED, QuantizationPlan
from app.conversion.toolchains.host.saturation import SAMPLES_LEAST, saturation_curve
from app.conversion.toolchains.host.task_recognition import task_meter
from app.conversion.toolchains.samples.labels import labels_of
from app.conversion.toolchains.tensor_statistics import OutputStatistics
from app.inference.runtimes.sessions import Session, open_session
from app.kit.files import sha256_of
from app.kit.process.own_process import release
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

OUTPUTS_MEASURED, ALL_MEASURED = 0.75, 0.96
"""Progress of the stage at the end of each step after quantization."""


def run_bie_stage(request: StageRequest, progress: Progress) -> StageResult:
    """Write out.bie.

    Raises:
        NoSamples, NotFinite, StageFailed: The model cannot be quantized.
        BadInput: What reading the samples raises.
    """
    progress(0.0, "reading out.onnx")
    model = _load(request)
    source = reference_samples(request, provenance.inputs_of(model))
    if source is None:
        raise NoSamples("there are no reference samples to calibrate on")
    samples = CachedSamples(source)
    if request.options.quantization.report_images and request.options.allow_damaged_images:
        collections.deque(samples, maxlen=0)  # after that, unreadable samples are known, and no longer among the names
    quantization = ModelQuantization(model, samples, source.names, request, progress)
    quantized, logits = quantization.run(), quantization.logits
    skipped: list[dict[str, str]] = source.skipped
    release()  # the models and sessions of the search
    _write(quantized, request, skipped)
    measured = _measure(quantized, samples, request, progress, logits)
    report: JsonObject = {"calibration": _describe_calibration(quantized, request, skipped)} | measured
    report["quantization"] = _describe_quantization(quantized.plan, request)
    if quantized.search is not None:
        report |= search_report(quantized.search, report)
    report["labels"] = _measure_labeled(quantized, samples, request)
    mark_saturating(report, saturating_outputs(quantized.float_model))
    if request.options.quantization.saturation:
        report["saturation"] = _measure_saturation(quantized, samples, request, progress)
    is_quantized = bool(quantized.plan.nodes)
    features = feature_warnings(logarithm_features(quantized.float_model, WEIGHTED) if is_quantized else ())
    report["warnings"] = [*speed_warnings(report), *features, *quantized.warnings, *quality_warnings(report)]
    print_report(report)
    progress(1.0, "out.bie is written")
    return StageResult(request.output, report, summary_of(report), provenance.tool_versions())


def _load(request: StageRequest) -> Any:
    import onnx

    path = request.input()
    if not path.is_file():
        raise StageFailed(f"{path.name} is missing: the stage before has not written it")
    return onnx.load(str(path))


def _write(quantized: QuantizedModel, request: StageRequest, skipped: list[dict[str, str]]) -> None:
    source = provenance.read(quantized.float_model).get(provenance.SOURCE_SHA256, "")
    model = quantized.int8_model
    provenance.write(
        model,
        {
            provenance.KIND: "bie",
            provenance.TOOLCHAIN: request.options.toolchain.value,
            provenance.SOURCE_SHA256: source,
            provenance.ONNX_SHA256: sha256_of(request.input()),
            provenance.CALIBRATION: _describe_calibration(quantized, request, skipped),
            provenance.QUANTIZATION: _describe_quantization(quantized.plan, request),
            provenance.PREPROCESS: request.options.preprocess.to_json(),
            provenance.VERSIONS: provenance.tool_versions(),
        },
    )
    if model.ByteSize() > graph.PROTOBUF_BYTES_MAX:
        raise StageFailed("out.bie does not fit into one ONNX file of 2 GB", hint="Convert a smaller model.")
    request.output.write_bytes(model.SerializeToString())


def _measure(
    quantized: QuantizedModel,
    samples: CachedSamples,
    request: StageRequest,
    progress: Progress,
    logits: Mapping[str, str],
) -> JsonObject:
    def step(count: int, of: int) -> None:
        share = count / max(of, 1)
        progress(QUANTIZED + (OUTPUTS_MEASURED - QUANTIZED) * share, f"comparing float and int8 {count}/{of}")

    sessions = _open_exposed_sessions(request, logits) if logits else _open_sessions(request, request.threads)
    meter = task_meter(quantized.float_model)
    outputs = quality.measure_outputs(*sessions, samples, step, meter, logits)
    progress(OUTPUTS_MEASURED, "measuring latency")
    if request.threads != 1 or logits:
        del sessions
        sessions = _open_sessions(request, 1)
    latency = quality.latencies_ms(sessions, first(samples, 1))
    del sessions
    progress(OUTPUTS_MEASURED, "measuring layers")
    matching = match_layers(quantized.float_model, quantized.int8_model, quantized.plan.nodes)
    count = min(len(outputs.by_sample) or LAYER_SAMPLES, LAYER_SAMPLES)
    rows = measure_layers(
        quantized.float_model, quantized.int8_model, matching.layers, first(samples, count), request.threads
    )
    measured = quality.quality_report(outputs, rows, matching.left_out, _count(outputs), count)
    agreement = meter.agreement() if meter else None
    verdict = quality.verdict(outputs, len(quantized.plan.nodes))
    return {
        "quality": measured | {"task": agreement.to_json() if agreement else None},
        "size": {"float_bytes": request.input().stat().st_size, "int8_bytes": request.output.stat().st_size},
        "latency_ms": {"float": latency[0], "int8": latency[1], "threads": 1},
        "verdict": verdict | {"shows_nothing": agreement is not None and agreement.shows_nothing},
    }


def _measure_labeled(quantized: QuantizedModel, samples: CachedSamples, request: StageRequest) -> list[JsonObject]:
    """Returns the accuracy of both models, a row for each metric; empty if the samples have no labels."""
    labels = labels_of(request.ref_images)
    if labels is None:
        return []
    unseen = quantized.search.unseen if quantized.search else ()
    preprocess = request.options.preprocess
    rows = measure_labeled_quality(
        quantized.float_model, _open_sessions(request, request.threads), labels, samples, preprocess, unseen
    )
    for row in rows:
        place = "that were not used to choose ranges" if row.are_unseen else "of the reference samples"
        print(
            f"{row.metric} on {row.n} labeled pictures {place}: float {row.float_value:.4f}, int8 {row.int8_value:.4f}"
        )
    if not rows:
        print("the labels cannot be used: no decoder reads boxes from this model's outputs, or there is no box to find")
    return [row.to_json() for row in rows]


def _measure_saturation(
    quantized: QuantizedModel, samples: CachedSamples, request: StageRequest, progress: Progress
) -> JsonObject | None:
    """Returns the saturation curve; None if there are too few samples."""
    if quantized.plan.problem or len(samples) < SAMPLES_LEAST:
        print(f"how many pictures are enough is measured with {SAMPLES_LEAST} or more, and where layers are quantized")
        return None

    def step(done: int, of: int) -> None:
        progress(ALL_MEASURED + (1 - ALL_MEASURED) * done / of, f"how many pictures are enough {done}/{of}")

    model, options = quantized.float_model, request.options.quantization
    return saturation_curve(model, samples, options, threads=request.threads, step=step).to_json()


def _open_sessions(request: StageRequest, threads: int) -> tuple[Session, Session]:
    return open_session(request.input(), threads, "all"), open_session(request.output, threads, "all")


def _open_exposed_sessions(request: StageRequest, logits: Mapping[str, str]) -> tuple[Session, Session]:
    import onnx

    models = onnx.load(str(request.input())), onnx.load(str(request.output))
    for model in models:
        expose(model, logits)
    reference, quantized = (open_session(model.SerializeToString(), request.threads, "all") for model in models)
    return reference, quantized


def _count(outputs: OutputStatistics) -> int:
    return max((tensor.samples for tensor in outputs.tensors.values()), default=0)


def _describe_calibration(
    quantized: QuantizedModel, request: StageRequest, skipped: list[dict[str, str]]
) -> JsonObject:
    options = request.options.quantization
    method = options.method if quantized.search is None else quantized.search.method
    report: JsonObject = {"method": method, "samples": quantized.calibration.samples, "skipped": skipped}
    if method == "percentile":
        report["percentile"] = options.percentile
    return report


def _describe_quantization(chosen: QuantizationPlan, request: StageRequest) -> JsonObject:
    options = request.options.quantization.model_dump(mode="json", exclude={"saturation"})
    return options | {"int8_nodes": len(chosen.nodes), "float_tail": chosen.tail_report()}
