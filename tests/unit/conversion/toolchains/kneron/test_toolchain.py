"""What is refused before the vendor is started, and what its calls are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from app.conversion.errors import SamplesTooLarge, TooNewModel, UnsupportedInput
from app.conversion.model import Stage
from app.conversion.toolchains.kneron import KneronToolchain, arguments, staged_inputs
from tests.standins import kneron
from tests.standins.kneron import job


@pytest.fixture
def tool(tmp_path: Path) -> KneronToolchain:
    return kneron.toolchain(tmp_path)


def test_a_newer_opset_is_refused_before_the_vendor_is_started(tmp_path: Path, tool: KneronToolchain) -> None:
    with pytest.raises(TooNewModel, match="opset 19"):
        kneron.Job(tmp_path, kneron.model(opset=19), kneron.options()).run(Stage.ONNX, tool)
    assert not (tmp_path / "work" / "scratch" / "kneron_onnx" / "vendor.log").exists()


def test_an_input_that_is_not_float32_is_refused(tmp_path: Path, tool: KneronToolchain) -> None:
    with pytest.raises(UnsupportedInput, match="float32 inputs only"):
        made = kneron.model(dtype=TensorProto.DOUBLE)
        kneron.Job(tmp_path, made, kneron.options(), samples=0).run(Stage.ONNX, tool)


def test_shapes_are_not_passed_on_when_a_name_holds_the_separator() -> None:
    chosen = kneron.options(input_shapes={"x:0": (1, 3)})
    assert "overwrite_input_shapes" not in arguments.optimize(chosen, {"x:0": (1, 3)})
    chosen = kneron.options(input_shapes={"x": (1, 3)})
    assert arguments.optimize(chosen, {"x": (1, 3)})["overwrite_input_shapes"] == ["x:1,3"]


def test_too_much_calibration_data_is_refused_by_size(
    tmp_path: Path, tool: KneronToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_inputs, "CALIBRATION_LIMIT", 1000)
    with pytest.raises(SamplesTooLarge, match="reads them all at once"):
        job(tmp_path).prime().run(Stage.BIE, tool)


def test_arguments_of_one_method_are_sent_only_with_it() -> None:
    plain = arguments.analysis(kneron.options("720").kneron, 2)
    assert "percentage" in plain and "percentile" not in plain and "flops_ratio" not in plain
    assert plain["mode"] == 1, "the vendor's default differs between its own pages"
    mixed = kneron.options(
        "720", datapath_range_method="mmse", datapath_bitwidth_mode="mixbw", weight_bitwidth_mode="mixbw"
    )
    sent = arguments.analysis(mixed.kneron, 2)
    assert "outlier_factor" in sent and "percentage" not in sent and sent["flops_ratio"] == 0.2
