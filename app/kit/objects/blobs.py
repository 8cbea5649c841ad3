"""Files named by their content: in the object store under their SHA-256, shared by all users who have them."""

from __future__ import annotations

import re

SHA256 = re.compile(r"[0-9a-f]{64}")


def blob_key(sha256: str) -> str:
    """Returns the key of the object with this content.

    Raises:
        ValueError: It is no SHA-256 in hex.
    """
    if SHA256.fullmatch(sha256) is None:
        raise ValueError(f"{sha256!r} is no sha256")
    return f"blobs/{sha256}"
