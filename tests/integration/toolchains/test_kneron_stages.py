"""The three stages over the stand-in `ktc`, run by this interpreter in the vendor's place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from app.conversion.errors import DynamicShape
from app.conversion.model import Stage
from app.conversion.toolchains.base import StageResult
from app.conversion.toolchains.kneron import KneronToolchain, nef
from tests.standins import kneron
from tests.standins.kneron import job, told

Quantized = tuple[kneron.Job, StageResult]


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


def bie_facts(work: Path) -> dict[str, Any]:
    return json.loads((work / "out.bie").read_bytes().split(b"\n", 1)[1])


# --- the way through ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "platform",
    [
        "520",
        "730",
        *(pytest.param(chip, marks=pytest.mark.exhaustive) for chip in ("530", "630", "720")),  # 720: on its ladder
    ],
)
def test_a_model_goes_from_onnx_to_a_nef_of_its_chip(tmp_path: Path, tool: KneronToolchain, platform: str) -> None:
    work = job(tmp_path, platform=platform, model_id=40000, version="8b28")
    result = work.until(Stage.NEF, tool)
    description = nef.probe(work.work / "out.nef")
    assert description["chip"] == platform and description["crc_ok"]
    assert (description["models"][0]["id"], description["models"][0]["version"]) == (40000, "35624")
    assert result.output == work.work / "out.nef"
    assert result.summary["model_ids"] == [40000]
    assert result.versions["kneron_toolchain"] == "kneron/toolchain:v0.33.1"
    json.dumps(result.report, allow_nan=False)


def test_the_onnx_stage_reports_graph_estimate_and_missing_operators(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path).run(Stage.ONNX, tool)
    assert result.report["optimizer"] == "kneronnxopt.optimize"
    assert result.report["evaluation"]["fps"] == 54.0 and result.summary["fps_estimate"] == 54.0
    assert [entry["operator"] for entry in result.report["operators_probably_missing"]] == ["Softmax"]
    assert "CC BY-SA" in result.report["operators_source"]
    assert [node.op_type for node in onnx.load(result.output).graph.node] == ["Conv", "Softmax"]
    assert set(result.extra_files) == {"onnx.model_fx_report.json", "onnx.model_fx_report.html"}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    """A job that has its BIE, and what that stage said."""
    folder = tmp_path_factory.mktemp("quantized")
    work = job(folder, mode=2).prime()
    return work, work.run(Stage.BIE, kneron.toolchain(folder))


def test_the_bie_stage_reports_speed_bits_and_samples(quantized: Quantized) -> None:
    _, result = quantized
    assert result.summary["fps"] == 54.0 and result.summary["snr_db"] == 33.25 and result.summary["samples"] == 3
    assert result.report["quantization"]["bits"]["datapath"] == "int8"
    assert set(result.extra_files) == {"bie.meta.json", "bie.model_fx_report.json", "bie.model_fx_report.html"}


def test_the_nef_stage_keeps_the_io_description(quantized: Quantized, tool: KneronToolchain) -> None:
    result = quantized[0].run(Stage.NEF, tool)
    assert json.loads(result.extra_files["nef.ioinfo.json"].read_text())["input"][0]["name"] == "input"
    assert "nef.fw_info.txt" in result.extra_files


def test_the_vendor_gets_exactly_the_preprocessed_samples(quantized: Quantized) -> None:
    work, _ = quantized
    digest = hashlib.sha256()
    for path in sorted(work.images.iterdir()):
        digest.update(np.load(path)["input"].tobytes())
    assert bie_facts(work.work)["inputs"]["input"]["sha256"] == digest.hexdigest()
    assert bie_facts(work.work)["threads"] == 2


def test_a_model_with_two_inputs_is_calibrated_on_both(tmp_path: Path, tool: KneronToolchain) -> None:
    made = kneron.model(inputs=("left", "right:0"))
    work = kneron.Job(tmp_path, made, kneron.options("720"))
    onnx_result = work.run(Stage.ONNX, tool)
    assert "right:0" in told(onnx_result), "an odd input name is told"
    work.run(Stage.BIE, tool)
    facts = bie_facts(work.work)["inputs"]
    assert facts["left"]["count"] == facts["right:0"]["count"] == 3
    assert facts["left"]["sha256"] != facts["right:0"]["sha256"]


def test_calibration_files_do_not_outlive_the_stage(quantized: Quantized) -> None:
    assert list(quantized[0].work.rglob("*.npy")) == []


# --- the model as it is staged --------------------------------------------------------------------
def test_a_newer_ir_version_is_lowered_and_noted(tmp_path: Path, tool: KneronToolchain) -> None:
    result = kneron.Job(tmp_path, kneron.model(ir=10), kneron.options()).run(Stage.ONNX, tool)
    assert "IR version 10 → 8" in result.report["notes"]


def test_given_shapes_fix_an_open_one(tmp_path: Path, tool: KneronToolchain) -> None:
    made = kneron.model(shape=(1, 3, "H", "W"))
    with pytest.raises(DynamicShape):
        kneron.Job(tmp_path / "a", made, kneron.options(), samples=0).run(Stage.ONNX, tool)
    chosen = kneron.options(input_shapes={"input": (1, 3, 8, 8)})
    result = kneron.Job(tmp_path / "b", made, chosen).run(Stage.ONNX, tool)
    dims = onnx.load(result.output).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 3, 8, 8]


def test_weights_that_are_listed_as_inputs_are_not_calibrated(tmp_path: Path, tool: KneronToolchain) -> None:
    made = kneron.model(ir=3, opset=9)
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 1, 1]))
    work = kneron.Job(tmp_path, made, kneron.options(), samples=0)
    np.savez(work.images / "a.npz", input=np.zeros((1, 3, 8, 8), np.float32))
    result = work.run(Stage.ONNX, tool)
    assert [value.name for value in onnx.load(result.output).graph.input] == ["input"]
    work.run(Stage.BIE, tool)
    assert set(bie_facts(work.work)["inputs"]) == {"input"}


def test_few_samples_are_told(quantized: Quantized, tmp_path: Path, tool: KneronToolchain) -> None:
    assert "only 3 reference samples" in told(quantized[1])
    assert "reference samples" not in told(job(tmp_path, samples=20).prime().run(Stage.BIE, tool))
