"""ONNX stage: any runnable ONNX file → out.onnx, checked, of fixed shape, simplified and proved equal to the original.

Candidates are tried from the most to the least changed graph (simplified, only upgraded, only fixed, the original);
the first that runs and equals the original is written, and omitted changes are a warning.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress, StageRequest, StageResult
from app.conversion.toolchains.facts import GraphFacts
from app.conversion.toolchains.host import graph_names, graph_surgery, provenance
from app.conversion.toolchains.host.calibration import bytes_with_outputs
from app.conversion.toolchains.host.equivalence import Equivalence, prove
from app.conversion.toolchains.host.graph_surgery import PreparedModel
from app.conversion.toolchains.host.inputs import CachedSamples, Noise, Samples, first, reference_samples
from app.conversion.toolchains.host.output_saturation import saturating_outputs
from app.conversion.toolchains.host.pool_cascade import cascade_pools
from app.conversion.toolchains.samples.spec import static_shape
from app.inference.errors import UnsupportedOperator
from app.inference.runtimes.sessions import Session, open_session, run
from app.kit.errors import ModelmillError
from app.kit.files import sha256_of
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

EQUALITY_SAMPLES = 16
EQUALITY_SNR_DB, EQUALITY_FLOAT16_SNR_DB = 60.0, 40.0
"""Reordering sums still gives an SNR of 90 dB and more, in float16 50; below this limit something else was computed."""
NOISE_SAMPLES = 4
Original: TypeAlias = Path | bytes
"""The model as it was submitted: its file, or what it is in versions that onnxruntime reads."""


@dataclass(frozen=True)
class OptimizedModel:
    prepared: PreparedModel
    equivalence: Equivalence


def run_onnx_stage(request: StageRequest, progress: Progress) -> StageResult:
    """Write out.onnx.

    Raises:
        BadInput, NotFinite, StageFailed: The model cannot be converted; see app.conversion.errors.
    """
    source = request.input()
    progress(0.0, "reading the model")
    source_sha256 = sha256_of(source)
    fixed, original, original_facts = _fix(source, request)
    progress(0.15, "preparing the graph")
    samples = _load_samples(request, fixed.model)
    outcome = _find_first_equal(source, original, fixed, samples, request, progress)
    model = complete_types(outcome.prepared.model)
    progress(0.9, "writing out.onnx")
    _write(model, graph.graph_inputs(fixed.model), request, source_sha256)
    facts = graph.facts(model)
    report = {
        "model": facts,
        "original": original_facts,
        "changes": outcome.prepared.changes,
        "warnings": outcome.prepared.warnings,
        "equivalence": outcome.equivalence.to_dict(),
    }
    _log(report)
    progress(1.0, "out.onnx is written")
    return StageResult(request.output, report, _summarize(report), provenance.tool_versions())


def _fix(source: Path, request: StageRequest) -> tuple[PreparedModel, Original, GraphFacts]:
    model, original, changes = _load(source)
    changes += graph.fix_shapes(model, request.options.input_shapes)
    facts = graph.facts(model)
    changes += graph_surgery.raise_ir_version(model)
    print(f"read {source.name}: opset {graph.opset_of(model)}, {len(model.graph.node)} nodes")
    return PreparedModel(model, changes), original, facts


def _load(source: Path) -> tuple[Any, Original, list[str]]:
    """Returns the model in versions that onnxruntime reads, without its shapes fixed, its original, and what was
    changed."""
    model = graph.load(source)
    changes = graph.fit_versions(model, graph.HOST)
    original: Original = model.SerializeToString() if changes else source
    changes += graph.sort_nodes(model) + graph_surgery.strip_weights_from_inputs(model)
    return model, original, changes


def _load_samples(request: StageRequest, model: Any) -> Samples:
    inputs = graph.graph_inputs(model)
    references = reference_samples(request, inputs)
    if references is not None:
        return CachedSamples(references)
    print("no reference samples: equality is checked on random inputs")
    return Noise({i.name: (static_shape(i), i.dtype, 0.0, 1.0) for i in inputs}, NOISE_SAMPLES)


def _iterate_candidates(source: Path, fixed: PreparedModel) -> Iterator[PreparedModel]:
    """Yields graphs from the most to the least changed one, each with all its changes and warnings."""
    upgraded = _apply_step(fixed, graph_surgery.upgrade_opset(fixed.model))
    simple = _apply_step(upgraded, graph_surgery.simplify(upgraded.model))
    if rewritten := _cascade_pools(simple):
        yield _finish(rewritten)
    del rewritten  # a copy of all weights
    yield _finish(simple)
    if simple.model is not upgraded.model:
        yield _finish(_add_warning(upgraded, "the graph was not simplified: that would have changed its results"))
    if upgraded.changes != fixed.changes:
        yield _finish(_add_warning(fixed, "the opset was kept: an upgrade would have changed the results"))
    model, _, changes = _load(source)
    changes += graph_surgery.raise_ir_version(model)
    yield _finish(PreparedModel(model, changes))


def _cascade_pools(simple: PreparedModel) -> PreparedModel | None:
    model = copy.deepcopy(simple.model)
    changes = cascade_pools(model)
    return _apply_step(simple, PreparedModel(model, changes)) if changes else None


def _find_first_equal(
    source: Path,
    original: Original,
    fixed: PreparedModel,
    samples: Samples,
    request: StageRequest,
    progress: Progress,
) -> OptimizedModel:
    # Both use the basic level: beyond it, a model that is quantized already would compute differently.
    reference = _open_original(original, fixed.model, request.threads)
    limit_db = EQUALITY_FLOAT16_SNR_DB if graph_surgery.has_float16(fixed.model) else EQUALITY_SNR_DB
    failures: list[str] = []
    for candidate in _iterate_candidates(source, fixed):
        progress(min(0.3 + 0.2 * len(failures), 0.8), "comparing with the original")
        try:
            request.output.write_bytes(candidate.model.SerializeToString())  # which onnxruntime would copy
            session = open_session(request.output, request.threads, "basic")
        except (UnsupportedOperator, StageFailed) as error:
            failures.append(error.message)
            print(f"a candidate graph was dropped: {failures[-1]}")
            continue
        equivalence = _compare(reference, session, samples, saturating_outputs(candidate.model))
        if equivalence.is_equal(limit_db):
            return OptimizedModel(_explain_open_inputs(candidate, failures), equivalence)
        failures.append(f"lowest SNR {equivalence.statistics.worst_snr_db} dB")
        print(f"a candidate graph was dropped: {failures[-1]}")
    raise StageFailed(
        "the prepared graph does not compute what the original does",
        hint="Simplify the model yourself (onnxslim, onnxsim) and submit the result, or export it with opset 13 to 17.",
        detail={"candidates": failures},
    )


def _explain_open_inputs(candidate: PreparedModel, failures: list[str]) -> PreparedModel:
    """Adds the reason why its inputs are still open, if they are: the graph does not run with fixed ones."""
    if all(spec.is_static for spec in graph.graph_inputs(candidate.model)):
        return candidate
    return _add_warning(candidate, f"the original graph was kept, with open input shapes: once fixed, {failures[-1]}")


def _open_original(source: Original, model: Any, threads: int) -> Session:
    try:
        return open_session(source, threads, "basic")
    except UnsupportedOperator as error:
        operator = str(error.detail.get("operator", "")).rpartition(":")[2]
        node = error.detail.get("node") or next((n.name for n in model.graph.node if n.op_type == operator), "")
        raise UnsupportedOperator(
            f"onnxruntime cannot run operator {error.detail.get('operator')}" + (f" at node {node!r}" if node else ""),
            hint=error.hint,
            detail=error.detail | {"node": node},
        ) from error


def _compare(original: Session, session: Session, samples: Samples, bounded: Collection[str]) -> Equivalence:
    return prove(lambda a: run(original, a), lambda a: run(session, a), first(samples, EQUALITY_SAMPLES), bounded)


def _write(model: Any, inputs: Sequence[graph.TensorSpec], request: StageRequest, source_sha256: str) -> None:
    if model.ByteSize() > graph.PROTOBUF_BYTES_MAX:
        raise StageFailed(
            "the model does not fit into one ONNX file of 2 GB",
            hint="Only models below 2 GB can be converted; reduce it or store its weights in float16.",
        )
    options = request.options
    facts = {
        provenance.KIND: "onnx",
        provenance.TOOLCHAIN: options.toolchain.value,
        provenance.SOURCE_SHA256: source_sha256,
        provenance.PREPROCESS: options.preprocess.to_json(),
        provenance.VERSIONS: provenance.tool_versions(),
    }
    if graph.graph_inputs(model) != list(inputs):
        facts[provenance.INPUT_SHAPES] = {spec.name: list(spec.shape) for spec in inputs}
    provenance.write(model, facts)
    request.output.write_bytes(model.SerializeToString())


def _apply_step(before: PreparedModel, step: PreparedModel) -> PreparedModel:
    return PreparedModel(step.model, before.changes + step.changes, before.warnings + step.warnings)


def _add_warning(prepared: PreparedModel, warning: str) -> PreparedModel:
    return PreparedModel(prepared.model, prepared.changes, [*prepared.warnings, warning])


def _finish(prepared: PreparedModel) -> PreparedModel:
    model = prepared.model
    changes = graph_surgery.constants_to_weights(model) + graph_surgery.fold_gemm_factors(model)
    changes += graph_names.name_nodes(model) + graph_names.copy_shared_biases(model)
    changes += graph_names.rename_tensors(model)
    return PreparedModel(graph_surgery.infer_shapes(model), prepared.changes + changes, prepared.warnings)


def _summarize(report: JsonObject) -> JsonObject:
    facts = report["model"]
    return {
        "operators": facts["nodes"],
        "parameters": facts["parameters"],
        "macs": facts["macs"],
        "changes": len(report["changes"]),
        "exact": report["equivalence"]["exact"],
    }


def _log(report: JsonObject) -> None:
    for change in report["changes"]:
        print(f"changed: {change}")
    for warning in report["warnings"]:
        print(f"warning: {warning}")
    facts, equal = report["model"], report["equivalence"]
    nodes = f"{report['original']['nodes']} → {facts['nodes']}"
    print(f"nodes {nodes}, {facts['parameters']} parameters, {facts['macs']} MACs")
    for output in equal["outputs"]:
        print(
            f"output {output['name']}: equals the original on {equal['samples']} samples, "
            f"SNR {output['snr_db']['min']} dB, largest difference {output['max_abs_diff']}"
        )


def complete_types(model: Any) -> Any:
    """Returns the model (onnx.ModelProto) with the types and shapes of inner tensors that onnxruntime knows and onnx's
    inference does not; unchanged if there are none. A tensor of unknown type cannot be quantized."""
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    known = {value.name for value in values if value.type.tensor_type.elem_type}
    missing = [name for node in model.graph.node for name in node.output if name and name not in known]
    if not missing:
        return model
    try:
        session = open_session(bytes_with_outputs(model, missing), 1, "none")
    except ModelmillError:
        return model
    return _with_types(model, [value for value in session.get_outputs() if value.name in set(missing)])


def _with_types(model: Any, values: list[Any]) -> Any:
    """Adds types to the model.

    Args:
        values: onnxruntime.NodeArg.
    """
    from onnx import TensorProto, helper

    kinds = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "double": TensorProto.DOUBLE}
    fresh = copy.deepcopy(model)
    old = {value.name for value in values}
    kept = [value for value in fresh.graph.value_info if value.name not in old]
    del fresh.graph.value_info[:]
    fresh.graph.value_info.extend(kept)
    for value in values:
        kind = kinds.get(value.type.removeprefix("tensor(").removesuffix(")"))
        if kind is not None:
            fresh.graph.value_info.append(helper.make_tensor_value_info(value.name, kind, value.shape))
    return fresh
