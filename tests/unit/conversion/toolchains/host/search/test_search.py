from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from app.conversion.model import Stage
from app.conversion.options import Options
from tests.harness.models.host import arrays, convolutional, model_of, pictures, random_weights, run_all, work_folder


def spread_channels() -> onnx.ModelProto:
    """Two layers; one channel of the first is a thousand times the others, and the second weighs it down again."""
    first, second = random_weights(8, 3, 1, 1), random_weights(4, 8, 1, 1, seed=1)
    first[0] *= 1000
    second[:, 0] /= 1000
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "wide"),
        helper.make_node("Conv", ["a", "w2"], ["y"], "narrow"),
    ]
    return model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 8, 8]}, {"w1": first, "w2": second})


def bie(folder: Path, model: onnx.ModelProto, samples, **quantization) -> dict:
    options = Options.model_validate({"quantization": quantization})
    reports = run_all(work_folder(folder, model, samples), options)
    assert reports[Stage.NEF].report["agreement"]["outputs"]
    return reports[Stage.BIE].report


def test_a_model_that_int8_serves_is_taken_at_the_first_candidate(tmp_path: Path) -> None:
    report = bie(tmp_path, convolutional(), pictures(6))
    assert report["goal"]["is_reached"] and report["search"]["ended_by"] == "reached"
    assert [c["verdict_code"] for c in report["search"]["candidates"]] == ["taken"]
    assert report["judgement"]["n"] == 6 and not report["judgement"]["is_own_set"]


def test_the_sensitive_tensor_gets_sixteen_bits_and_the_goal_is_reached(tmp_path: Path) -> None:
    report = bie(tmp_path, spread_channels(), arrays(8, 1, 3, 8, 8), goal="snr>=30")
    taken = report["search"]["candidates"][report["search"]["taken"]]
    assert report["goal"]["is_reached"] and report["judgement"]["low_db"] >= 30
    assert report["search"]["candidates"][0]["snr_db"] < 30
    assert "a" in next(step["tensors"] for step in taken["steps"] if step["kind"] == "int16")
    model = onnx.load(str(tmp_path / "out.bie"))
    assert onnx.TensorProto.UINT16 in {tensor.data_type for tensor in model.graph.initializer}


def test_a_goal_out_of_reach_says_so_and_gives_the_best(tmp_path: Path) -> None:
    report = bie(tmp_path, spread_channels(), arrays(6, 1, 3, 8, 8), goal="snr>=90")
    assert not report["goal"]["is_reached"] and report["goal"]["reason_code"]
    snrs = [c["snr_db"] for c in report["search"]["candidates"]]
    assert snrs[report["search"]["taken"]] == max(snrs)
    assert any("NOT met" in warning for warning in report["warnings"])


def test_a_budget_that_is_too_short_still_gives_a_file(tmp_path: Path) -> None:
    report = bie(tmp_path, spread_channels(), arrays(6, 1, 3, 8, 8), goal="snr>=90", budget_s=1e-9)
    assert report["search"]["ended_by"] == "budget" and len(report["search"]["candidates"]) == 1


@pytest.mark.parametrize("goal", ["fastest", "smallest", "drop<=1%"])
def test_every_kind_of_goal_ends_with_one_taken(tmp_path: Path, goal: str) -> None:
    report = bie(tmp_path, convolutional(), pictures(4), goal=goal)
    assert sum(c["is_taken"] for c in report["search"]["candidates"]) == 1 and report["goal"]["text"] == goal


def test_the_same_pictures_give_the_same_search(tmp_path: Path) -> None:
    reports = [bie(tmp_path / n, spread_channels(), arrays(6, 1, 3, 8, 8), goal="snr>=30") for n in ("a", "b")]
    first, second = ([(c["name"], c["snr_db"]) for c in r["search"]["candidates"]] for r in reports)
    assert first == second


def test_an_inner_nan_leaves_its_nodes_in_float(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv"),
        helper.make_node("Mul", ["a", "zero"], ["z"], "mul"),
        helper.make_node("Div", ["z", "z"], ["q"], "odd"),
        helper.make_node("IsNaN", ["q"], ["is"], "isnan"),
        helper.make_node("Where", ["is", "a", "q"], ["b"], "where"),
        helper.make_node("Conv", ["b", "w2"], ["y"], "last"),
    ]
    weights = {"w1": random_weights(4, 3, 1, 1), "w2": random_weights(2, 4, 1, 1), "zero": np.zeros(1, np.float32)}
    model = model_of(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 2, 4, 4]}, weights)
    report = bie(tmp_path, model, arrays(5, 1, 3, 4, 4))
    assert report["judgement"]["mean_db"] > 20
    assert any("stays in float" in warning for warning in report["warnings"])
