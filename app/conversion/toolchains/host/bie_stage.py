"""BIE stage: out.onnx → out.bie, an int8 QDQ ONNX calibrated on the reference samples, with its quality measured."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from app.conversion.errors import NoImages
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import SNR_DB_MIN, Progress, StageRequest, StageResult
from app.conversion.toolchains.host import provenance, quality
from app.conversion.toolchains.host.calibration import ActivationRanges, Step, calibrate
from app.conversion.toolchains.host.inputs import CachedSamples, first, reference_samples
from app.conversion.toolchains.host.layers import LAYER_SAMPLES, match_layers, measure_layers
from app.conversion.toolchains.host.quantizer import QuantizationPlan, plan, quantize
from app.conversion.toolchains.host.runtime import Session, open_session
from app.conversion.toolchains.host.search.report import report_of, sentence
from app.conversion.toolchains.host.search.search import Search
from app.conversion.toolchains.tensor_comparison import OutputStatistics
from app.kit.files.digest import sha256_of
from app.kit.sandbox.errors import StageFailed

CALIBRATED, QUANTIZED, OUTPUTS_MEASURED = 0.45, 0.5, 0.75
"""Where in the stage's progress each step ends."""
SLOWER = 1.05
"""Times float's latency; less is noise."""
CLOCK_MS = 0.2
"""Models faster than this cannot be told apart by the clock."""


@dataclass(frozen=True)
class QuantizedModel:
    float_model: Any
    int8_model: Any
    plan: QuantizationPlan
    calibration: ActivationRanges
    warnings: list[str]
    search: dict[str, Any] = field(default_factory=dict)
    """Of the report: goal, search and judgement; empty where no goal was set."""


def run_bie_stage(request: StageRequest, progress: Progress) -> StageResult:
    """Write out.bie. Raises NoImages, NotFinite, StageFailed and what reading the samples raises."""
    progress(0.0, "reading out.onnx")
    model = _load(request)
    source = reference_samples(request, provenance.inputs_of(model))
    if source is None:
        raise NoImages("there are no reference samples to calibrate on")
    samples = CachedSamples(source)
    quantized = _quantize(model, samples, request, progress)
    skipped: list[dict[str, str]] = source.skipped
    _write(quantized, request, skipped)
    measured = _measure(quantized, samples, request, progress)
    report = {"calibration": _calibration(quantized, request, skipped)} | measured
    report["quantization"] = _quantization(quantized.plan, request)
    report |= quantized.search
    _judge(report)
    _mark_saturating(report, quality.saturating_outputs(quantized.float_model))
    report["warnings"] = [*_quality_warnings(report), *quantized.warnings]
    _log(report)
    progress(1.0, "out.bie is written")
    return StageResult(request.output, report, _summary(report), provenance.tool_versions())


def _load(request: StageRequest) -> Any:
    import onnx

    path = request.input()
    if not path.is_file():
        raise StageFailed(f"{path.name} is missing: the stage before has not written it")
    return onnx.load(str(path))


def _quantize(model: Any, samples: CachedSamples, request: StageRequest, progress: Progress) -> QuantizedModel:
    options = request.options.quantization
    chosen = plan(model, options)
    if chosen.problem:
        print(f"warning: {chosen.problem}")
        return QuantizedModel(model, copy.deepcopy(model), chosen, ActivationRanges({}, 0), [chosen.problem])

    def step(done: int, of: int) -> None:
        progress(CALIBRATED * done / max(of, 1), f"calibrating {done}/{of}")

    if options.goal:
        return _searched(model, samples, request, step)
    print(f"calibrating {len(chosen.tensors)} tensors on {len(samples)} samples, method {options.method}")
    calibration = calibrate(model, chosen.tensors, samples, options, threads=request.threads, step=step)
    progress(CALIBRATED, f"quantizing {len(chosen.nodes)} nodes")
    int8_model, warnings = quantize(model, calibration.ranges, chosen, options)
    print(f"quantized {len(chosen.nodes)} of {len(model.graph.node)} nodes to int8")
    return QuantizedModel(model, int8_model, chosen, calibration, warnings)


def _searched(model: Any, samples: CachedSamples, request: StageRequest, step: Step) -> QuantizedModel:
    options = request.options.quantization
    print(f"calibrating on {len(samples)} samples; goal {options.goal}, within {options.budget_s:g} s")
    for _ in samples:  # what cannot be read is met, and left out of the count that the split is made of
        pass
    found = Search(model, options, samples, request.threads, step).run(print)
    report = report_of(found, options.budget_s)
    print(sentence(report))
    calibration = ActivationRanges({}, found.samples)
    return QuantizedModel(model, found.model, found.plan, calibration, list(found.warnings), report)


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
            provenance.CALIBRATION: _calibration(quantized, request, skipped),
            provenance.QUANTIZATION: _quantization(quantized.plan, request),
            provenance.PREPROCESS: request.options.preprocess.model_dump(mode="json"),
            provenance.VERSIONS: provenance.tool_versions(),
        },
    )
    if model.ByteSize() > graph.PROTOBUF_BYTES_MAX:
        raise StageFailed("out.bie does not fit into one ONNX file of 2 GB", hint="Convert a smaller model.")
    request.output.write_bytes(model.SerializeToString())


def _measure(
    quantized: QuantizedModel, samples: CachedSamples, request: StageRequest, progress: Progress
) -> dict[str, Any]:
    def step(count: int, of: int) -> None:
        share = count / max(of, 1)
        progress(QUANTIZED + (OUTPUTS_MEASURED - QUANTIZED) * share, f"comparing float and int8 {count}/{of}")

    sessions = _sessions(request, request.threads)
    outputs = quality.measure_outputs(*sessions, samples, step)
    progress(OUTPUTS_MEASURED, "measuring layers")
    matching = match_layers(quantized.float_model, quantized.int8_model, quantized.plan.nodes)
    count = min(len(outputs.by_sample) or LAYER_SAMPLES, LAYER_SAMPLES)
    rows = measure_layers(
        quantized.float_model, quantized.int8_model, matching.layers, first(samples, count), request.threads
    )
    progress(0.95, "measuring latency")
    timed = sessions if request.threads == 1 else _sessions(request, 1)
    latency = [quality.latency_ms(session, first(samples, 1)) for session in timed]
    return {
        "quality": quality.quality_report(outputs, rows, matching.left_out, _count(outputs), count),
        "size": {"float_bytes": request.input().stat().st_size, "int8_bytes": request.output.stat().st_size},
        "latency_ms": {"float": latency[0], "int8": latency[1], "threads": 1},
        "verdict": quality.verdict(outputs, len(quantized.plan.nodes)),
    }


def _sessions(request: StageRequest, threads: int) -> tuple[Session, Session]:
    return open_session(request.input(), threads), open_session(request.output, threads)


def _count(outputs: OutputStatistics) -> int:
    return max((tensor.samples for tensor in outputs.tensors.values()), default=0)


def _calibration(quantized: QuantizedModel, request: StageRequest, skipped: list[dict[str, str]]) -> dict[str, Any]:
    options = request.options.quantization
    method = _method(quantized) or options.method
    report: dict[str, Any] = {"method": method, "samples": quantized.calibration.samples, "skipped": skipped}
    if method == "percentile":
        report["percentile"] = options.percentile
    return report


def _method(quantized: QuantizedModel) -> str:
    """How the ranges of the taken candidate were chosen; empty without a search."""
    search = quantized.search.get("search")
    if not search:
        return ""
    steps = next(c["steps"] for c in search["candidates"] if c["id"] == search["taken"])
    methods = [step["method"] for step in steps if step["kind"] == "range"]
    return "per tensor" if len(methods) > 1 else str(methods[0])


def _quantization(chosen: QuantizationPlan, request: StageRequest) -> dict[str, Any]:
    options = request.options.quantization.model_dump(mode="json")
    return options | {"int8_nodes": len(chosen.nodes), "float_tail": chosen.tail_report()}


def _judge(report: dict[str, Any]) -> None:
    """Where pictures that did not calibrate have judged, the verdict is theirs."""
    judgement, verdict = report.get("judgement"), report["verdict"]
    if judgement is None or judgement["mean_db"] is None:
        return
    is_ruined = judgement["min_db"] is not None and judgement["min_db"] < judgement["floor_db"]
    verdict["snr_db"] = judgement["mean_db"]
    verdict["passed"] = not verdict["nothing_quantized"] and judgement["mean_db"] >= SNR_DB_MIN and not is_ruined


def _mark_saturating(report: dict[str, Any], operators: dict[str, str]) -> None:
    for output in report["quality"]["outputs"]:
        if output["name"] in operators:
            output["saturates"] = operators[output["name"]]


def _quality_warnings(report: dict[str, Any]) -> list[str]:
    verdict, outputs = report["verdict"], report["quality"]["outputs"]
    silent = [output["name"] for output in outputs if output.get("silent_samples")]
    warnings = [_slower(report["latency_ms"])] if _slower(report["latency_ms"]) else []
    if report.get("goal"):
        warnings += [] if report["goal"]["is_reached"] else [sentence(report)]
        return warnings
    warnings += [f"output {name!r} is all zero for some samples, which have no SNR" for name in silent]
    if not verdict["passed"] and not verdict["nothing_quantized"]:
        warnings.append(
            f"the worst output has an SNR of {verdict['snr_db']} dB, below {SNR_DB_MIN:g} dB: try another "
            "method, more or more typical images, or leave the worst layers of the table in float (exclude_nodes)"
        )
    return warnings


def _slower(latency: dict[str, Any]) -> str:
    """Said first where it is so: then int8 buys size, not time."""
    if latency["float"] is None or latency["int8"] is None or latency["float"] < CLOCK_MS:
        return ""
    if latency["int8"] <= SLOWER * latency["float"]:
        return ""
    return f"int8 is slower than float here: {latency['int8']} ms against {latency['float']} ms on one thread"


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    verdict = report["verdict"]
    cosines = [c for output in report["quality"]["outputs"] if (c := output["cosine"]["mean"]) is not None]
    return {
        "snr_db": verdict["snr_db"],
        "cosine": min(cosines, default=None),
        "passed": None if verdict["nothing_quantized"] else verdict["passed"],
        "samples": report["quality"]["samples"],
        "size_bytes": report["size"]["int8_bytes"],
    }


def _log(report: dict[str, Any]) -> None:
    size, latency, tail = report["size"], report["latency_ms"], report["quantization"]["float_tail"]
    if tail["nodes"]:
        print(f"{tail['reason']}: {tail['nodes']} nodes")
    for output in report["quality"]["outputs"]:
        note = f"; after a {output['saturates']}, which hides errors: see the layers" if "saturates" in output else ""
        print(
            f"output {output['name']}: SNR {output['snr_db']['mean']} dB, mean of {output['snr_db']['n']} samples{note}"
        )
    print(f"size {size['float_bytes']} → {size['int8_bytes']} bytes")
    print(f"latency, 1 thread: {latency['float']} → {latency['int8']} ms")
    for warning in report["warnings"]:
        print(f"warning: {warning}")
