"""Versions of everything that can change a result of the host toolchain. Imports none of it, since workers call this,
too."""

from __future__ import annotations

from functools import cache
from importlib import metadata

PACKAGES = ("onnx", "onnxruntime", "onnxslim", "numpy", "modelmill")


def tool_versions() -> dict[str, str]:
    """Returns the versions by package, as of the first call: what this process has loaded."""
    return {name: _digest_version(name) for name in PACKAGES}


@cache
def _digest_version(name: str) -> str:
    return metadata.version(name)
