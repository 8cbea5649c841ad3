"""Names of JSON values in type annotations."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object whose members are open, or are described elsewhere: by a schema, a reader, or another program."""
