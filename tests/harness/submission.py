"""The check of a submission, as the sandbox does it, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

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
