"""The check of a submission, as the sandbox does it, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from app.conversion.intake.entry_points import SubmissionRequest, SubmissionResult
from app.conversion.intake.submission import check_submission
from tests.harness.models import small


def request_of(model: Path, samples: Path, options: dict[str, Any] | None = None, **limits: int) -> SubmissionRequest:
    """The check of these inputs, with a folder beside the model to unpack to.

    Args:
        limits: those that are not 1 GiB, or 1000 samples.
    """
    return {
        "model": str(model),
        "images": str(samples),
        "unpack_to": str(model.with_name("unpacked")),
        "options": options or {},
        "model_bytes": limits.get("model_bytes", 1 << 30),
        "images_bytes": limits.get("images_bytes", 1 << 30),
        "limits": {
            "unpacked_bytes": limits.get("unpacked_bytes", 1 << 30),
            "max_images": limits.get("max_images", 1000),
        },
    }


def submit(
    tmp_path: Path, model: onnx.ModelProto, images: Path, options: dict[str, Any] | None = None, **limits: int
) -> SubmissionResult:
    request = request_of(small.write(tmp_path / "model.onnx", model), images, options, **limits)
    return check_submission(request, lambda fraction, message: None)
