"""The Kneron toolchain behind the contract of `base`: the vendor's `ktc`, run in the vendor's own interpreter.

`toolchain` has the stages, `vendor` starts the interpreter, which runs `runner`. `report`, `failures` and `nef` read
the results; `operators` predicts which operators a chip lacks. Nothing here imports the vendor's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.conversion.toolchains.kneron.toolchain import KneronToolchain


def __getattr__(name: str) -> Any:
    """Loads a name on first use: code that only reads a NEF file needs neither onnx nor numpy."""
    if name != "KneronToolchain":
        raise AttributeError(name)
    from app.conversion.toolchains.kneron.toolchain import KneronToolchain

    return KneronToolchain
