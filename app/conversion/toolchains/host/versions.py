"""Versions of everything that can change a result of the host toolchain. Imports none of it, since workers call this,
too."""

from __future__ import annotations

from importlib import metadata

PACKAGES = ("onnx", "onnxruntime", "onnxslim", "numpy", "modelmill")


def tool_versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES}
