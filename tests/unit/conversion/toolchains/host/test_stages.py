from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from PIL import Image

from app.conversion.errors import DamagedSamples, NoSamples, NotFinite
from app.conversion.model import Stage
from app.conversion.options import HostQuantization, Options
from app.conversion.toolchains.host.bie_report import quality_warnings, speed_warnings
from app.conversion.toolchains.host.quality import build_judged_verdict
from app.conversion.toolchains.host.quantization_plan import plan
from app.inference.errors import InvalidModel, UnsupportedOperator, WrongSampleShape
from app.inference.runtimes.sessions import HostModel
from app.kit.errors import BadInput
from app.kit.sandbox.errors import StageFailed
from tests.harness.models.host import (
    arrays,
    convolutional,
    model_of,
    pictures,
    random_weights,
    run_all,
    run_stage,
    two_inputs,
    work_folder,
)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Stage, dict]]:
    folder = work_folder(tmp_path_factory.mktemp("job"), convolutional(batch="N"), pictures(6))
    return folder, {stage: result.report for stage, result in run_all(folder).items()}


@pytest.mark.slow
def test_the_onnx_report_tells_what_the_model_is_and_was(converted: tuple[Path, dict[Stage, dict]]) -> None:
    report = converted[1][Stage.ONNX]
    assert report["model"]["inputs"][0]["shape"] == [1, 3, 16, 16]
    assert report["model"]["outputs"][0]["shape"] == [1, 4, 16, 16]
    assert "BatchNormalization" in report["original"]["operators"]
    assert "BatchNormalization" not in report["model"]["operators"]
    assert report["model"]["macs"] > 0 and report["changes"]


@pytest.mark.slow
def test_the_onnx_stage_proves_equality_on_the_reference_samples(converted: tuple[Path, dict[Stage, dict]]) -> None:
    equivalence = converted[1][Stage.ONNX]["equivalence"]
    assert equivalence["samples"] == 6
    assert equivalence["outputs"][0]["snr_db"]["min"] > 100


def test_the_bie_report_has_quality_size_latency_and_a_verdict(converted: tuple[Path, dict[Stage, dict]]) -> None:
    report = converted[1][Stage.BIE]
    output = report["quality"]["outputs"][0]
    assert set(output["snr_db"]) == {"mean", "min", "p5", "n"} and output["snr_db"]["n"] == 6
    assert output["snr_db"]["min"] <= output["snr_db"]["p5"] <= output["snr_db"]["mean"]
    assert report["quality"]["images"] == "calibration images"
    assert report["verdict"]["passed"] and report["verdict"]["snr_db"] > 20
    assert report["size"]["float_bytes"] > 0 and report["latency_ms"]["int8"] > 0
    assert len(report["quality"]["worst_samples"]) == 6
    (taken,) = (one for one in report["search"]["candidates"] if one["is_taken"])
    assert report["calibration"] == {"method": taken["steps"][0]["method"], "samples": 6, "skipped": []}
    assert report["goal"]["is_reached"] and report["search"]["ended_by"] == "reached"
    kinds = {one["tensors_16"] for one in report["search"]["candidates"]}
    assert kinds == {0}, "what 8 bits hold gets no more"


def test_layers_carry_their_names_their_merged_activation_and_the_error_of_their_weights(
    converted: tuple[Path, dict[Stage, dict]],
) -> None:
    layers = {layer["name"]: layer for layer in converted[1][Stage.BIE]["quality"]["layers"]}
    assert layers["conv1"]["merged"] == "relu" and "relu" not in layers
    assert 30 < layers["conv1"]["weight_snr_db"] < 60
    assert layers["conv2"]["snr_db"]["mean"] > 20 and layers["conv2"]["cosine"]["mean"] > 0.99
    assert layers["softmax"]["int8"] is False and layers["softmax"]["weight_snr_db"] is None


def test_an_output_behind_a_softmax_is_marked_because_its_snr_flatters(
    converted: tuple[Path, dict[Stage, dict]],
) -> None:
    assert converted[1][Stage.BIE]["quality"]["outputs"][0]["saturates"] == "Softmax"


def test_post_processing_stays_in_float_and_the_report_says_so(converted: tuple[Path, dict[Stage, dict]]) -> None:
    tail = converted[1][Stage.BIE]["quantization"]["float_tail"]
    assert tail["operators"] == {"Softmax": 1} and "stays in float" in tail["reason"]


def test_a_bie_is_int8_and_carries_its_provenance(converted: tuple[Path, dict[Stage, dict]]) -> None:
    bie = onnx.load(str(converted[0] / "out.bie"))
    known = {prop.key: prop.value for prop in bie.metadata_props}
    assert "QuantizeLinear" in {node.op_type for node in bie.graph.node}
    assert (known["modelmill.kind"], known["modelmill.toolchain"]) == ("bie", "host")
    assert len(known["modelmill.source_sha256"]) == 64
    assert json.loads(known["modelmill.calibration"])["samples"] == 6
    assert set(json.loads(known["modelmill.versions"])) == {"onnx", "onnxruntime", "onnxslim", "numpy", "modelmill"}
    for key in ("quantization", "preprocess"):
        assert isinstance(json.loads(known[f"modelmill.{key}"]), dict)


def test_a_nef_names_its_ancestors_and_agrees_bit_by_bit_with_the_bie(
    converted: tuple[Path, dict[Stage, dict]],
) -> None:
    folder, reports = converted
    report = reports[Stage.NEF]
    assert report["agreement"]["bit_true"] is True
    model = HostModel(folder / "out.nef")
    assert all(len(sha256) == 64 for sha256 in model.manifest["ancestors"].values())
    assert model.manifest["notice"] == "runs on onnxruntime; not for a Kneron chip"
    y = model.run({"x": np.zeros((1, 3, 16, 16))})["y"]
    assert y.shape == (1, 4, 16, 16) and np.allclose(y.sum(axis=1), 1, atol=1e-5)


def test_a_nef_is_a_stored_zip_of_manifest_and_model(converted: tuple[Path, dict[Stage, dict]]) -> None:
    with zipfile.ZipFile(converted[0] / "out.nef") as archive:
        assert archive.namelist() == ["manifest.json", "model.ort"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_the_same_bie_makes_a_nef_of_the_same_manifest_and_the_same_results(
    converted: tuple[Path, dict[Stage, dict]], tmp_path: Path
) -> None:
    folder = work_folder(tmp_path, convolutional(), None)
    (folder / "out.bie").write_bytes((converted[0] / "out.bie").read_bytes())
    run_stage(Stage.NEF, folder)
    one, other = HostModel(converted[0] / "out.nef"), HostModel(folder / "out.nef")
    assert one.manifest | {"files": {}} == other.manifest | {"files": {}}
    x = {"x": np.random.default_rng(0).uniform(0, 1, (1, 3, 16, 16)).astype(np.float32)}
    assert np.array_equal(one.run(x)["y"], other.run(x)["y"])
    with zipfile.ZipFile(folder / "out.nef") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_nef_worker_needs_no_reference_images(converted: tuple[Path, dict[Stage, dict]], tmp_path: Path) -> None:
    folder = work_folder(tmp_path, convolutional(), None)
    (folder / "out.bie").write_bytes((converted[0] / "out.bie").read_bytes())
    report = run_stage(Stage.NEF, folder).report
    assert report["agreement"]["inputs"] == "seeded random values" and report["agreement"]["bit_true"]


def test_scratch_files_are_gone_or_in_scratch(converted: tuple[Path, dict[Stage, dict]]) -> None:
    names = {path.name for path in converted[0].iterdir()}
    assert names <= {"model.onnx", "ref_images", "scratch", "out.onnx", "out.bie", "out.nef"}


@pytest.mark.slow
def test_progress_rises_to_one_and_the_log_is_readable_and_free_of_the_quantizers_noise(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = work_folder(tmp_path, convolutional(), pictures(5))
    for stage in Stage:
        progress: list[tuple[float, str]] = []
        run_stage(stage, folder, progress_log=progress)
        fractions = [fraction for fraction, _ in progress]
        assert fractions == sorted(fractions) and fractions[-1] == 1.0
        if stage is Stage.BIE:
            assert [what for _, what in progress if what.startswith("calibrating")][-1] == "calibrating 5/5"
    out, err = capfd.readouterr()
    assert "calibrating" in out and "SNR" in out
    assert "pre-processing" not in out + err and "WARNING" not in out + err


@pytest.mark.parametrize(
    ("method", "activation"),
    [
        ("percentile", "int8"),
        ("entropy", "uint8"),
        *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in (("percentile", "uint8"), ("entropy", "int8"))),
    ],
)
def test_every_method_and_activation_type_gives_a_usable_bie(tmp_path: Path, method: str, activation: str) -> None:
    quantization = HostQuantization.model_validate({"method": method, "activation": activation, "per_channel": False})
    reports = run_all(work_folder(tmp_path, convolutional(), pictures(4)), Options(quantization=quantization))
    assert reports[Stage.BIE].report["verdict"]["passed"]
    assert reports[Stage.NEF].report["agreement"]["bit_true"]


@pytest.mark.slow
def test_an_old_opset_with_weights_among_its_inputs_is_upgraded(tmp_path: Path) -> None:
    model = convolutional(opset=9)
    model.graph.node[-1].attribute[0].i = 1
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    nodes = [node for node in model.graph.node if node.op_type != "Softmax"]  # its meaning changed with opset 13
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.node[-1].output[0] = "y"
    reports = run_all(work_folder(tmp_path, model, pictures(3)))
    report = reports[Stage.ONNX].report
    assert report["model"]["opset"] == 17 and report["original"]["opset"] == 9
    assert [spec["name"] for spec in report["model"]["inputs"]] == ["x"]
    assert any("opset 9 → 17" in change for change in report["changes"])


@pytest.mark.slow
def test_a_model_of_several_inputs_goes_through_all_stages(tmp_path: Path) -> None:
    def samples(folder: Path) -> None:
        for index in range(8):
            rng = np.random.default_rng(index)
            left, right = (rng.normal(0, 1, (1, n)).astype(np.float32) for n in (6, 4))
            np.savez(folder / f"pair_{index}.npz", left=left, right=right)

    folder = work_folder(tmp_path, two_inputs(), samples)
    reports = run_all(folder)
    assert reports[Stage.BIE].report["quality"]["samples"] == 8
    assert reports[Stage.BIE].report["verdict"]["passed"]
    inputs = HostModel(folder / "out.nef").inputs
    assert [spec["name"] for spec in inputs] == ["left", "right"]


def test_layers_inside_a_branch_are_named_as_what_is_not_quantized() -> None:
    ends = [helper.make_tensor_value_info("y", 1, [1, 8])]
    product, copy = helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Identity", ["x"], ["y"])
    branches = [helper.make_graph([node], "branch", [], ends) for node in (product, copy)]
    choice = helper.make_node("If", ["is_first"], ["y"], then_branch=branches[0], else_branch=branches[1])
    weights = {"w": random_weights(8, 8), "is_first": np.array(True)}
    problem = plan(model_of([choice], {"x": [1, 8]}, {"y": [1, 8]}, weights), HostQuantization()).problem
    assert problem.startswith("no node to quantize: the layers are inside If, where they stay in float")


def test_a_graph_with_nothing_to_quantize_still_becomes_a_bie_and_a_nef_with_a_warning(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Softmax", ["r"], ["y"], "softmax")]
    model = model_of(nodes, {"x": [1, 8]}, {"y": [1, 8]})
    reports = run_all(work_folder(tmp_path, model, arrays(4, 1, 8)))
    report = reports[Stage.BIE].report
    assert "no node to quantize" in report["warnings"][0] and len(report["warnings"]) == 1
    assert (report["verdict"]["passed"], report["verdict"]["nothing_quantized"]) == (False, True)
    assert reports[Stage.BIE].summary["passed"] is None
    assert report["quality"]["outputs"][0]["exact"] is True


@pytest.mark.parametrize(("folder_name", "words"), [("elsewhere", "no reference sample lies"), ("p", "all reference")])
def test_a_folder_to_report_on_holds_some_of_the_samples_and_not_all(
    tmp_path: Path, folder_name: str, words: str
) -> None:
    options = Options(quantization=HostQuantization(report_images=folder_name))
    folder = work_folder(tmp_path, convolutional(), pictures(2))
    for picture in (folder / "ref_images").iterdir():
        picture.rename(picture.with_name(f"p__{picture.name}"))
    run_stage(Stage.ONNX, folder, options)
    with pytest.raises(BadInput, match=words):
        run_stage(Stage.BIE, folder, options)


@pytest.mark.slow
def test_a_folder_of_samples_to_report_on_sets_no_range(tmp_path: Path) -> None:
    options = Options(quantization=HostQuantization(report_images="report"))
    folder = work_folder(tmp_path, convolutional(), pictures(6))
    for number in (0, 3):
        picture = folder / "ref_images" / f"picture_{number:03}.png"
        picture.rename(picture.with_name(f"report__{picture.name}"))
    run_stage(Stage.ONNX, folder, options)
    report = run_stage(Stage.BIE, folder, options).report
    assert report["calibration"]["samples"] == 4
    assert (report["judgement"]["is_own_set"], report["judgement"]["n"]) == (True, 2)


@pytest.mark.slow
def test_a_damaged_picture_moves_none_of_those_to_report_on(tmp_path: Path) -> None:
    quantization = HostQuantization(report_images="report")
    options = Options(quantization=quantization, allow_damaged_images=True)
    folder = work_folder(tmp_path, convolutional(), pictures(6))
    (folder / "ref_images" / "picture_000.png").write_bytes(b"no picture")
    last = folder / "ref_images" / "picture_005.png"
    last.rename(last.with_name(f"report__{last.name}"))
    run_stage(Stage.ONNX, folder, options)
    judgement = run_stage(Stage.BIE, folder, options).report["judgement"]
    assert (judgement["is_own_set"], judgement["report"], judgement["calibrate"]) == (True, 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("quantization", [{"method": "minmax"}, {"goal": "snr>=20"}])
def test_labels_tell_how_right_both_models_are(tmp_path: Path, quantization: dict[str, str]) -> None:
    folder = work_folder(tmp_path, classifier(), pictures(40))
    names = sorted(path.name for path in (folder / "ref_images").iterdir())
    truth = {name: place % 4 for place, name in enumerate(names)}
    rows = "".join(f"{name},{label}\n" for name, label in truth.items())
    (folder / "ref_images" / "labels.csv").write_text(f"file,label\n{rows}")
    options = Options.model_validate({"quantization": quantization})
    run_stage(Stage.ONNX, folder, options)
    report = run_stage(Stage.BIE, folder, options).report
    (row,) = report["labels"]
    has_search = "goal" in quantization
    assert (row["metric"], row["n"], row["are_unseen"]) == ("top-1", 10 if has_search else 40, has_search)
    if not has_search:
        for file, column in (("out.onnx", "float"), ("out.bie", "int8")):
            assert row[column] == pytest.approx(share_right(folder, file, truth), abs=1e-4)


def classifier() -> onnx.ModelProto:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Flatten", ["c"], ["y"], "flatten")]
    return model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 4]}, {"w": random_weights(4, 3, 16, 16)})


def share_right(folder: Path, file: str, truth: dict[str, int]) -> float:
    """Computed beside the product, by onnxruntime alone."""
    session = ort.InferenceSession(folder / file, providers=["CPUExecutionProvider"])
    right = 0
    for name, label in truth.items():
        pixels = np.asarray(Image.open(folder / "ref_images" / name).convert("RGB"), np.float32) / np.float32(255)
        (values,) = session.run(None, {"x": pixels.transpose(2, 0, 1)[None]})
        right += int(values.argmax()) == label
    return right / len(truth)


@pytest.mark.slow
def test_excluded_nodes_stay_in_float(tmp_path: Path) -> None:
    options = Options(quantization=HostQuantization(exclude_nodes=("conv1",)))
    folder = work_folder(tmp_path, convolutional(), pictures(3))
    run_stage(Stage.ONNX, folder, options)
    report = run_stage(Stage.BIE, folder, options).report
    layers = {layer["name"]: layer for layer in report["quality"]["layers"]}
    assert layers["conv1"]["int8"] is False and layers["conv1"]["weight_snr_db"] is None
    assert layers["conv2"]["int8"] is True


def test_an_unknown_excluded_node_is_named_with_the_nearest_that_exists(tmp_path: Path) -> None:
    options = Options(quantization=HostQuantization(exclude_nodes=("convv1",)))
    folder = work_folder(tmp_path, convolutional(), pictures(3))
    run_stage(Stage.ONNX, folder, options)
    with pytest.raises(StageFailed, match="convv1") as caught:
        run_stage(Stage.BIE, folder, options)
    assert "conv1" in caught.value.hint


def test_a_model_that_makes_nan_fails_with_the_output_and_the_sample(tmp_path: Path) -> None:
    nodes = [helper.make_node("Log", ["x"], ["l"], "log"), helper.make_node("MatMul", ["l", "w"], ["y"], "matmul")]
    model = model_of(nodes, {"x": [1, 4]}, {"y": [1, 2]}, {"w": random_weights(4, 2)})
    folder = work_folder(tmp_path, model, arrays(3, 1, 4))
    with pytest.raises(NotFinite, match=r"'y' holds NaN for sample 'sample_000\.npy'"):
        run_stage(Stage.ONNX, folder)


def test_nan_that_only_appears_in_calibration_is_named_there(tmp_path: Path) -> None:
    nodes = [helper.make_node("Log", ["x"], ["l"], "log"), helper.make_node("MatMul", ["l", "w"], ["y"], "matmul")]
    model = model_of(nodes, {"x": [1, 4]}, {"y": [1, 2]}, {"w": random_weights(4, 2)})
    folder = work_folder(tmp_path, model, None)
    (folder / "ref_images").mkdir()
    np.save(folder / "ref_images" / "a.npy", np.ones((1, 4), np.float32))
    run_stage(Stage.ONNX, folder)
    np.save(folder / "ref_images" / "b.npy", -np.ones((1, 4), np.float32))
    with pytest.raises(NotFinite, match=r"sample 'b\.npy'"):
        run_stage(Stage.BIE, folder)


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["snr>=20", "none"])
def test_an_infinity_that_no_output_shows_stays_in_float_and_fails_nothing(tmp_path: Path, goal: str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv1"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Log", ["r"], ["l"], "log"),
        helper.make_node("Max", ["l", "low"], ["m"], "max"),
        helper.make_node("Conv", ["m", "v"], ["y"], "conv2"),
    ]
    weights = {"w": random_weights(4, 3, 1, 1), "v": random_weights(2, 4, 1, 1), "low": np.float32([-3.0])}
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 2, 8, 8]}, weights)
    options = Options(quantization=HostQuantization(goal=goal))
    report = run_all(work_folder(tmp_path, model, arrays(4, 1, 3, 8, 8)), options)[Stage.BIE].report
    layers = {layer["name"]: layer for layer in report["quality"]["layers"]}
    assert layers["log"]["not_finite"] == 4 and layers["log"]["snr_db"]["n"] == 0
    assert report["quality"]["outputs"][0]["snr_db"]["mean"] > 10


@pytest.mark.slow
def test_a_constant_that_no_scale_can_hold_stays_in_float(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv1"),
        helper.make_node("Add", ["c", "bound"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "v"], ["y"], "conv2"),
    ]
    bound = np.zeros((1, 4, 8, 8), np.float32)
    bound[0, 0] = -np.inf
    weights = {"w": random_weights(4, 3, 1, 1), "v": random_weights(2, 4, 1, 1), "bound": bound}
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 2, 8, 8]}, weights)
    report = run_all(work_folder(tmp_path, model, arrays(4, 1, 3, 8, 8)))[Stage.BIE].report
    assert report["verdict"]["passed"]
    assert "tensors that are not finite stay in float: 'a'" in "".join(report["warnings"])


def test_an_operator_the_runtime_lacks_is_named_with_its_node(tmp_path: Path) -> None:
    node = helper.make_node("Shimmer", ["x"], ["y"], "shimmer_7", domain="com.example")
    model = model_of([node], {"x": [1, 4]}, {"y": [1, 4]})
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedOperator, match="Shimmer") as caught:
        run_stage(Stage.ONNX, work_folder(tmp_path, model, arrays(2, 1, 4)))
    assert caught.value.detail["node"] == "shimmer_7"


def test_a_bie_without_reference_images_is_refused(tmp_path: Path) -> None:
    folder = work_folder(tmp_path, convolutional(), None)
    run_stage(Stage.ONNX, folder)
    with pytest.raises(NoSamples):
        run_stage(Stage.BIE, folder)


@pytest.mark.slow
def test_a_damaged_image_is_named_or_left_out_as_the_user_allows(tmp_path: Path) -> None:
    folder = work_folder(tmp_path, convolutional(), pictures(3))
    (folder / "ref_images" / "zzz.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(DamagedSamples, match=r"zzz\.png"):
        run_all(folder)
    report = run_all(folder, Options(allow_damaged_images=True))[Stage.BIE].report
    assert report["calibration"]["samples"] == 3
    assert report["calibration"]["skipped"][0]["name"] == "zzz.png"


def test_a_stage_whose_input_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"out\.onnx of the stage before is missing"):
        run_stage(Stage.BIE, work_folder(tmp_path, convolutional(), pictures(1)))


def test_a_tampered_nef_is_not_opened(converted: tuple[Path, dict[Stage, dict]], tmp_path: Path) -> None:
    data = bytearray((converted[0] / "out.nef").read_bytes())
    position = data.find(b"ORTM")
    data[position + 4000] ^= 1
    (tmp_path / "bad.nef").write_bytes(data)
    with pytest.raises(InvalidModel):
        HostModel(tmp_path / "bad.nef")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_no_host_nef_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "out.nef").write_bytes(content)
    with pytest.raises(InvalidModel):
        HostModel(tmp_path / "out.nef")


def test_running_a_nef_on_a_wrong_shape_or_without_an_input_is_explained(
    converted: tuple[Path, dict[Stage, dict]],
) -> None:
    model = HostModel(converted[0] / "out.nef")
    with pytest.raises(WrongSampleShape, match=r"\[1, 3, 8, 8\]"):
        model.run({"x": np.zeros((1, 3, 8, 8), np.float32)})
    with pytest.raises(WrongSampleShape, match="missing"):
        model.run({})


def test_a_model_that_is_quantized_already_is_kept_as_it_is(
    converted: tuple[Path, dict[Stage, dict]], tmp_path: Path
) -> None:
    model = onnx.load(str(converted[0] / "out.bie"))
    reports = run_all(work_folder(tmp_path, model, pictures(3)))
    assert "quantized already" in reports[Stage.BIE].report["warnings"][0]
    assert reports[Stage.NEF].report["agreement"]["bit_true"]


@pytest.mark.slow
def test_an_operator_that_newer_opsets_dropped_is_converted(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Upsample", ["c", "s"], ["y"], mode="nearest"),
    ]
    weights = {"w": random_weights(4, 3, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)}
    model = model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 4, 32, 32]}, weights, opset=9)
    reports = run_all(work_folder(tmp_path, model, pictures(3)))
    assert "Resize" in reports[Stage.ONNX].report["model"]["operators"]
    assert reports[Stage.BIE].report["verdict"]["passed"]


VERDICT: dict[str, Any] = {"snr_db": 24.5, "rule": "r", "nothing_quantized": False, "passed": True}
JUDGEMENT: dict[str, Any] = {
    "n": 5,
    "mean_db": 23.0,
    "min_db": 12.0,
    "floor_min_db": 12.0,
    "floor_db": 10.0,
    "weak": 0,
}


@pytest.mark.parametrize(
    ("verdict", "judgement", "passed", "snr_db", "warning"),
    [
        ({}, {}, True, 23.0, "the lowest of the pictures that were not used to choose ranges has 12.0 dB"),
        ({}, {"mean_db": 15.1}, False, 15.1, "15.1 dB on pictures that were not used to choose ranges, below 20 dB"),
        ({}, {"min_db": 4.5, "floor_min_db": 4.5}, False, 23.0, "the lowest of them 4.5 dB"),
        ({"passed": False, "snr_db": 19.0}, {}, False, 19.0, "below 20 dB"),
        ({}, {"n": 0, "mean_db": None, "min_db": None}, True, 24.5, ""),
        ({"nothing_quantized": True, "passed": False}, {}, False, 24.5, ""),
    ],
)
def test_what_was_judged_on_other_pictures_decides_and_not_those_that_set_the_ranges(
    verdict: dict[str, Any], judgement: dict[str, Any], passed: bool, snr_db: float, warning: str
) -> None:
    judged = build_judged_verdict(VERDICT | verdict, JUDGEMENT | judgement)
    assert (judged["passed"], judged["snr_db"]) == (passed, snr_db)
    assert warning in "".join(quality_warnings({"verdict": judged, "quality": {"outputs": []}, "search": {}}))


def test_what_is_advised_below_the_rule_is_not_what_a_search_has_tried() -> None:
    below = {"verdict": {"passed": False, "nothing_quantized": False, "snr_db": 7.2}, "quality": {"outputs": []}}
    goal = {"text": "snr>=20"}
    cut = {"goal": goal, "search": {"is_cut": True}}
    (plain,), (searched,), (ended,) = map(quality_warnings, (below, below | {"goal": goal}, below | cut))
    assert "--goal" in plain and "7.2 dB" in plain
    assert "method" not in searched and "budget" not in searched
    assert "budget" in ended


@pytest.mark.parametrize(
    ("is_own_set", "lowest_db", "is_told"), [(False, 13.4, True), (True, 13.4, False), (False, 20.1, False)]
)
def test_a_passed_model_with_a_low_picture_is_to_be_judged_on_pictures_of_its_use(
    is_own_set: bool, lowest_db: float, is_told: bool
) -> None:
    judgement = JUDGEMENT | {"min_db": lowest_db, "floor_min_db": lowest_db, "is_own_set": is_own_set}
    verdict = build_judged_verdict(VERDICT, judgement)
    warnings = quality_warnings({"verdict": verdict, "judgement": judgement, "quality": {"outputs": []}})
    assert [f"{lowest_db} dB" in line and "--report-images" in line for line in warnings] == [True] * is_told


@pytest.mark.parametrize(
    ("int8_ms", "float_ms", "quantizes_nothing", "is_told"),
    [(24.1, 15.6, False, True), (15.7, 15.6, False, False), (24.1, 15.6, True, False), (None, None, False, False)],
)
def test_int8_that_does_not_pay_is_told(
    int8_ms: float | None, float_ms: float | None, quantizes_nothing: bool, is_told: bool
) -> None:
    report = {
        "latency_ms": {"float": float_ms, "int8": int8_ms},
        "verdict": {"nothing_quantized": quantizes_nothing},
    }
    assert bool(speed_warnings(report)) == is_told
