"""Models of the vendor's toolchain: on an NPU where there is one, else as their ONNX twin, and never silently."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Decoder
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from app.inference.runtimes.npu_layout import packing_of
from tests.harness.models.vision import BLUE, GREEN, brightest_channel, card, opened, plain, save
from tests.standins import kp as standin

ORT = f"onnxruntime {onnxruntime.__version__} on CPU"
KNERON = card(Format.NEF, toolchain="kneron")


@pytest.fixture
def kp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The vendor's package with a KL720 on the bus; every group that was connected is given back in the end."""
    monkeypatch.setitem(sys.modules, "kp", standin)
    standin.core.groups.clear()
    standin.core.connected[:] = [standin.DeviceDescriptor(13, 0x720)]
    yield standin
    standin.core.connected.clear()


@pytest.fixture
def no_kp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kp", None)


def nef(folder: Path, **node: Any) -> Path:
    """brightest_channel for the stand-in's devices, with sides that none of the layouts divides into whole blocks."""
    facts = {"chip": "KL720", "layout": "16W1C8B", "radix": 7, "scale": 1.0} | node
    path = folder / "out.nef"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.onnx", brightest_channel(side=20).SerializeToString())
        archive.writestr("node.json", json.dumps(facts))
    return path


def open_nef(path: Path, twin: Path | None = None, model: ModelCard = KNERON) -> Predictor:
    return open_predictor(model, path, twin, PredictorOptions())


LAYOUTS: list[dict[str, Any]] = [
    {"layout": "16W1C8B"},
    {"layout": "4W4C8B"},
    {"layout": "1W16C8B"},
    {"chip": "KL520", "layout": "4W4C8B"},
    {"layout": "8W1C16B", "radix": 13},
    {"layout": "1W16C8BHL", "radix": 13},
    {"chip": "KL730", "layout": "1W16C8B", "v2": True, "stride_npu": [6400, 1, 320, 16]},
    {"chip": "KL730", "layout": "RAW_FLOAT", "v2": True, "radix": 0},
    {"chip": "KL730", "layout": "16W1C8B", "v2": True, "radix": [7, 6, 5]},
    {"layout": "16W1C8B", "radix": 6, "scale": 1.7},
]


@pytest.mark.parametrize("node", LAYOUTS, ids=lambda node: "-".join(str(value) for value in node.values()))
def test_a_picture_reaches_the_npu_in_its_own_layout_and_integers(
    node: dict[str, Any], kp: Any, tmp_path: Path
) -> None:
    kp.core.connected[0].product_id = kp.core.PRODUCT_IDS[node.get("chip", "KL720")]
    predictor = open_nef(nef(tmp_path, **node))
    assert (predictor.runtime, predictor.why) == (f"Kneron NPU {node.get('chip', 'KL720')}", "")

    rng = np.random.default_rng(5)
    picture = np.concatenate([rng.integers(0, 90, (16, 16, 2)), rng.integers(0, 200, (16, 16, 1))], 2).astype(np.uint8)
    seen = predictor.predict(picture)
    assert seen.label == BLUE
    expected = opened(tmp_path, brightest_channel(side=20)).predict(picture).probabilities
    np.testing.assert_allclose(seen.probabilities, expected, atol=0.02)
    predictor.close()


def test_values_beyond_the_range_are_cut_and_not_wrapped(kp: Any, tmp_path: Path) -> None:
    predictor = open_nef(nef(tmp_path, radix=9))
    assert predictor.predict(plain(0, 0, 255)).label == BLUE


def test_the_device_is_given_back_at_the_end_and_answers_no_more(kp: Any, tmp_path: Path) -> None:
    predictor = open_nef(nef(tmp_path))
    predictor.close()
    predictor.close()
    assert [group.is_connected for group in kp.core.groups] == [False]
    with pytest.raises(InferenceFailed, match="closed"):
        predictor.predict(plain(1, 2, 3))


def test_a_device_that_is_pulled_out_is_an_error_that_says_so(kp: Any, tmp_path: Path) -> None:
    predictor = open_nef(nef(tmp_path))
    kp.core.connected.clear()
    with pytest.raises(InferenceFailed, match="KP_ERROR_USB_NO_DEVICE_N4"):
        predictor.predict(plain(1, 2, 3))


def test_of_several_devices_the_one_that_takes_the_model_is_used(kp: Any, tmp_path: Path) -> None:
    kp.core.connected.insert(0, kp.DeviceDescriptor(1, 0x100))
    kp.core.connected.insert(0, kp.DeviceDescriptor(2, 0x720, is_connectable=False))
    assert open_nef(nef(tmp_path)).runtime == "Kneron NPU KL720"
    assert [group.is_connected for group in kp.core.groups] == [False, True]


def twin_of(folder: Path) -> Path:
    return save(folder, brightest_channel(), "twin.onnx")


def test_without_the_vendors_package_the_twin_runs_and_says_so(no_kp: None, tmp_path: Path) -> None:
    predictor = open_nef(nef(tmp_path), twin_of(tmp_path))
    assert predictor.runtime == f"{ORT} · ONNX twin"
    assert predictor.why == "no Kneron runtime (kp) on this node"
    prediction = predictor.predict(plain(0, 200, 0))
    assert (prediction.label, prediction.runtime) == (GREEN, predictor.runtime)


@pytest.mark.parametrize("is_there", [False, True])
def test_without_a_device_that_can_be_had_the_twin_runs_and_says_so(is_there: bool, kp: Any, tmp_path: Path) -> None:
    kp.core.connected[:] = [kp.DeviceDescriptor(2, 0x720, is_connectable=False)] if is_there else []
    predictor = open_nef(nef(tmp_path), twin_of(tmp_path))
    assert (predictor.runtime, predictor.why) == (f"{ORT} · ONNX twin", "no Kneron device is connected to this node")


def test_a_device_that_does_not_take_the_model_is_let_go_and_the_twin_runs(kp: Any, tmp_path: Path) -> None:
    predictor = open_nef(nef(tmp_path, chip="KL520"), twin_of(tmp_path))
    assert predictor.runtime == f"{ORT} · ONNX twin"
    assert "KP_FW_LOAD_MODEL_FAILED_104" in predictor.why
    assert not any(group.is_connected for group in kp.core.groups)


def test_the_simulators_model_runs_as_its_twin(kp: Any, tmp_path: Path) -> None:
    predictor = open_nef(tmp_path / "out.bie", twin_of(tmp_path), card(Format.BIE, toolchain="kneron"))
    assert predictor.runtime == f"{ORT} · ONNX twin"
    assert "simulator" in predictor.why


@pytest.mark.parametrize("format_", [Format.NEF, Format.BIE])
def test_without_a_twin_there_is_nothing_to_run(format_: Format, no_kp: None, tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match=r"a model cannot run here: (no Kneron runtime|a BIE of the vendor)"):
        open_nef(nef(tmp_path), None, card(format_, toolchain="kneron"))


def test_a_layout_that_is_not_known_is_refused_and_the_device_let_go(kp: Any, tmp_path: Path) -> None:
    """Raw values need the strides that only the newer description has."""
    with pytest.raises(ModelUnusable, match="layout RAW_8B, which is not known here"):
        open_nef(nef(tmp_path, layout="RAW_8B"))
    assert not any(group.is_connected for group in kp.core.groups)


def test_a_model_that_no_decoder_understands_lets_the_device_go(kp: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="not those of yolox"):
        open_nef(nef(tmp_path), None, card(Format.NEF, toolchain="kneron", decoder=Decoder.YOLOX))
    assert [group.is_connected for group in kp.core.groups] == [False]


def test_descriptors_of_plus_2_are_understood_too(kp: Any) -> None:
    """They keep shapes and quantization one level higher, and scale as a plain number."""

    parameters = SimpleNamespace(
        quantized_axis=1, quantized_fixed_point_descriptor_list=[SimpleNamespace(radix=3, scale=2.0)]
    )
    node = SimpleNamespace(
        data_layout=kp.ModelTensorDataLayout.KP_MODEL_TENSOR_DATA_LAYOUT_16W1C8B,
        shape_npu=[1, 1, 2, 2],
        shape_onnx=[1, 1, 2, 2],
        quantization_parameters=parameters,
    )
    packed = np.frombuffer(packing_of(node, "KL720").pack(np.array([[[[1, 2], [3, 4.2]]]])), np.int8)
    assert packed.reshape(2, 16)[:, :2].tolist() == [[16, 32], [48, 67]]
    assert not packed.reshape(2, 16)[:, 2:].any()
