"""The key of a stage's work: a digest of everything that determines its output. Equal keys mean equal results. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from app.conversion.model.record import JobRecord, Stage
from app.conversion.options import Options, ToolchainName
from app.kit.text.json_values import JsonObject

STAGE_CODE = 8
"""Version of our own part in the stages: increment it when a stage produces different output from the same inputs."""
CALIBRATION: Final = "calibration_sha256"
"""Key of the digest of the reference samples, by names and contents, in a record's intake."""
_PREPARED = ("preprocess", "allow_damaged_images")
_HOST = {
    Stage.ONNX: ("input_shapes", *_PREPARED),
    Stage.BIE: ("quantization", *_PREPARED),
    Stage.NEF: ("preprocess",),
}
_KNERON = {
    Stage.ONNX: ("platform", "input_shapes", "kneron", *_PREPARED),
    Stage.BIE: ("platform", "kneron", *_PREPARED),
    Stage.NEF: ("platform", "kneron"),
}
_NOT_FIRST = {
    *("goal", "budget_s", "datapath_range_method", "percentage", "percentage_16b", "percentile", "outlier_factor"),
    *("quantize_mode", "const_in_bitwidth_mode", "int16_nodes", "flops_ratio", "mode", "optimize", "weight_compress"),
}
"""The vendor's arguments that the first stage does not read."""
_FIRST_ALONE = {"opt_matmul", "replace_avgpool_with_conv", "replace_dilated_conv", "skip_check", "clear_shapes"}
"""Those that only it reads: its output reflects them."""
_NEF_READS = {"model_id", "version", "input_fmt", "weight_compress", "compiler_tiling"}


def stage_key(record: JobRecord, *, versions: Mapping[str, str], machine: str) -> str | None:
    """Returns the key of the job's current stage, as 64 hex digits.

    Args:
        versions: The versions of the toolchain and its dependencies.
        machine: The kind of processor: results on another may differ in the last bit.

    Returns:
        None if not everything that determines the result is known.
    """
    inputs = _collect_input_digests(record)
    if not versions or not all(versions.values()) or not all(inputs.values()):
        return None
    decides = {
        "code": STAGE_CODE,
        "stage": record.stage.step,
        "toolchain": record.options.toolchain.value,
        "versions": dict(versions),
        "machine": machine,
        "options": stage_options(record.options, record.stage),
        "inputs": inputs,
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def stage_options(options: Options, stage: Stage) -> JsonObject:
    """The options that this stage reads, as JSON: options of later stages must not change the key."""
    is_kneron = options.toolchain is ToolchainName.KNERON
    names = (_KNERON if is_kneron else _HOST)[stage]
    chosen: JsonObject = options.model_dump(mode="json", include=set(names))
    if is_kneron:
        chosen["kneron"] = {name: value for name, value in chosen["kneron"].items() if _is_read(name, stage)}
    return chosen


def _is_read(name: str, stage: Stage) -> bool:
    if stage is Stage.NEF:
        return name in _NEF_READS
    return name not in (_NOT_FIRST if stage is Stage.ONNX else {*_FIRST_ALONE, "weight_compress"})


def _collect_input_digests(record: JobRecord) -> dict[str, str]:
    """Digests of the stage's inputs; empty if one is unknown."""

    def digest(name: str) -> str:
        return record.artifacts[name].sha256 if name in record.artifacts else ""

    before = record.stage.before
    model = f"out.{before.step}" if before else "model.onnx"
    inputs = {model: digest(model)}
    if before:
        inputs |= {name: digest(name) for name in record.artifacts if name.startswith(f"{before.step}.meta.")}
    if record.stage is not Stage.NEF:
        inputs["samples"] = str(record.intake.get(CALIBRATION) or digest("quant.zip"))
    return inputs
