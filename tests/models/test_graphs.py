"""What is said of real models: their inputs, their size, what a chip lacks for them, and that no other file is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from app.conversion.errors import TruncatedModel
from app.conversion.options import Chip
from app.conversion.toolchains import graph
from app.conversion.toolchains.graph import TensorSpec
from app.conversion.toolchains.kneron.nef import NotNef, probe
from app.conversion.toolchains.kneron.operators import probably_missing


def test_a_model_cut_in_half_is_called_truncated(tmp_path: Path, shared_data: Path) -> None:
    data = (shared_data / "models/face_rfb_320.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(TruncatedModel, match=f"has {len(data) // 2} bytes") as caught:
        graph.load(tmp_path / "m.onnx")
    assert caught.value.detail["needed_bytes"] <= len(data)


def test_initializers_listed_as_inputs_are_no_inputs(shared_data: Path) -> None:
    model = graph.load(shared_data / "models/face_rfb_320.onnx")
    assert len(model.graph.input) > 100
    assert graph.graph_inputs(model) == [TensorSpec("input", (1, 3, 240, 320), "float32")]
    assert [spec.name for spec in graph.graph_outputs(model)] == ["scores", "boxes"]


def test_macs_agree_with_the_published_number_of_a_known_network(shared_data: Path) -> None:
    facts = graph.facts(graph.load(shared_data / "models/det_yolox_nano_416.onnx"))
    assert facts["macs"] == pytest.approx(1.08e9 / 2, rel=0.05)  # YOLOX nano: 1.08 GFLOPs, 0.91 M parameters
    assert facts["parameters"] == pytest.approx(0.91e6, rel=0.01)


def test_a_real_dynamic_model_runs_after_its_shape_was_given(shared_data: Path) -> None:
    model = graph.load(shared_data / "models/face_yunet_n_dynamic.onnx")
    graph.fix_shapes(model, {"input": (1, 3, 160, 160)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input": np.zeros((1, 3, 160, 160), np.float32)})
    assert outputs[0].shape == (1, 400, 1)
    assert graph.facts(model)["macs"] == 135598400 // 4


def test_a_face_detector_has_its_tail_named_on_520(shared_data: Path) -> None:
    model = onnx.load(shared_data / "models/face_rfb_320.onnx")
    operators = {entry["operator"] for entry in probably_missing(Chip.KL520, model)}
    assert {"Softmax", "Slice", "Mul", "Exp", "Div"} <= operators
    assert not operators & {"Conv", "Relu", "Shape", "Constant", "Unsqueeze"}


def test_onnx_models_are_no_nef(shared_data: Path) -> None:
    models = list((shared_data / "models").glob("*.onnx"))
    assert models
    for path in models:
        with pytest.raises(NotNef):
            probe(path)
