"""Files with one JSON object, as commands read them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from app.kit.errors import BadRequest

MAX_BYTES = 1 << 20


def read_json(file: str) -> dict[str, Any]:
    """The JSON object in a file; - is stdin. Raises BadRequest."""
    try:
        text = sys.stdin.read(MAX_BYTES + 1) if file == "-" else Path(file).read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror or error}", hint="Name a file that is there.") from error
    except ValueError as error:
        raise BadRequest(f"{file} is no JSON: {error}", hint="It is to be one JSON object.") from error
    if not isinstance(document, dict):
        raise BadRequest(f"{file} has no JSON object", hint="It is to begin with {.")
    return document
