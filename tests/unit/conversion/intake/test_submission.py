"""What is checked when a conversion is submitted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from PIL import Image

from app.conversion.errors import (
    BadArchive,
    BadLabels,
    DamagedSamples,
    DynamicShape,
    ExternalWeights,
    ModelTooLarge,
    NoSamples,
    NotOnnx,
    SamplesTooLarge,
    TooNewModel,
    UnsupportedInput,
    WrongSampleType,
)
from app.conversion.intake.entry_points import SubmissionResult
from app.conversion.intake.model_checks import READS, CheckedModel, check_model
from app.conversion.intake.submission import check_submission
from app.conversion.options import Chip, Options, ToolchainName
from app.inference.errors import InvalidModel, UnsupportedOperator, WrongSampleShape
from tests.harness.models import small
from tests.harness.submission import request_of, submit

HOST = Options()
KNERON = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL520)


def check(tmp_path: Path, model: onnx.ModelProto, options: Options = HOST) -> CheckedModel:
    return check_model(small.write(tmp_path / "model.onnx", model), options, max_bytes=1 << 30)


def pictures(path: Path, count: int = 3, **others: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(count):
            with archive.open(f"pics/{index}.png", "w") as file:
                Image.new("RGB", (16, 16), (index, 0, 0)).save(file, "PNG")
        for name, data in others.items():
            archive.writestr(name, data)
    return path


# --- the model ------------------------------------------------------------------------------------
def test_a_good_model_is_described_and_left_alone(tmp_path: Path) -> None:
    before = small.conv(("N", 3, 8, 8))
    checked = check(tmp_path, before)
    assert checked.facts["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}]
    assert checked.facts["size_bytes"] == (tmp_path / "model.onnx").stat().st_size
    assert checked.inputs[0].shape == (1, 3, 8, 8)
    assert checked.changes == ["input 'x': shape [N, 3, 8, 8] fixed to [1, 3, 8, 8]"]
    assert checked.warnings == []
    assert onnx.load(tmp_path / "model.onnx") == before


def test_a_model_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x" * 101)
    with pytest.raises(ModelTooLarge, match="101 bytes; 100 are allowed"):
        check_model(path, HOST, max_bytes=100)


def test_what_the_loader_refuses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(NotOnnx):
        check_model(tmp_path / "model.onnx", HOST, max_bytes=1000)


def loads(opset: int, ir: int) -> bool:
    onnxruntime.set_default_logger_severity(4)
    with contextlib.suppress(Exception):
        onnxruntime.InferenceSession(
            small.relu(opset=opset, ir=ir).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        return True
    return False


def test_the_host_limits_are_those_of_the_installed_runtime() -> None:
    reads = READS[ToolchainName.HOST]
    assert loads(reads.versions.opset[-1], 8)
    assert not loads(reads.versions.opset.stop, 8)
    assert loads(17, reads.versions.ir_max)
    assert not loads(17, reads.versions.ir_max + 1)
    assert f"onnxruntime {'.'.join(onnxruntime.__version__.split('.')[:2])}" in reads.versions.label


@pytest.mark.parametrize(("options", "opset"), [(HOST, 26), (HOST, 7), (KNERON, 18), (KNERON, 8)])
def test_the_first_and_the_last_opset_are_taken(tmp_path: Path, options: Options, opset: int) -> None:
    assert check(tmp_path, small.relu(opset=opset), options).facts["opset"] == opset


@pytest.mark.parametrize(("options", "opset"), [(HOST, 99), (KNERON, 19)])
def test_an_opset_that_is_too_new_is_refused(tmp_path: Path, options: Options, opset: int) -> None:
    with pytest.raises(TooNewModel, match=f"opset {opset}; toolchain {options.toolchain.value}") as caught:
        check(tmp_path, small.relu(opset=opset), options)
    assert "opset_version=17" in caught.value.hint


def test_an_opset_that_is_too_old_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="opset 7"):
        check(tmp_path, small.relu(opset=7), KNERON)


@pytest.mark.parametrize(("opset", "nearest"), [(27, 26), (28, 26), (6, 7), (1, 7)])
def test_an_opset_that_onnxruntime_does_not_read_is_converted_to_the_nearest(
    tmp_path: Path, opset: int, nearest: int
) -> None:
    checked = check(tmp_path, small.relu(opset=opset), HOST)
    assert (checked.facts["opset"], checked.changes) == (nearest, [f"opset {opset} → {nearest}"])


def test_an_opset_that_onnx_cannot_convert_is_refused_with_the_reason(tmp_path: Path) -> None:
    old = small.relu(opset=6)
    old.graph.node[0].op_type = "Upsample"
    with pytest.raises(
        InvalidModel, match=r"opset 6; toolchain host .* reads from 7 on, and onnx cannot convert it \("
    ):
        check(tmp_path, old, HOST)


@pytest.mark.parametrize(("options", "ir_max"), [(HOST, 13), (KNERON, 8)])
def test_an_ir_version_that_is_too_new_is_lowered(tmp_path: Path, options: Options, ir_max: int) -> None:
    assert ir_max < onnx.IR_VERSION
    assert check(tmp_path, small.relu(ir=ir_max), options).changes == []
    checked = check(tmp_path, small.relu(ir=onnx.IR_VERSION), options)
    assert checked.facts["ir_version"] == ir_max
    assert checked.changes == [f"IR version {onnx.IR_VERSION} → {ir_max}"]


@pytest.mark.parametrize("options", [HOST, KNERON])
def test_an_ir_version_that_onnx_does_not_know_is_refused(tmp_path: Path, options: Options) -> None:
    with pytest.raises(TooNewModel, match=f"IR version {onnx.IR_VERSION + 1}; "):
        check(tmp_path, small.relu(ir=onnx.IR_VERSION + 1), options)


@pytest.mark.parametrize("versions", [{"ir": 14}, {"opset": 27}, {"opset": 6}])
def test_a_model_that_runs_as_it_is_needs_versions_that_are_read(tmp_path: Path, versions: dict[str, int]) -> None:
    path = small.write(tmp_path / "model.onnx", small.relu(**versions))
    with pytest.raises((TooNewModel, InvalidModel), match="toolchain host"):
        check_model(path, HOST, max_bytes=1 << 20, as_it_is=True)


def with_operator(operator: str, domain: str = "", opset: int = 13) -> onnx.ModelProto:
    model = small.relu(opset=opset, domains=[(domain, 1)] if domain else [])
    model.graph.node.append(helper.make_node(operator, ["x"], ["z"], name="strange", domain=domain))
    return model


@pytest.mark.parametrize(
    ("operator", "domain", "opset", "where"),
    [
        ("Frobnicate", "", 13, "in opset 13"),
        ("Gelu", "", 13, "in opset 13"),  # came with opset 20
        ("Upsample", "", 11, "in opset 11"),  # went with opset 10
        ("NMS", "mmdeploy", 13, "of domain mmdeploy"),
    ],
)
def test_an_unknown_operator_is_refused_naming_it_and_its_node(
    tmp_path: Path, operator: str, domain: str, opset: int, where: str
) -> None:
    with pytest.raises(UnsupportedOperator, match=rf"operator {operator} {where} \(node 'strange'\)") as caught:
        check(tmp_path, with_operator(operator, domain, opset))
    assert caught.value.detail["operators"] == [
        {"operator": operator, "domain": domain, "count": 1, "nodes": ["strange"]}
    ]


def test_operators_of_the_runtime_are_for_host_only(tmp_path: Path) -> None:
    check(tmp_path, with_operator("Gelu", "com.microsoft"))
    with pytest.raises(UnsupportedOperator, match=r"domain com\.microsoft"):
        check(tmp_path, with_operator("Gelu", "com.microsoft"), KNERON)


def test_operators_that_the_model_defines_itself_are_known(tmp_path: Path) -> None:
    model = with_operator("Mine", "local")
    model.functions.append(
        helper.make_function(
            "local", "Mine", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 13)]
        )
    )
    check(tmp_path, model)


def test_an_operator_set_that_is_not_imported_is_refused(tmp_path: Path) -> None:
    model = small.relu()
    model.graph.node.append(helper.make_node("Scaler", ["x"], ["z"], domain="ai.onnx.ml"))
    with pytest.raises(InvalidModel, match=r"ai\.onnx\.ml, which the model does not import"):
        check(tmp_path, model)


def test_a_graph_that_breaks_the_rules_is_refused_with_the_reason(tmp_path: Path) -> None:
    model = small.relu()
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(InvalidModel, match=r"breaks the rules of ONNX: .*topologically"):
        check(tmp_path, model)


def test_an_output_whose_rank_nobody_wrote_down_is_no_broken_rule(tmp_path: Path) -> None:
    model = small.relu()
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert check(tmp_path, model).facts["outputs"] == [{"name": "y", "shape": ["..."], "dtype": "float32"}]
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(InvalidModel, match="topologically"):
        check(tmp_path, model)


def test_an_input_without_a_rank_gets_the_shape_the_user_gives(tmp_path: Path) -> None:
    with pytest.raises(DynamicShape):
        check(tmp_path, small.relu(None))
    assert check(tmp_path, small.relu(None), Options(input_shapes={"x": (1, 5)})).inputs[0].shape == (1, 5)


def test_inputs_of_other_types_are_for_host_only(tmp_path: Path) -> None:
    check(tmp_path, small.relu(dtype=TensorProto.FLOAT16))
    with pytest.raises(UnsupportedInput, match="'x' is float16"):
        check(tmp_path, small.relu(dtype=TensorProto.FLOAT16), KNERON)


def test_inputs_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    text = [small.value(name, [1], TensorProto.STRING) for name in "xy"]
    with pytest.raises(UnsupportedInput, match="'x' is string"):
        check(tmp_path, small.model([node], text[:1], text[1:]))


def test_a_model_without_inputs_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Constant", [], ["y"], value_float=1.0)
    with pytest.raises(UnsupportedInput, match="no inputs"):
        check(tmp_path, small.model([node], [], [small.value("y", [])]))


def test_dynamic_shapes_need_a_shape_from_the_user(tmp_path: Path) -> None:
    model = small.conv(("N", 3, "H", "W"))
    with pytest.raises(DynamicShape, match="'x'"):
        check(tmp_path, model)
    checked = check(tmp_path, model, Options(input_shapes={"x": (1, 3, 8, 8)}))
    assert checked.facts["macs"] == 6912


def test_kneron_takes_batches_of_one(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedInput, match=r"\[2, 3, 8, 8\]"):
        check(tmp_path, small.conv((2, 3, 8, 8)), KNERON)
    check(tmp_path, small.conv((2, 3, 8, 8)))


def test_operators_that_the_chip_lacks_are_warned_of(tmp_path: Path) -> None:
    model = small.conv()
    model.graph.node.append(helper.make_node("Sigmoid", ["y"], ["z"], name="s"))
    (warning,) = check(tmp_path, model, KNERON).warnings
    assert warning["code"] == "OPERATOR_PROBABLY_NOT_ON_NPU"
    assert warning["detail"]["nodes"] == ["s"]
    assert check(tmp_path, model).warnings == []


# --- the whole submission -------------------------------------------------------------------------
def test_a_good_submission_is_described_in_plain_data(tmp_path: Path) -> None:
    images = pictures(tmp_path / "quant.zip", **{"notes.csv": b"1"})
    description = submit(tmp_path, small.conv(("N", 3, 8, 8)), images)
    assert json.loads(json.dumps(description)) == description
    samples = {"samples": 3, "skipped": [], "kinds": {"image": 3}, "ignored": ["notes.csv"], "labeled": 0}
    assert description["samples"] == samples
    assert [warning["code"] for warning in description["warnings"]][:2] == ["FEW_SAMPLES", "FILES_IGNORED"]
    assert description["model"]["macs"] == 6912
    assert len(description["changes"]) == 1
    assert description["sha256"] == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "model.onnx", images)
    }


def test_progress_rises_to_one(tmp_path: Path) -> None:
    steps: list[float] = []
    request = request_of(small.write(tmp_path / "model.onnx", small.conv()), pictures(tmp_path / "quant.zip"))
    check_submission(request, lambda fraction, message: steps.append(fraction))
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0.0, 1.0)


def test_a_damaged_picture_refuses_the_job_unless_the_user_allows_it(tmp_path: Path) -> None:
    images = pictures(tmp_path / "quant.zip", **{"bad.jpg": b"text"})
    with pytest.raises(DamagedSamples, match=r"bad\.jpg"):
        submit(tmp_path, small.conv(), images)
    for path in (tmp_path / "unpacked").iterdir():
        path.unlink()
    description = submit(tmp_path, small.conv(), images, {"allow_damaged_images": True})
    assert description["samples"]["samples"] == 3
    assert description["samples"]["skipped"][0]["name"] == "bad.jpg"
    assert "SAMPLES_SKIPPED" in [warning["code"] for warning in description["warnings"]]


def test_pictures_for_a_model_that_takes_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongSampleShape, match="pictures do not fit"):
        submit(tmp_path, small.relu(), pictures(tmp_path / "quant.zip"))


def test_labels_count_as_what_a_job_is_made_of(tmp_path: Path) -> None:
    digests = []
    for label in (b"0", b"1"):
        folder = tmp_path / label.decode()
        folder.mkdir()
        images = pictures(folder / "quant.zip", **{"pics/labels.csv": b"file,label\npics/0.png," + label})
        description = submit(folder, small.conv(), images)
        assert (description["samples"]["labeled"], description["samples"]["ignored"]) == (1, [])
        digests.append(description["calibration_sha256"])
    assert digests[0] != digests[1]


@pytest.mark.parametrize(("labels", "words"), [(b"file,label\nother.png,1", "none of the 3"), (b"?", "cannot be read")])
def test_labels_of_other_pictures_or_in_no_form_are_refused(tmp_path: Path, labels: bytes, words: str) -> None:
    with pytest.raises(BadLabels, match=words):
        submit(tmp_path, small.conv(), pictures(tmp_path / "quant.zip", **{"labels.csv": labels}))


def test_arrays_in_a_zip_or_bare_are_taken(tmp_path: Path) -> None:
    with (tmp_path / "bare").open("wb") as file:
        np.save(file, np.random.default_rng(0).normal(0, 1, (30, 39)).astype(np.float32))
    description = submit(tmp_path, small.relu(), tmp_path / "bare")
    assert description["samples"] == {"samples": 30, "skipped": [], "kinds": {"npy": 30}, "ignored": [], "labeled": 0}
    assert description["warnings"] == []


def same_pictures(path: Path, picture: Image.Image) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(25):
            with archive.open(f"{index}.png", "w") as file:
                picture.save(file, "PNG")
    return path


def test_what_the_doctor_warns_of_is_told_with_the_submission(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    for number, (picture, codes) in enumerate(
        (
            (Image.fromarray(noise), {"ALL_THE_SAME"}),
            (Image.new("RGB", (16, 16)), {"ALL_THE_SAME", "BLANK"}),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        description = submit(folder, small.conv(), same_pictures(folder / "quant.zip", picture))
        told = {warning["code"]: warning for warning in description["warnings"]}
        assert codes <= set(told)
        assert told["ALL_THE_SAME"]["message"] == (
            "All 25 samples are one and the same. Calibration needs variety: send different pictures."
        )
    assert len(told["BLANK"]["detail"]["samples"]) == 25


def test_arrays_are_looked_at_too(tmp_path: Path) -> None:
    with (tmp_path / "bare").open("wb") as file:
        np.save(file, np.ones((30, 39), np.float32))
    description = submit(tmp_path, small.relu(), tmp_path / "bare")
    assert {"ALL_THE_SAME", "CONSTANT"} <= {warning["code"] for warning in description["warnings"]}


def test_a_float64_array_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "bare").open("wb") as file:
        np.save(file, np.zeros((30, 39)))
    with pytest.raises(WrongSampleType, match="float64"):
        submit(tmp_path, small.relu(), tmp_path / "bare")


def test_several_inputs_are_fed_from_a_npz(tmp_path: Path) -> None:
    with (tmp_path / "bare").open("wb") as file:
        np.savez(file, a=np.zeros((30, 4), np.float32), b=np.zeros((30, 4), np.float32))
    assert submit(tmp_path, small.add((1, 4), (1, 4)), tmp_path / "bare")["samples"]["samples"] == 30


def test_a_zip_of_no_samples_and_a_file_that_is_no_zip_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSamples):
        submit(tmp_path, small.conv(), pictures(tmp_path / "quant.zip", 0, **{"a.txt": b"1"}))
    (tmp_path / "text").write_text("text")
    with pytest.raises(BadArchive):
        submit(tmp_path, small.conv(), tmp_path / "text")


@pytest.mark.parametrize(("limit", "value"), [("images_bytes", 100), ("unpacked_bytes", 100), ("max_images", 2)])
def test_the_limits_on_samples_hold(tmp_path: Path, limit: str, value: int) -> None:
    with pytest.raises(SamplesTooLarge):
        submit(tmp_path, small.conv(), pictures(tmp_path / "quant.zip"), **{limit: value})


def test_the_limit_on_the_model_holds(tmp_path: Path) -> None:
    with pytest.raises(ModelTooLarge):
        submit(tmp_path, small.conv(), pictures(tmp_path / "quant.zip"), model_bytes=100)


def test_samples_in_a_stack_count_towards_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "bare").open("wb") as file:
        np.save(file, np.zeros((30, 39), np.float32))
    with pytest.raises(SamplesTooLarge, match="30 reference samples"):
        submit(tmp_path, small.relu(), tmp_path / "bare", max_images=29)


def test_external_weights_are_refused_at_once(tmp_path: Path) -> None:
    model = small.conv()
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(ExternalWeights):
        submit(tmp_path, model, pictures(tmp_path / "quant.zip"))


# --- the preprocessing --------------------------------------------------------------------------------
def ultraface() -> onnx.ModelProto:
    """By its shapes one of the family that takes (x - 127) / 128."""
    model = small.relu((1, 3, 240, 320))
    del model.graph.output[:]
    model.graph.output.extend([small.value("y", [1, 4420, 2]), small.value("z", [1, 4420, 4])])
    model.graph.node.append(helper.make_node("Relu", ["x"], ["z"]))
    return model


def submit_open(tmp_path: Path, model: onnx.ModelProto, images: Path, *, is_open: bool) -> SubmissionResult:
    request = request_of(small.write(tmp_path / "model.onnx", model), images)
    return check_submission({**request, "is_preprocess_open": is_open}, lambda fraction, message: None)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_recognized_preprocessing_is_taken_where_none_was_named(tmp_path: Path, is_open: bool) -> None:
    answer = submit_open(tmp_path, ultraface(), pictures(tmp_path / "quant.zip"), is_open=is_open)
    assert answer["recognition"]["family"] == "ultraface"
    assert answer["recognition"]["is_taken"] is is_open
    assert answer["recognition"]["preprocess"]["mean"] == [127.0]


def test_arrays_are_taken_as_they_are_so_nothing_is_taken_for_them(tmp_path: Path) -> None:
    images = tmp_path / "quant.zip"
    with zipfile.ZipFile(images, "w") as archive, archive.open("a.npy", "w") as file:
        np.save(file, np.zeros((1, 3, 240, 320), np.float32))
    answer = submit_open(tmp_path, ultraface(), images, is_open=True)
    assert answer["recognition"]["is_taken"] is False


def test_a_doubtful_preprocessing_is_said_and_not_taken(tmp_path: Path) -> None:
    model = small.relu((1, 3, 112, 112))
    model.graph.output[0].CopyFrom(small.value("y", [1, 512]))
    answer = submit_open(tmp_path, model, pictures(tmp_path / "quant.zip"), is_open=True)
    assert answer["recognition"]["is_taken"] is False
    doubts = [warning for warning in answer["warnings"] if warning["code"] == "PREPROCESS_UNSURE"]
    assert "(x − 127.5) / 127.5" in doubts[0]["message"]
