"""Real models, whose preprocessing is known, are recognized; none is taken for sure that is not known."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from app.conversion.intake.preprocess_recognition import recognize
from app.inference.preprocess_options import Preprocess

SHIFT127 = Preprocess(color="RGB", scale=1, mean=(127,), std=(128,))
YUNET = Preprocess(color="BGR", scale=1)
HEAD_POSE = Preprocess(color="BGR", scale=1, mean=(127.5,), std=(128,))
KNOWN = {
    "face_slim_320": SHIFT127,
    "face_rfb_320": SHIFT127,
    "face_rfb_320_nopost": SHIFT127,
    "face_rfb_640": SHIFT127,
    "face_yunet_n_320_320": YUNET,
    "face_yunet_n_dynamic": YUNET,
    "headpose_fsanet_1x1": HEAD_POSE,
    "headpose_fsanet_var": HEAD_POSE,
    "det_fastestdet_352": Preprocess(color="BGR"),
    "det_yolox_nano_416": Preprocess(color="BGR", scale=1, resize="letterbox"),
}
DIGITS = Preprocess(color="GRAY")
LIKELY = KNOWN | {"digits_small": DIGITS, "digits_big": DIGITS}
"""What all were trained with, as far as it is known."""
NOT_TOLD = ("cls_mobilenet_v2_128_dynamic_batch", "digits_small", "digits_big")


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_is_recognized_for_sure(name: str, shared_data: Path) -> None:
    recognition = recognize(onnx.load(shared_data / "models" / f"{name}.onnx"))
    assert recognition is not None
    assert recognition.is_sure
    assert recognition.preprocess == KNOWN[name]


@pytest.mark.parametrize("name", NOT_TOLD)
def test_where_the_graph_does_not_tell_nothing_is_sure(name: str, shared_data: Path) -> None:
    recognition = recognize(onnx.load(shared_data / "models" / f"{name}.onnx"))
    assert recognition is not None
    assert not recognition.is_sure


def test_of_all_models_at_least_95_in_100_are_right_and_none_is_surely_wrong(shared_data: Path) -> None:
    rows = {name: recognize(onnx.load(shared_data / "models" / f"{name}.onnx")) for name in LIKELY}
    right = [name for name, one in rows.items() if one is not None and one.preprocess == LIKELY[name]]
    assert len(right) >= 0.95 * len(rows), set(rows) - set(right)
    assert not [name for name, one in rows.items() if one is not None and one.is_sure and name not in right]
