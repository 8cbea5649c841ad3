"""What is checked when a conversion is submitted."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest

from app.conversion.intake.submission import check_submission
from tests.harness.models import small

LIMITS = {"model_bytes": 1 << 30, "images_bytes": 1 << 30, "unpacked_bytes": 1 << 30, "max_images": 1000}


def submit(
    tmp_path: Path, model: onnx.ModelProto, images: Path, options: dict[str, Any] | None = None, **limits: int
) -> dict[str, Any]:
    request = {
        "model": str(small.write(tmp_path / "model.onnx", model)),
        "images": str(images),
        "unpack_to": str(tmp_path / "unpacked"),
        "options": options or {},
        "limits": {**LIMITS, **limits},
    }
    return check_submission(request, lambda fraction, message: None)


@pytest.mark.parametrize(
    ("name", "macs"),
    [("face_rfb_320", 100418560), ("det_fastestdet_352", 121491744), ("cls_mobilenet_v2_128_dynamic_batch", 18153504)],
)
def test_real_models_and_pictures_pass(tmp_path: Path, shared_data: Path, name: str, macs: int) -> None:
    with zipfile.ZipFile(tmp_path / "quant.zip", "w") as archive:
        for path in sorted((shared_data / "images").glob("face_*.jpg")):
            archive.write(path, path.name)
    model = onnx.load(shared_data / f"models/{name}.onnx")
    description = submit(tmp_path, model, tmp_path / "quant.zip")
    assert description["samples"]["kinds"] == {"image": 14}
    assert description["model"]["macs"] == macs
