"""The outline of a graph: nodes and edges, with the quantization folded into them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.intake import graph_outline
from app.inference.errors import InvalidModel


def quantized(path: Path, zero: np.ndarray) -> Path:
    """x → Quantize → Dequantize → Relu → Sigmoid → y."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("Relu", ["xd"], ["r"], name="relu"),
        helper.make_node("Sigmoid", ["r"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    weights = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(zero, "z")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)), path)
    return path


def outline(path: Path) -> dict[str, object]:
    made = graph_outline.outline_graphs({"graphs": {"g": str(path)}}, lambda *_: None)
    return dict(made["g"])


@pytest.mark.parametrize(("zero", "bits"), [(np.int8(0), "int8"), (np.uint8(0), "int8"), (np.uint16(0), "int16")])
def test_quantization_is_said_of_the_node_and_is_no_node_itself(tmp_path: Path, zero: np.ndarray, bits: str) -> None:
    quantized_outline = outline(quantized(tmp_path / "g.onnx", np.asarray(zero)))
    assert quantized_outline["nodes"] == [
        {"name": "relu", "op": "Relu", "outputs": ["r"], "sources": [], "bits": bits},
        {"name": "", "op": "Sigmoid", "outputs": ["y"], "sources": [0], "bits": "float"},
    ]
    assert quantized_outline["total"] == 2


def test_a_graph_that_is_too_large_is_counted_and_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_outline, "NODES_MOST", 1)
    assert outline(quantized(tmp_path / "g.onnx", np.asarray(np.int8(0)))) == {"nodes": [], "total": 2}


def test_a_file_that_is_no_graph_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "g.onnx").write_bytes(b"\xff\xff not a graph")
    with pytest.raises(InvalidModel, match=r"g\.onnx"):
        outline(tmp_path / "g.onnx")
