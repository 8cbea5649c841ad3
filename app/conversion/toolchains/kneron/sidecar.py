"""Metadata of a BIE file, which is opaque, and tied to one chip and one toolchain version.

They are an extra file of the BIE stage and are checked before the NEF stage. Source: vendor manual v0.33.1,
release history (BIE of older versions do not compile).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from app.conversion.errors import ToolchainFailed
from app.kit.files import sha256_of

NAME = "bie.meta.json"
SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\.bie")


@dataclass(frozen=True)
class BieMeta:
    platform: str
    toolchain_version: str
    sha256: str
    vendor_name: str
    model_id: int

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self), indent=1), "utf-8")
        return path

    def safe_name(self) -> str:
        """Returns the vendor's name of the file if it is a plain one: the vendor derives other names from it."""
        return self.vendor_name if SAFE_NAME.fullmatch(self.vendor_name) else fallback_name(self.platform)


def fallback_name(platform: str) -> str:
    return f"model.kdp{platform}.scaled.bie"


def read(path: Path) -> BieMeta | None:
    """Reads the metadata; None if the file is missing or unreadable."""
    try:
        return BieMeta(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def check(meta: BieMeta | None, bie: Path, platform: str, toolchain_version: str) -> list[str]:
    """Checks that a BIE belongs to the job that compiles it.

    Args:
        meta: the metadata from the BIE stage; None: the file has none.
        platform: the chip to compile for.
        toolchain_version: the version of this worker; empty: unknown.

    Returns:
        Warnings about what cannot be checked.

    Raises:
        ToolchainFailed: The BIE belongs to something else.
    """
    if meta is None:
        return ["the BIE file came without its origin, so chip and toolchain version could not be checked"]
    hint = "Convert the model again from the start with this toolchain."
    if meta.platform != platform:
        message = f"the BIE file was made for chip {meta.platform}, not for {platform}"
        raise ToolchainFailed(message, hint=hint, detail=_build_detail("bie_other_chip", message))
    if meta.sha256 != sha256_of(bie):
        message = "the BIE file is not the one that the BIE stage wrote"
        raise ToolchainFailed(message, hint=hint, detail=_build_detail("bie_changed", message))
    if not meta.toolchain_version or not toolchain_version:
        return ["the toolchain version is not known, so it could not be compared with that of the BIE file"]
    if meta.toolchain_version != toolchain_version:
        message = f"the BIE file was made by {meta.toolchain_version}, but this worker has {toolchain_version}"
        hint = "Give all workers the same toolchain image, or convert the model again from the start."
        raise ToolchainFailed(message, hint=hint, detail=_build_detail("bie_other_version", message))
    return []


def _build_detail(id: str, line: str) -> dict[str, object]:
    return {"id": id, "blame": "toolchain", "lines": [line]}
