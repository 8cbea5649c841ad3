"""Models that are opened: what runs, prepares and reads them, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from app.conversion.options import Options, Preprocess
from app.inference.errors import ModelUnusable
from app.inference.model_card import Format
from app.inference.prediction import Decoder
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from tests.harness.models.host import model_of, pictures, run_all, work_folder
from tests.harness.models.small import add
from tests.harness.models.vision import (
    BLUE,
    GREEN,
    RED,
    SIDE,
    answering,
    brightest_channel,
    card,
    opened,
    plain,
    save,
    takes_bytes,
)

ORT = f"onnxruntime {onnxruntime.__version__} on CPU"


@pytest.mark.parametrize(
    ("key", "value", "labels"),
    [
        ("names", "{0: 'red', 1: 'green', 2: 'blue'}", ("red", "green", "blue")),
        ("names", "['red', 'green']", ("red", "green")),
        ("character", "a\nb\nc", ("a", "b", "c", " ")),
        ("names", "{0: 'red', 2: 'blue'}", ()),
        ("names", "__import__('os').getcwd()", ()),
        ("names", "(" * 5000, ()),
        ("names", "{[]: 1}", ()),
        ("names", "7", ()),
        ("description", "{0: 'red'}", ()),
    ],
)
def test_names_of_classes_are_those_in_the_file_unless_the_card_has_some(
    tmp_path: Path, key: str, value: str, labels: tuple[str, ...]
) -> None:
    model = brightest_channel()
    helper.set_model_props(model, {key: value})
    assert opened(tmp_path, model).labels == labels
    assert opened(tmp_path, model, card(labels=("own",))).labels == ("own",)


def test_an_onnx_says_what_runs_it_and_how_it_is_read(tmp_path: Path) -> None:
    predictor = opened(tmp_path, brightest_channel(), card(labels=("red", "green", "blue")))
    assert (predictor.runtime, predictor.why) == (f"{ORT} · onnx", "")
    assert (predictor.decoder, predictor.labels) == (Decoder.CLASSIFIER, ("red", "green", "blue"))
    assert predictor.input_size == (SIDE, SIDE)
    prediction = predictor.predict(plain(10, 250, 30))
    assert prediction.label == GREEN
    assert prediction.runtime == predictor.runtime
    assert prediction.ms > 0
    assert sum(prediction.probabilities) == pytest.approx(1)


def test_the_card_says_how_pictures_are_prepared_and_an_option_overrides_it(tmp_path: Path) -> None:
    swapped = card(preprocess={"color": "BGR"})
    assert opened(tmp_path, brightest_channel(), swapped).predict(plain(250, 0, 0)).label == BLUE
    again = opened(tmp_path, brightest_channel(), swapped, preprocess={"color": "RGB"})
    assert again.predict(plain(250, 0, 0)).label == RED


def test_a_family_is_fed_with_what_it_is_used_to_where_nobody_says_otherwise(tmp_path: Path) -> None:
    """The pixel 255 is 1 for RGB in 0..1, and 10 times that is what the model answers."""
    p = opened(tmp_path, brightest_channel()).predict(plain(255, 0, 0)).probabilities
    assert p[RED] / p[GREEN] == pytest.approx(np.exp(10), rel=1e-3)


def test_an_input_of_bytes_is_fed_with_bytes(tmp_path: Path) -> None:
    predictor = opened(tmp_path, takes_bytes(), preprocess={"scale": 1})
    assert predictor.predict(plain(0, 0, 200)).label == BLUE


def test_an_open_batch_is_one_and_open_sides_have_to_be_given(tmp_path: Path) -> None:
    assert opened(tmp_path, brightest_channel("n")).predict(plain(0, 9, 0)).label == GREEN
    with pytest.raises(ModelUnusable, match="leaves width and height open"):
        opened(tmp_path, brightest_channel("n", None))
    assert opened(tmp_path, brightest_channel("n", None), input_size=(24, 32)).input_size == (24, 32)


def test_the_decoder_may_be_named_by_card_or_option(tmp_path: Path) -> None:
    model = brightest_channel()
    assert opened(tmp_path, model, card(decoder=Decoder.CLASSIFIER)).decoder is Decoder.CLASSIFIER
    with pytest.raises(ModelUnusable, match="not those of yolox"):
        opened(tmp_path, model, card(decoder=Decoder.YOLOX))
    opened(tmp_path, model, card(decoder=Decoder.YOLOX), decoder=Decoder.CLASSIFIER)


def test_a_row_of_numbers_is_a_classifiers_when_it_looks_so_or_somebody_says_so(tmp_path: Path) -> None:
    pose, shares = (answering({"y": np.array([row])}) for row in ([-14.0, 3.0, 30.0], [0.2, 0.1, 0.7]))
    with pytest.raises(ModelUnusable, match="3 numbers that are no probabilities, -14 to 30") as caught:
        opened(tmp_path, pose).refuse_guess()
    assert "decoder classifier" in caught.value.hint
    opened(tmp_path, shares).refuse_guess()
    opened(tmp_path, pose, decoder=Decoder.CLASSIFIER).refuse_guess()
    opened(tmp_path, pose, card(labels=("yaw", "pitch", "roll"))).refuse_guess()


def test_outputs_that_no_decoder_understands_are_refused_when_the_model_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match=r"no decoder understands the model's outputs: heat \[1, 6, 9\]") as caught:
        opened(tmp_path, answering({"heat": np.zeros((1, 6, 9))}))
    assert caught.value.hint


def test_shapes_that_the_model_leaves_open_are_looked_at_before_the_first_picture(tmp_path: Path) -> None:
    """[1, h, w] could be of YOLOX, which has 84 cells for 64 pixels; what comes are 64 rows."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["y"], "mean", axes=[1], keepdims=0)]
    model = model_of(nodes, {"x": [1, 3, "h", "w"]}, {"y": [1, "h", "w"]}, opset=13)
    with pytest.raises(ModelUnusable, match=r"no decoder understands the model's outputs: y \[1, 64, 64\]"):
        opened(tmp_path, model, input_size=(64, 64))


def test_a_model_with_two_inputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="one input of numbers"):
        opened(tmp_path, add((1, 3, 8, 8), (1, 3, 8, 8)))


@pytest.mark.parametrize(("format_", "toolchain"), [(Format.ONNX, ""), (Format.BIE, "host"), (Format.NEF, "host")])
@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04 and so on"])
def test_a_damaged_file_is_refused_with_a_hint(format_: Format, toolchain: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(ModelUnusable, match="cannot be opened") as caught:
        open_predictor(card(format_, toolchain=toolchain), path, None, PredictorOptions())
    assert caught.value.hint


def test_a_file_that_is_cut_off_or_gone_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, brightest_channel())
    path.write_bytes(path.read_bytes()[:-20])
    for one in (path, tmp_path / "none.onnx"):
        with pytest.raises(ModelUnusable, match="cannot be opened"):
            open_predictor(card(), one, None, PredictorOptions())


def test_a_model_that_runs_on_no_picture_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    model = brightest_channel(side="n")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    with pytest.raises(ModelUnusable):
        opened(tmp_path, model, input_size=(8, 8))


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """out.bie and out.nef of the host toolchain, the colours swapped while converting."""
    folder = work_folder(tmp_path_factory.mktemp("work"), brightest_channel(), pictures(6))
    run_all(folder, Options.model_validate({"preprocess": {"color": "BGR"}}))
    return folder


@pytest.mark.slow
def test_a_host_nef_runs_with_the_preprocessing_it_was_converted_with(converted: Path) -> None:
    predictor = open_predictor(card(Format.NEF, toolchain="host"), converted / "out.nef", None, PredictorOptions())
    assert (predictor.runtime, predictor.why) == (f"{ORT} · host NEF", "")
    assert predictor.predict(plain(250, 0, 0)).label == BLUE
    told = card(Format.NEF, toolchain="host", preprocess={"color": "RGB"})
    assert open_predictor(told, converted / "out.nef", None, PredictorOptions()).predict(plain(250, 0, 0)).label == RED


def face_as_bright_as_the_input() -> onnx.ModelProto:
    """The outputs of a face detector: one face, whose score is the mean of what comes in."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], "mean", keepdims=0),
        helper.make_node("Mul", ["mean", "face"], ["scores"], "score"),
        helper.make_node("Identity", ["box"], ["boxes"], "box_"),
    ]
    weights = {"face": np.array([[[0, 1]]], np.float32), "box": np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32)}
    return model_of(nodes, {"x": [1, 3, SIDE, SIDE]}, {"scores": [1, 1, 2], "boxes": [1, 1, 4]}, weights)


def test_a_conversion_for_which_nobody_chose_a_preprocessing_leaves_it_to_the_family(tmp_path: Path) -> None:
    def score(**fields: Any) -> float:
        predictor = opened(tmp_path, face_as_bright_as_the_input(), card(**fields), score_threshold=0.1)
        return predictor.predict(plain(200, 200, 200)).boxes[0].score

    default = Preprocess().to_json()
    assert score() == score(toolchain="host", preprocess=default) == pytest.approx((200 - 127) / 128, abs=0.01)
    assert score(preprocess=default) == pytest.approx(200 / 255, abs=0.01), "of an ONNX somebody said it"
    assert score(toolchain="host", preprocess={**default, "scale": 0.001}) == pytest.approx(0.2, abs=0.01)


@pytest.mark.slow
def test_a_host_bie_runs_as_the_onnx_it_is(converted: Path) -> None:
    predictor = open_predictor(card(Format.BIE, toolchain="host"), converted / "out.bie", None, PredictorOptions())
    assert predictor.runtime == f"{ORT} · bie"
    assert predictor.predict(plain(250, 0, 0)).label == RED
