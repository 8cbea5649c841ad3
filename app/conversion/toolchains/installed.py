"""Which toolchains are installed on this host, regardless of its settings. Loads none of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.conversion.errors import ToolchainMissing
from app.conversion.options import ToolchainName
from app.conversion.toolchains.kneron.vendor import Vendor


def list_installed(offered: Iterable[ToolchainName], *, kneron_python: Path) -> list[ToolchainName]:
    return [name for name in offered if name is not ToolchainName.KNERON or _has_kneron(kneron_python)]


def _has_kneron(python: Path) -> bool:
    try:
        Vendor(python=python).check()
    except ToolchainMissing:
        return False
    return True
