"""The Kneron toolchain behind the contract of `base`: the vendor's `ktc`, run in the vendor's own interpreter.

`toolchain` holds the stages, `vendor` starts the interpreter, `runner` is what it runs. `report`, `failures` and `nef`
read what comes back; `operators` forecasts what a chip lacks. Nothing here needs the vendor's package to be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.conversion.toolchains.kneron.toolchain import KneronToolchain


def __getattr__(name: str) -> Any:
    """Loaded on first use: who only reads a NEF file needs neither onnx nor numpy."""
    if name != "KneronToolchain":
        raise AttributeError(name)
    from app.conversion.toolchains.kneron.toolchain import KneronToolchain

    return KneronToolchain
