"""Values as texts of JSON, for columns that hold such."""

from __future__ import annotations

import json
from typing import Any


def json_text(data: Any) -> str:
    """Raises ValueError for a number that JSON does not have."""
    return json.dumps(data, allow_nan=False)
