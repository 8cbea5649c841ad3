"""Converted models, packed by hand."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from app.conversion.toolchains.host import runtime


def host_nef(path: Path, content: bytes = b"ort model", **manifest: Any) -> Path:
    """The host toolchain's. content: something else than what its manifest says."""
    entry = {"sha256": hashlib.sha256(b"ort model").hexdigest(), "size_bytes": len(b"ort model")}
    whole = {"format": runtime.NEF_FORMAT, "version": runtime.NEF_VERSION, "files": {runtime.MODEL: entry}, **manifest}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(runtime.MANIFEST, json.dumps(whole))
        archive.writestr(runtime.MODEL, content)
    return path
