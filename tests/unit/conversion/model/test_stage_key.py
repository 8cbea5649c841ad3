"""The name of a piece of work: the same for the same work, another for whatever may change the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.conversion import model
from app.conversion.model import Artifact, JobRecord, Stage, Status
from app.conversion.model.stage_key import CALIBRATION, STAGE_CODE, stage_key, stage_options
from app.conversion.options import HostQuantization, KneronOptions, Options
from app.toolchain_names import ToolchainName

VERSIONS = {"onnx": "1.23", "onnxruntime": "1.31"}
FILES = ("model.onnx", "quant.zip", "out.onnx", "onnx.meta.json", "out.bie")


def record(stage: Stage, options: Options | None = None, **digests: str) -> JobRecord:
    artifacts = {name: Artifact(name, 1, digests.get(name.replace(".", "_"), f"of {name}")) for name in FILES}
    begun = model.submitted(
        "job", now="2026", owner="a", name="n", tags=(), options=options or Options(), inputs=artifacts, intake={}
    )
    return replace(begun, stage=stage, status=Status(stage.value))


def key(about: JobRecord, versions: dict[str, str] = VERSIONS, machine: str = "x86_64") -> str | None:
    return stage_key(about, versions=versions, machine=machine)


@pytest.mark.parametrize("stage", list(Stage))
def test_whose_job_it_is_and_what_it_is_called_does_not_matter(stage: Stage) -> None:
    mine = record(stage)
    assert key(mine) == key(replace(mine, owner="b", name="other", tags=("t",), job_id="x", no_cache=True))


@pytest.mark.parametrize("stage", list(Stage))
def test_versions_machine_and_stage_do(stage: Stage) -> None:
    about = record(stage)
    others = [key(about, {**VERSIONS, "onnx": "1.24"}), key(about, machine="aarch64")]
    others += [key(record(other)) for other in Stage if other is not stage]
    assert key(about) not in others and len(set(others)) == 4


@pytest.mark.parametrize("stage", list(Stage))
def test_the_version_of_our_own_code_does_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(record(stage))
    monkeypatch.setattr("app.conversion.model.stage_key.STAGE_CODE", STAGE_CODE - 1)
    assert key(record(stage)) != before


@pytest.mark.parametrize(
    ("changed", "stages"),
    [
        ("model_onnx", {Stage.ONNX}),
        ("quant_zip", {Stage.ONNX, Stage.BIE}),
        ("out_onnx", {Stage.BIE}),
        ("onnx_meta_json", {Stage.BIE}),
        ("out_bie", {Stage.NEF}),
    ],
)
def test_each_stage_heeds_what_it_reads_and_nothing_else(changed: str, stages: set[Stage]) -> None:
    assert {stage for stage in Stage if key(record(stage)) != key(record(stage, **{changed: "another"}))} == stages


def test_the_samples_count_by_what_they_are_and_not_by_how_they_were_packed() -> None:
    packed, otherwise = record(Stage.BIE), record(Stage.BIE, quant_zip="another zip")
    same = {CALIBRATION: "the same pictures"}
    assert key(replace(packed, intake=same)) == key(replace(otherwise, intake=same)) != key(packed)
    assert key(replace(packed, intake={CALIBRATION: "others"})) != key(replace(packed, intake=same))


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ({"quantization": HostQuantization(method="entropy")}, {Stage.BIE}),
        ({"input_shapes": {"x": (1, 3, 8, 8)}}, {Stage.ONNX}),
        ({"allow_damaged_images": True}, {Stage.ONNX, Stage.BIE}),
        ({"kneron": KneronOptions(model_id=40000)}, set()),
    ],
)
def test_an_option_matters_to_the_stages_that_read_it(change: dict[str, Any], stages: set[Stage]) -> None:
    changed = Options().model_copy(update=change)
    assert {stage for stage in Stage if key(record(stage)) != key(record(stage, changed))} == stages


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ({"weight_compress": True}, {Stage.NEF}),
        ({"opt_matmul": True}, {Stage.ONNX}),
        ({"datapath_range_method": "mmse"}, {Stage.BIE}),
        ({"compiler_tiling": "deep_search"}, {Stage.ONNX, Stage.BIE, Stage.NEF}),
        ({"model_id": 40000}, {Stage.ONNX, Stage.BIE, Stage.NEF}),
        ({"datapath_bitwidth_mode": "int16"}, {Stage.ONNX, Stage.BIE}),
    ],
)
def test_a_vendors_argument_likewise(change: dict[str, Any], stages: set[Stage]) -> None:
    plain = Options(toolchain=ToolchainName.KNERON, platform="720")
    changed = plain.model_copy(update={"kneron": KneronOptions(**change)})
    assert {stage for stage in Stage if key(record(stage, plain)) != key(record(stage, changed))} == stages


def test_every_option_matters_to_some_stage() -> None:
    for toolchain, platform in ((ToolchainName.HOST, None), (ToolchainName.KNERON, "720")):
        options = Options(toolchain=toolchain, platform=platform)
        own = "quantization" if toolchain is ToolchainName.HOST else "kneron"
        read = [stage_options(options, stage) for stage in Stage]
        names = {name for chosen in read for name in chosen.get(own, {})}
        assert names == set(type(getattr(options, own)).model_fields)
        expected = {"input_shapes", "preprocess", "allow_damaged_images", own} | ({"platform"} if platform else set())
        assert {name for chosen in read for name in chosen} == expected


def test_where_something_is_not_known_there_is_no_name() -> None:
    about = record(Stage.BIE)
    assert key(about, {}) is None
    assert key(about, {"kneron_toolchain": ""}) is None
    assert key(replace(about, artifacts={})) is None
