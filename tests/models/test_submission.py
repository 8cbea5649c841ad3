"""What is checked when a conversion is submitted."""

from __future__ import annotations

import zipfile
from pathlib import Path

import onnx
import pytest

from tests.harness.submission import submit


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
