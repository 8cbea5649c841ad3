"""The calibration doctor: what is measured of real and made pictures, and what is said of it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from PIL import Image

from app.conversion.intake.calibration_checks import CalibrationTarget, SampleStats, diagnose, verdict
from app.conversion.intake.calibration_report import ArrayStats, Finding, PictureStats, UnreadableSample
from app.conversion.intake.expected_range import expectation_of
from app.conversion.intake.preview import preview_model, preview_pictures
from app.conversion.intake.range_checks import ExpectedRange
from app.conversion.intake.sample_measurement import measure_picture, measure_pictures, thumbnail
from app.conversion.options import Preprocess
from tests.harness.models import small as small_models

UNIT = Preprocess()
WIDE = CalibrationTarget(channels=3, size=(320, 240))


def picture(name: str = "a.jpg", **fields: object) -> PictureStats:
    """An unremarkable picture; every name makes another one."""
    seed = int.from_bytes(np.random.default_rng(zlib.crc32(name.encode())).bytes(8), "big")
    usual = {
        "size_bytes": 1000,
        "sha256": name,
        "dhash": seed,
        "width": 640,
        "height": 480,
        "mean": 115.0,
        "deviation": 60.0,
        "is_gray": False,
        "format": "JPEG",
    }
    return PictureStats(name=name, **(usual | fields))  # type: ignore[arg-type]


def several(count: int, **fields: object) -> list[PictureStats]:
    return [picture(f"{index}.jpg", **fields) for index in range(count)]


def found(
    pictures: Sequence[PictureStats], preprocess: Preprocess = UNIT, target: CalibrationTarget = WIDE
) -> dict[str, Finding]:
    measured = SampleStats(len(pictures), pictures, kinds={"image": len(pictures)})
    return {finding.code: finding for finding in diagnose(measured, target, preprocess)}


def test_a_hundred_different_pictures_of_the_right_kind_are_beyond_reproach() -> None:
    assert found(several(120)) == {}


def test_fewer_than_twenty_warn_and_fewer_than_a_hundred_inform() -> None:
    assert found(several(19))["FEW_SAMPLES"].severity == "warns"
    assert found(several(99))["FEW_SAMPLES"].severity == "informs"
    assert "FEW_SAMPLES" not in found(several(100))


def test_exact_copies_are_named_once_each() -> None:
    pictures = [*several(100), picture("copy.jpg", sha256="3.jpg")]
    assert found(pictures)["DUPLICATES"].samples == ("copy.jpg",)


def test_one_picture_sent_many_times_is_said_to_be_one() -> None:
    assert set(found(several(100, sha256="same", dhash=7))) == {"ALL_THE_SAME"}


def test_pictures_of_one_scene_are_near_copies() -> None:
    pictures = [*several(100), picture("again.jpg", dhash=picture("5.jpg").dhash ^ 1)]
    assert found(pictures)["NEAR_DUPLICATES"].samples == ("again.jpg",)


def test_blank_dark_and_bright_pictures_are_told_apart() -> None:
    odd = [picture("blank", deviation=0.5), picture("dark", mean=8.0), picture("bright", mean=250.0)]
    remarks = found([*several(100), *odd])
    assert {code: remarks[code].samples for code in ("BLANK", "DARK", "BRIGHT")} == {
        "BLANK": ("blank",),
        "DARK": ("dark",),
        "BRIGHT": ("bright",),
    }


def test_stretching_is_told_only_when_pictures_are_stretched() -> None:
    tall = several(100, width=300, height=900)
    assert found(tall)["STRETCHED"].detail["factor"] == "4.0"
    assert "STRETCHED" not in found(tall, Preprocess(resize="letterbox"))


def test_gray_pictures_matter_only_to_a_model_in_colour() -> None:
    gray = several(100, is_gray=True)
    assert found(gray)["GRAY_FOR_COLOR"].severity == "warns"
    assert found(gray, target=CalibrationTarget(channels=1, size=(320, 240))) == {}


def test_raw_pixel_values_warn_unless_the_model_tells_otherwise() -> None:
    raw = Preprocess(scale=1)
    assert found(several(100), raw)["BYTES_RANGE"].severity == "warns"
    knows = CalibrationTarget(3, (320, 240), ExpectedRange(115.0, 65.0, why="batchnorm"))
    assert found(several(100), raw, knows) == {}


def test_the_preprocessing_of_a_recognized_model_is_not_doubted() -> None:
    yolox = Preprocess(color="BGR", scale=1, resize="letterbox")
    target = CalibrationTarget(3, (320, 240), trained_with=yolox)
    assert found(several(100), yolox, target) == {}
    assert found(several(100), Preprocess(color="BGR", scale=2), target)["BYTES_RANGE"].severity == "warns"


def test_pixels_scaled_twice_warn() -> None:
    assert "TINY_RANGE" in found(several(100), Preprocess(scale=1 / 255, std=(255.0,)))


def test_a_scale_the_model_was_not_trained_on_warns() -> None:
    target = CalibrationTarget(3, (320, 240), ExpectedRange(0.45, 0.27, why="batchnorm"))
    assert "WRONG_SCALE" in found(several(100), Preprocess(scale=1), target)
    assert found(several(100), UNIT, target) == {}


def test_known_means_in_the_wrong_order_warn() -> None:
    caffe = Preprocess(color="RGB", scale=1, mean=(103.939, 116.779, 123.68), std=(58.0,))
    assert found(several(100), caffe)["MEAN_ORDER"].detail["order"] == "BGR"
    assert "MEAN_ORDER" not in found(several(100), replace(caffe, color="BGR"))


def test_only_files_that_cannot_be_read_block_and_not_when_they_may_be_left_out() -> None:
    measured = SampleStats(100, several(100), unreadable=[UnreadableSample("broken.jpg", "truncated")])
    assert verdict(diagnose(measured, WIDE, UNIT)) == "blocks"
    assert verdict(diagnose(measured, WIDE, UNIT, allow_damaged=True)) == "good"


def test_mixed_kinds_and_constant_arrays_warn() -> None:
    array = ArrayStats("z.npy", "x", "z", low=1.0, high=1.0, mean=1.0, deviation=0.0)
    measured = SampleStats(101, several(100), [array], kinds={"image": 100, "npy": 1})
    assert {"MIXED_KINDS", "CONSTANT"} <= {finding.code for finding in diagnose(measured, WIDE, UNIT)}


def test_arrays_of_raw_pixels_warn() -> None:
    arrays = [ArrayStats(f"{i}.npy", "x", str(i), low=0.0, high=255.0, mean=115.0, deviation=60.0) for i in range(100)]
    codes = [finding.code for finding in diagnose(SampleStats(100, (), arrays, kinds={"npy": 100}), WIDE, UNIT)]
    assert codes == ["ARRAYS_IN_BYTES"]
    assert not diagnose(SampleStats(100, (), arrays, kinds={"npy": 100}), CalibrationTarget(), UNIT), "of no picture"


def test_every_finding_reads_well_with_its_numbers() -> None:
    odd = [picture("blank", deviation=0.5), picture("small", width=20, height=20), picture("copy", sha256="1.jpg")]
    measured = SampleStats(22, [*several(19), *odd], unreadable=[UnreadableSample("x", "y")], ignored=["notes.txt"])
    for finding in diagnose(measured, WIDE, Preprocess(scale=1)):
        assert "%(" not in finding.message % finding.detail + finding.advice % finding.detail


def with_first(node: onnx.NodeProto, *weights: onnx.TensorProto) -> onnx.ModelProto:
    model = small_models.conv()
    model.graph.node[0].input[0] = "first"
    model.graph.node.insert(0, node)
    model.graph.initializer.extend(weights)
    return model


def test_a_division_at_the_input_tells_that_raw_pixels_are_expected() -> None:
    model = with_first(helper.make_node("Div", ["x", "d"], ["first"]), numpy_helper.from_array(np.float32(255), "d"))
    told = expectation_of(model)
    assert told.deviation == pytest.approx(69, abs=1)
    assert found(several(100), Preprocess(scale=1), CalibrationTarget(3, None, told)) == {}
    assert "WRONG_SCALE" in found(several(100), UNIT, CalibrationTarget(3, None, told))


def test_a_weight_of_a_type_that_onnx_does_not_know_tells_nothing() -> None:
    weight = numpy_helper.from_array(np.float32(255), "d")
    weight.data_type = 99
    model = with_first(helper.make_node("Div", ["x", "d"], ["first"]), weight)
    assert expectation_of(model) == ExpectedRange()


def test_means_at_the_input_tell_the_channel_order() -> None:
    means = np.array([103.939, 116.779, 123.68], np.float32).reshape(1, 3, 1, 1)
    model = with_first(helper.make_node("Sub", ["x", "m"], ["first"]), numpy_helper.from_array(means, "m"))
    target = CalibrationTarget(3, None, expectation_of(model))
    assert found(several(100), Preprocess(scale=1), target)["CHANNEL_ORDER"].detail["order"] == "BGR"


def test_a_plain_model_tells_nothing() -> None:
    assert expectation_of(small_models.conv()) == ExpectedRange()


def test_a_transparent_or_deep_picture_is_measured_in_eight_bits(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 20), 40000, np.uint16)).save(tmp_path / "deep.png")
    assert measure_picture(tmp_path / "deep.png").mean == pytest.approx(156, abs=1)
    Image.new("RGBA", (20, 20), (200, 10, 10, 0)).save(tmp_path / "clear.png")
    assert not measure_picture(tmp_path / "clear.png").is_gray


def test_a_broken_picture_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    pictures, unreadable = measure_pictures([tmp_path / "bad.png", tmp_path / "good.png"])
    assert [p.name for p in pictures] == ["good.png"]
    assert [entry.name for entry in unreadable] == ["bad.png"]


def test_thumbnails_are_small_and_tiny_pictures_are_enlarged(tmp_path: Path) -> None:
    Image.new("RGB", (900, 300)).save(tmp_path / "wide.png")
    Image.new("L", (8, 8)).save(tmp_path / "tiny.png")
    for name, size in (("wide", (96, 32)), ("tiny", (96, 96))):
        thumbnail(tmp_path / f"{name}.png", tmp_path / f"{name}.jpg", 96)
        with Image.open(tmp_path / f"{name}.jpg") as made:
            assert made.size == size


def test_a_look_at_a_model_says_which_shapes_are_open(tmp_path: Path) -> None:
    onnx.save(small_models.conv((None, 3, "h", "w")), tmp_path / "m.onnx")
    request = {"model": str(tmp_path / "m.onnx"), "toolchains": ["host", "kneron"], "max_bytes": 10**9}
    look = preview_model(request, lambda *_: None)
    assert look["open_inputs"] == [{"name": "x", "shape": [None, 3, "h", "w"]}]
    assert look["problems"] == {}
    assert look["facts"]["operators"] == {"Conv": 1, "Relu": 1}


def test_a_look_at_a_model_too_new_names_the_problem_per_toolchain(tmp_path: Path) -> None:
    onnx.save(small_models.conv(opset=21, ir=10), tmp_path / "m.onnx")
    request = {"model": str(tmp_path / "m.onnx"), "toolchains": ["host", "kneron"], "max_bytes": 10**9}
    problems = preview_model(request, lambda *_: None)["problems"]
    assert {name: problem["code"] for name, problem in problems.items()} == {"kneron": "MODEL_TOO_NEW"}


def test_a_look_at_arrays_measures_them_and_refuses_nan(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.linspace(0, 1, 5 * 192, dtype=np.float32).reshape(5, 3, 8, 8))
    look = look_at(tmp_path, "good.npy")
    assert (look["count"], len(look["arrays"]), look["problem"]) == (5, 5, None)
    np.save(tmp_path / "bad.npy", np.full((1, 3, 8, 8), np.nan, np.float32))
    assert look_at(tmp_path, "bad.npy")["problem"]["code"] == "IMAGES_WRONG_TYPE"


def look_at(folder: Path, name: str) -> dict[str, object]:
    request = {
        "images": str(folder / name),
        "unpack_to": str(folder / f"{name}.d"),
        "thumbs": str(folder / "thumbs"),
        "limits": {"unpacked_bytes": 10**8, "max_images": 100},
        "inputs": [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}],
    }
    return preview_pictures(request, lambda *_: None)
