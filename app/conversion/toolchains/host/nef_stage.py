"""NEF stage: out.bie → out.nef, a zip of the model in ORT format and a manifest, proved to agree with the BIE."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversion.options import Preprocess
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress, StageRequest, StageResult
from app.conversion.toolchains.host import provenance
from app.conversion.toolchains.host.equivalence import Equivalence, prove
from app.conversion.toolchains.host.inputs import Noise, Samples, first, reference_samples
from app.conversion.toolchains.host.output_saturation import saturating_outputs
from app.inference.runtimes.sessions import (
    MANIFEST,
    MODEL,
    NEF_FORMAT,
    NEF_VERSION,
    NOTICE,
    HostModel,
    open_session,
    run,
    session_options,
)
from app.kit.files import sha256_of
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

AGREEMENT_SAMPLES = 8
AGREEMENT_SNR_DB = 60.0
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The zip format's own epoch, so that the file contains no time. (Its bytes still differ from run to run: the runtime
writes the constants of model.ort in no fixed order.)"""


@dataclass(frozen=True)
class BieModel:
    """out.bie after reading: inputs and outputs of its graph as [{name, shape, dtype}], and its provenance."""

    model: Any
    inputs: list[JsonObject]
    outputs: list[JsonObject]
    provenance: dict[str, str]


def run_nef_stage(request: StageRequest, progress: Progress) -> StageResult:
    """Write out.nef.

    Raises:
        StageFailed: The file does not run, or does not agree with out.bie.
        NotFinite: An output is not finite.
    """
    progress(0.0, "reading out.bie")
    bie = _load(request.input())
    progress(0.1, "converting to ORT format")
    model = _to_ort(request)
    manifest = _build_manifest(bie, request, model)
    progress(0.5, "writing out.nef")
    _write(request.output, manifest, model)
    progress(0.6, "comparing with out.bie")
    agreement = _verify(bie, request)
    size_bytes = request.output.stat().st_size
    print(f"out.nef: {size_bytes} bytes; {NOTICE}")
    progress(1.0, "out.nef is written")
    report = {
        "manifest": manifest,
        "agreement": {
            "samples": agreement.samples,
            "inputs": "reference samples" if _load_references(bie, request) else "seeded random values",
            "outputs": agreement.to_dict()["outputs"],
            "bit_true": agreement.is_exact,
        },
        "size_bytes": size_bytes,
    }
    summary = {"size_bytes": size_bytes, "bit_true": agreement.is_exact}
    return StageResult(request.output, report, summary, provenance.tool_versions())


def _load(path: Path) -> BieModel:
    import onnx

    if not path.is_file():
        raise StageFailed(f"{path.name} is missing: the stage before has not written it")
    model = onnx.load(str(path))
    return BieModel(
        model,
        _describe_specs(provenance.inputs_of(model)),
        _describe_specs(graph.graph_outputs(model)),
        provenance.read(model),
    )


def _describe_specs(tensors: Any) -> list[JsonObject]:
    return [{"name": t.name, "shape": list(t.shape), "dtype": str(t.dtype)} for t in tensors]


def _to_ort(request: StageRequest) -> bytes:
    """Converts the BIE to ORT format, optimized as far as is valid on every CPU: no layouts for this one, and exact."""
    target = request.scratch() / MODEL
    options = session_options(request.threads, "extended", is_exact=True)
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.save_model_format", "ORT")
    open_session(request.input(), request.threads, options=options)
    data = target.read_bytes()
    target.unlink()
    return data


def _build_manifest(bie: BieModel, request: StageRequest, model: bytes) -> JsonObject:
    facts = bie.provenance
    preprocess = facts.get(provenance.PREPROCESS)
    return {
        "format": NEF_FORMAT,
        "version": NEF_VERSION,
        "notice": NOTICE,
        "inputs": bie.inputs,
        "outputs": bie.outputs,
        "preprocess": json.loads(preprocess) if preprocess else request.options.preprocess.to_json(),
        "quantization": json.loads(facts.get(provenance.QUANTIZATION, "{}")),
        "calibration": json.loads(facts.get(provenance.CALIBRATION, "{}")),
        "ancestors": {
            "model": facts.get(provenance.SOURCE_SHA256, ""),
            "out.onnx": facts.get(provenance.ONNX_SHA256, ""),
            "out.bie": sha256_of(request.input()),
        },
        "files": {MODEL: {"sha256": hashlib.sha256(model).hexdigest(), "size_bytes": len(model)}},
        "versions": provenance.tool_versions(),
    }


def _write(path: Path, manifest: JsonObject, model: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
        for name, data in ((MANIFEST, text), (MODEL, model)):
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)


def _verify(bie: BieModel, request: StageRequest) -> Equivalence:
    nef = HostModel(request.output, request.threads, "layout")
    session = open_session(request.input(), request.threads)
    samples = first(_load_samples(bie, request), AGREEMENT_SAMPLES)
    bounded = saturating_outputs(bie.model)
    agreement = prove(lambda a: run(session, a), nef.run, samples, bounded)
    for output in agreement.to_dict()["outputs"]:
        same = "the same bits" if output["exact"] else f"largest difference {output['max_abs_diff']}"
        print(f"output {output['name']}: {same} as out.bie on {agreement.samples} samples")
    if not agreement.is_equal(AGREEMENT_SNR_DB):
        raise StageFailed(
            "out.nef does not agree with out.bie",
            hint="This is a fault of the runtime; keep the artifacts and report it.",
            detail=agreement.to_dict(),
        )
    return agreement


def _load_references(bie: BieModel, request: StageRequest) -> Samples | None:
    samples: Samples | None = reference_samples(request, provenance.inputs_of(bie.model))
    return samples


def _load_samples(bie: BieModel, request: StageRequest) -> Samples:
    references = _load_references(bie, request)
    if references is not None:
        return references
    ranges = _estimate_input_ranges(bie.model, request.options.preprocess)
    specs = {i["name"]: (tuple(i["shape"]), i["dtype"], *ranges[i["name"]]) for i in bie.inputs}
    return Noise(specs, AGREEMENT_SAMPLES)


def _estimate_input_ranges(model: Any, preprocess: Preprocess) -> dict[str, tuple[float, float]]:
    """Returns plausible values of each input: what its quantizer can represent, or else the result of preprocessing
    0..255."""
    from onnx import numpy_helper

    low = min((0.0 - mean) / std for mean in preprocess.mean for std in preprocess.std)
    high = max((255.0 * preprocess.scale - mean) / std for mean in preprocess.mean for std in preprocess.std)
    ranges = {value.name: (min(low, high), max(low, high)) for value in model.graph.input}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] not in ranges:
            continue
        scale, zero = (numpy_helper.to_array(constants[name]) for name in node.input[1:3])
        bottom, top = (-128, 127) if zero.dtype.kind == "i" else (0, 255)
        offset, step = int(zero.reshape(-1)[0]), float(scale.reshape(-1)[0])
        ranges[node.input[0]] = ((bottom - offset) * step, (top - offset) * step)
    return ranges
