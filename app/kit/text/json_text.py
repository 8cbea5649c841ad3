"""Values as JSON text, for text columns."""

from __future__ import annotations

import json
from typing import Any


def json_text(data: Any) -> str:
    """Raises ValueError for a number that JSON does not support."""
    return json.dumps(data, allow_nan=False)
