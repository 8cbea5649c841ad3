"""TFLite models (.tflite) to ONNX, with tf2onnx. Runs in the sandbox, because the file is untrusted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from app.conversion.intake.entry_points import ConvertRequest
from app.exchange.converters import first_line
from app.exchange.errors import BadSource
from app.kit.errors import ExtraMissing
from app.kit.text.json_values import JsonObject

OPSET = 17


def convert(request: ConvertRequest, _progress: Any) -> JsonObject:
    """Convert a TFLite model to ONNX; a quantized one to the float model that it represents.

    Raises:
        BadSource: It is not one, or has an operator that ONNX lacks.
        ExtraMissing: tf2onnx or TensorFlow is not installed here.
    """
    keras = str(Path(request["into"]).with_name("keras"))  # the part of TensorFlow that would use the home folder
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", KERAS_HOME=keras)
    try:
        import tf2onnx.convert
    except ImportError as error:
        raise ExtraMissing("tf2onnx is not installed here.", hint="pip install 'modelmill[tflite]'") from error
    # The package's functions keep operators that they cannot convert; its command refuses them.
    files = ["--tflite", request["model"], "--output", request["into"]]
    sys.argv = ["tf2onnx", *files, "--opset", str(OPSET), "--dequantize"]
    try:
        tf2onnx.convert.main()
    except (Exception, SystemExit) as error:
        raise BadSource(
            f"tf2onnx cannot convert this TFLite model: {first_line(error)}",
            hint="Export it to ONNX where it was made, and convert that.",
        ) from error
    return {"onnx_bytes": Path(request["into"]).stat().st_size, "tf2onnx": tf2onnx.__version__}
