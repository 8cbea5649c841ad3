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

from app.conversion.errors import (
    DynamicShape,
    ImagesTooLarge,
    TooNewModel,
    UnsupportedInput,
)
from app.conversion.model import Stage
from app.conversion.toolchains.kneron import KneronToolchain, arguments, nef, staging
from tests.harness.paths import SHARED_DATA
from tests.standins import kneron


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


def job(tmp_path: Path, fail: str = "", platform: str = "520", samples: int = 3, **changes: Any) -> kneron.Job:
    return kneron.Job(tmp_path, kneron.model(fail), kneron.options(platform, **changes), samples=samples)


def bie_facts(work: Path) -> dict[str, Any]:
    return json.loads((work / "out.bie").read_bytes().split(b"\n", 1)[1])


def told(result: Any) -> str:
    return "\n".join(result.report["warnings"])


# --- the way through ------------------------------------------------------------------------------
@pytest.mark.parametrize("platform", ["520", "720", "530", "630", "730"])
def test_a_model_goes_from_onnx_to_a_nef_of_its_chip(tmp_path: Path, tool: KneronToolchain, platform: str) -> None:
    work = job(tmp_path, platform=platform, model_id=40000, version="8b28")
    result = work.until(Stage.NEF, tool)
    found = nef.probe(work.work / "out.nef")
    assert found["chip"] == platform and found["crc_ok"]
    assert (found["models"][0]["id"], found["models"][0]["version"]) == (40000, "35624")
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


def test_the_bie_stage_reports_speed_bits_and_samples(tmp_path: Path, tool: KneronToolchain) -> None:
    result = job(tmp_path, mode=2).prime().run(Stage.BIE, tool)
    assert result.summary["fps"] == 54.0 and result.summary["snr_db"] == 33.25 and result.summary["samples"] == 3
    assert result.report["quantization"]["bits"]["datapath"] == "int8"
    assert set(result.extra_files) == {"bie.meta.json", "bie.model_fx_report.json", "bie.model_fx_report.html"}


def test_the_nef_stage_keeps_the_io_description(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path).prime()
    work.run(Stage.BIE, tool)
    result = work.run(Stage.NEF, tool)
    assert json.loads(result.extra_files["nef.ioinfo.json"].read_text())["input"][0]["name"] == "input"
    assert "nef.fw_info.txt" in result.extra_files


def test_the_vendor_gets_exactly_the_preprocessed_samples(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path).prime()
    work.run(Stage.BIE, tool)
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


def test_calibration_files_do_not_outlive_the_stage(tmp_path: Path, tool: KneronToolchain) -> None:
    work = job(tmp_path).prime()
    work.run(Stage.BIE, tool)
    assert list(work.work.rglob("*.npy")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["face_rfb_320", "headpose_fsanet_1x1", "cls_mobilenet_v2_128_dynamic_batch"])
def test_real_models_go_through(tmp_path: Path, tool: KneronToolchain, name: str) -> None:
    path = SHARED_DATA / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the shared models are not here")
    work = kneron.Job(tmp_path, kneron.model(), kneron.options("720"), samples=0)
    (work.work / "model.onnx").write_bytes(path.read_bytes())
    (work.images / "a.jpg").write_bytes(next((SHARED_DATA / "images").glob("face_*.jpg")).read_bytes())
    work.until(Stage.NEF, tool)
    assert nef.probe(work.work / "out.nef")["chip"] == "720"


# --- the model as it is staged --------------------------------------------------------------------
def test_a_newer_ir_version_is_lowered_and_noted(tmp_path: Path, tool: KneronToolchain) -> None:
    result = kneron.Job(tmp_path, kneron.model(ir=10), kneron.options()).run(Stage.ONNX, tool)
    assert any("from 10 to 8" in note for note in result.report["notes"])


def test_a_newer_opset_is_refused_before_the_vendor_is_started(tmp_path: Path, tool: KneronToolchain) -> None:
    with pytest.raises(TooNewModel, match="opset 19"):
        kneron.Job(tmp_path, kneron.model(opset=19), kneron.options()).run(Stage.ONNX, tool)
    assert not (tmp_path / "work" / "scratch" / "kneron_onnx" / "vendor.log").exists()


def test_an_input_that_is_not_float32_is_refused(tmp_path: Path, tool: KneronToolchain) -> None:
    with pytest.raises(UnsupportedInput, match="float32 inputs only"):
        made = kneron.model(dtype=TensorProto.DOUBLE)
        kneron.Job(tmp_path, made, kneron.options(), samples=0).run(Stage.ONNX, tool)


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


def test_shapes_are_not_passed_on_when_a_name_holds_the_separator() -> None:
    chosen = kneron.options(input_shapes={"x:0": (1, 3)})
    assert "overwrite_input_shapes" not in arguments.optimize(chosen, {"x:0": (1, 3)})
    chosen = kneron.options(input_shapes={"x": (1, 3)})
    assert arguments.optimize(chosen, {"x": (1, 3)})["overwrite_input_shapes"] == ["x:1,3"]


def test_too_much_calibration_data_is_refused_by_size(
    tmp_path: Path, tool: KneronToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CALIBRATION_LIMIT", 1000)
    with pytest.raises(ImagesTooLarge, match="reads them all at once"):
        job(tmp_path).prime().run(Stage.BIE, tool)


def test_few_samples_are_told(tmp_path: Path, tool: KneronToolchain) -> None:
    assert "only 3 reference samples" in told(job(tmp_path).prime().run(Stage.BIE, tool))
    assert "reference samples" not in told(job(tmp_path / "b", samples=20).prime().run(Stage.BIE, tool))


def test_arguments_of_one_method_are_sent_only_with_it() -> None:
    plain = arguments.analysis(kneron.options("720").kneron, 2)
    assert "percentage" in plain and "percentile" not in plain and "flops_ratio" not in plain
    assert plain["mode"] == 1, "the vendor's default differs between its own pages"
    mixed = kneron.options(
        "720", datapath_range_method="mmse", datapath_bitwidth_mode="mixbw", weight_bitwidth_mode="mixbw"
    )
    sent = arguments.analysis(mixed.kneron, 2)
    assert "outlier_factor" in sent and "percentage" not in sent and sent["flops_ratio"] == 0.2
