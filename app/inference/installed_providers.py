"""The execution providers that this machine's onnxruntime was built with, without loading it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from app.inference.predictor_options import ExecutionProvider

LIBRARY = "*onnxruntime_providers_{}.*"
"""In the folder of onnxruntime's libraries, one for each provider."""
BUILT_IN = (ExecutionProvider.AUTO, ExecutionProvider.CPU)


def list_installed_providers() -> tuple[ExecutionProvider, ...]:
    """Returns them, the CPU as the last; none without onnxruntime. Whether a device and its libraries are there shows
    when a model is opened."""
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent / "capi"
    others = [one for one in ExecutionProvider if one not in BUILT_IN and any(folder.glob(LIBRARY.format(one)))]
    if sys.platform == "darwin" and ExecutionProvider.COREML not in others:
        others.append(ExecutionProvider.COREML)
    return (*others, ExecutionProvider.CPU)
