"""The benchmark of quantizers: what it counts, and what it does with a tool that fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ops.benchmarks.peers.systems import REQUIREMENTS
from ops.benchmarks.quality import choose, main
from ops.benchmarks.quantizers.contenders import Contender, contenders, convert
from ops.benchmarks.quantizers.judge import Sample, int8_share, judge
from tests.harness.models import small


def half_quantized() -> onnx.ModelProto:
    """A convolution over quantized values, and one over floats."""
    weight = numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["one"]),
        helper.make_node("Conv", ["one", "w"], ["y"]),
    ]
    return small.model(nodes, [small.value("x", [1, 3, 4, 4])], [small.value("y", [1, 3, 4, 4])], [weight, scale])


def test_the_share_of_int8_is_that_of_layers_with_weights() -> None:
    assert int8_share(half_quantized()) == 0.5
    assert int8_share(small.relu()) == 0


def test_a_model_is_judged_against_its_float_model(tmp_path: Path) -> None:
    path = small.write(tmp_path / "conv.onnx", small.conv())
    samples = [Sample("a", {"x": np.ones((1, 3, 8, 8), np.float32)})]
    judged = judge(path, path, samples)
    assert (judged.snr_db, judged.agreement) == (120.0, None)
    assert judged.size_bytes == path.stat().st_size


def test_a_tool_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "tool.py"
    program.write_text("raise SystemExit('no such operator')")
    with pytest.raises(RuntimeError, match="no such operator"):
        convert(Contender("a tool", (str(program),)), {}, {}, tmp_path)


def test_the_product_and_its_peers_are_compared() -> None:
    names = [contender.name for contender in contenders()]
    assert names[0].startswith("ours")
    assert {"NNCF", "onnxruntime, MinMax", "onnxruntime, Percentile", "onnxruntime, Entropy"} <= set(names)
    assert {"Quark, A8W8", "Quark, INT8_CNN_ACCURATE", "AIMET, equalized", "Neural Compressor"} <= set(names)
    assert {contender.environment for contender in contenders()} <= set(REQUIREMENTS)


def test_contenders_are_chosen_by_the_beginnings_of_their_names_commas_within_them_included(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [one.name for one in choose("onnxruntime, Perc,NNCF")] == ["onnxruntime, Percentile", "NNCF"]
    assert {one.name.split(",")[0] for one in choose("ours,onnxruntime")} == {"ours", "onnxruntime"}
    assert choose("") == list(contenders())
    with pytest.raises(SystemExit):
        main(["--only", "onnxruntime, Percentiles"])
    assert "no name begins with 'onnxruntime, Percentiles'" in capsys.readouterr().err
