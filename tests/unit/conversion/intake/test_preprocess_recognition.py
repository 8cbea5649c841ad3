"""What a model was trained with is told by its graph: by networks made here, whose training is known."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.intake.preprocess_recognition import Recognition, recognize, summary_of
from app.inference.model_families import family_table
from app.inference.preprocess_options import Preprocess
from tests.harness.models import small

Array = npt.NDArray[np.float64]
FILTERS, SIDE, PICTURES = 24, 32, 24
YOLOV8, NO_FAMILY = (1, 84, 21), (1, 7, 7, 7, 7)


def natural_pictures(seed: int) -> Array:
    """Smooth colour pictures, N×3×H×W in 0..255, with the means of natural ones."""
    dice = np.random.default_rng(seed)
    coarse = dice.normal(size=(PICTURES, 1, 4, 4)) + 0.35 * dice.normal(size=(PICTURES, 3, 4, 4))
    smooth = coarse.repeat(SIDE // 4, axis=2).repeat(SIDE // 4, axis=3)
    fine = 0.15 * dice.normal(size=(PICTURES, 1, SIDE, SIDE))
    mean = np.array([0.47, 0.44, 0.405])[:, None, None] + 0.05 * dice.normal()
    return np.clip((mean + 0.24 * (smooth + fine)) * 255, 0, 255)


def prepared(pictures: Array, how: Preprocess) -> Array:
    ordered = pictures[:, ::-1] if how.color == "BGR" else pictures
    mean, std = (np.broadcast_to(np.array(values), (3,))[:, None, None] for values in (how.mean, how.std))
    result: Array = (ordered * how.scale - mean) / std
    return result


def trained(how: Preprocess, seed: int, *, is_folded: bool, outputs: Sequence[int] = NO_FAMILY) -> onnx.ModelProto:
    """Convolution, batch normalization with the statistics of pictures prepared so, activation, some end."""
    dice = np.random.default_rng(seed)
    fed = prepared(natural_pictures(seed), how)
    weight = dice.normal(size=(FILTERS, 3, 3, 3)) + 0.7 * dice.normal(size=(FILTERS, 3, 1, 1))
    weight /= fed.std() * 4
    windows = np.lib.stride_tricks.sliding_window_view(fed, (3, 3), axis=(2, 3))
    answers = np.einsum("nchwij,fcij->nfhw", windows, weight, optimize=True)
    mean, variance = answers.mean(axis=(0, 2, 3)), answers.var(axis=(0, 2, 3))
    gain, shift = dice.uniform(0.5, 1.5, FILTERS), dice.normal(size=FILTERS) * 0.4
    arrays = {"w": weight, "gain": gain, "shift": shift, "mean": mean, "variance": variance}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])]
    nodes += [helper.make_node("BatchNormalization", ["c", "gain", "shift", "mean", "variance"], ["b"])]
    if is_folded:
        factor = gain / np.sqrt(variance + 1e-5)
        arrays = {"w": weight * factor[:, None, None, None], "bias": shift - mean * factor}
        nodes = [helper.make_node("Conv", ["x", "w", "bias"], ["b"], pads=[1, 1, 1, 1])]
    return _ended(nodes, arrays, outputs)


def _ended(nodes: list[onnx.NodeProto], arrays: dict[str, Array], outputs: Sequence[int]) -> onnx.ModelProto:
    nodes = [*nodes, helper.make_node("Relu", ["b"], ["r"]), helper.make_node("Custom", ["r"], ["y"], domain="tests")]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    shape = [1, 3, SIDE, SIDE]
    model = small.model(nodes, [small.value("x", shape)], [small.value("y", outputs)], weights, domains=[("tests", 1)])
    model.producer_name = "pytorch"
    return model


def recognition_of(model: onnx.ModelProto) -> Recognition:
    recognition = recognize(model)
    assert recognition is not None
    return recognition


def is_right(recognition: Recognition, how: Preprocess) -> bool:
    grey = np.full((1, 3, 1, 1), 100.0) * np.array([1.1, 1.0, 0.9])[:, None, None]
    one, other = prepared(grey, recognition.preprocess), prepared(grey, how)
    spread = 255 * how.scale / np.mean(how.std)
    return bool((np.abs(one - other) < 0.02 * spread).all())


PRESETS = [name for name in family_table().usual[3] if family_table().usual[3][name] >= 0.04]


@pytest.mark.slow
@pytest.mark.parametrize("is_folded", [False, True])
def test_it_is_never_sure_of_something_wrong_and_mostly_right_about_bytes_and_fractions(is_folded: bool) -> None:
    presets = family_table().presets
    answers = [
        (name, presets[name], recognition_of(trained(presets[name], seed, is_folded=is_folded)))
        for name in PRESETS
        for seed in range(4)
    ]
    wrong = [(name, answer.summary) for name, how, answer in answers if answer.is_sure and not is_right(answer, how)]
    assert len(wrong) <= 0.02 * len(answers), wrong
    scales = [(how.scale / how.std[0]) / (a.preprocess.scale / a.preprocess.std[0]) for _, how, a in answers]
    assert np.mean([0.1 < ratio < 10 for ratio in scales]) >= 0.9


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_family_and_a_layer_that_agree_are_sure(is_folded: bool) -> None:
    how = Preprocess(color="RGB")
    for seed in range(4):
        answer = recognition_of(trained(how, seed, is_folded=is_folded, outputs=YOLOV8))
        assert answer.family == "yolov8"
        assert answer.is_sure
        assert is_right(answer, how)
        assert answer.preprocess.resize == "letterbox"
        assert answer.reason_code == "family_and_layer"


def test_constants_before_the_first_layer_do_not_hide_it() -> None:
    model = trained(Preprocess(color="RGB"), 1, is_folded=False, outputs=YOLOV8)
    for number in range(100):
        node = helper.make_node("Constant", [], [f"k{number}"], value_float=1.0)
        model.graph.node.insert(0, node)
    assert recognition_of(model).reason_code == "family_and_layer"


def test_a_layer_that_contradicts_its_family_takes_the_certainty_away() -> None:
    bytes_inside = Preprocess(color="RGB", scale=1.0)
    answer = recognition_of(trained(bytes_inside, 1, is_folded=False, outputs=YOLOV8))
    assert not (answer.is_sure and not is_right(answer, bytes_inside))
    assert answer.reason_code == "contradiction"


def test_a_model_that_normalizes_its_input_itself_takes_plain_pixels() -> None:
    how = family_table().presets["rgb_imagenet"]
    model = trained(how, 3, is_folded=True)
    constants = {"mean": np.array([123.675, 116.28, 103.53]), "std": np.array([58.395, 57.12, 57.375])}
    for name, values in constants.items():
        tensor = numpy_helper.from_array(values.astype(np.float32).reshape(1, 3, 1, 1), name)
        model.graph.initializer.append(tensor)
    model.graph.node.insert(0, helper.make_node("Div", ["shifted", "std"], ["inner"]))
    model.graph.node.insert(0, helper.make_node("Sub", ["x", "mean"], ["shifted"]))
    model.graph.node[2].input[0] = "inner"
    answer = recognition_of(model)
    assert answer.preprocess.scale == 1.0
    assert answer.preprocess.mean == (0.0,)
    assert answer.reason_code == "inside"


def test_whole_numbers_are_pixels_as_they_are() -> None:
    graph = small.relu((1, 16, 16, 3), TensorProto.UINT8)
    answer = recognition_of(graph)
    assert (answer.preprocess.scale, answer.preprocess.mean) == (1.0, (0.0,))
    assert (answer.layout, answer.reason_code) == ("NHWC", "bytes")


def test_metadata_of_the_file_is_believed() -> None:
    model = small.conv()
    for key, value in (("Image.BitmapPixelFormat", "Bgr8"), ("Image.NominalPixelRange", "Normalized_0_1")):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    answer = recognition_of(model)
    assert answer.is_sure
    assert answer.summary == "BGR, x / 255"


def test_what_takes_no_pictures_has_no_preprocessing() -> None:
    assert recognize(small.relu((1, 39))) is None
    assert recognize(small.add((1, 3, 8, 8), (1, 3, 8, 8))) is None


def test_a_graph_that_breaks_its_operators_tells_nothing() -> None:
    model = small.conv()
    model.graph.node.insert(0, helper.make_node("Transpose", ["x"], ["t"], perm=[0, 9, 9, 9]))
    model.graph.node[1].input[0] = "t"
    assert not recognition_of(model).is_sure


@pytest.mark.parametrize("damage", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("tensor", ["w", "mean", "variance"])
def test_damaged_weights_tell_nothing_and_break_nothing(tensor: str, damage: float) -> None:
    model = trained(Preprocess(color="RGB"), 1, is_folded=False)
    stored = next(entry for entry in model.graph.initializer if entry.name == tensor)
    values = numpy_helper.to_array(stored).copy()
    values.reshape(-1)[0] = damage
    stored.CopyFrom(numpy_helper.from_array(values, tensor))
    answer = recognition_of(model)
    assert 0 <= answer.confidence < 0.9
    json.dumps(answer.to_json(), allow_nan=False)


def test_a_summary_reads_like_a_formula() -> None:
    assert summary_of(Preprocess()) == "auto, x / 255"
    how = Preprocess(color="BGR", scale=1, mean=(104, 117, 123), resize="letterbox", pad_value=0)
    assert summary_of(how) == "BGR, x − [104, 117, 123], letterbox 0"
