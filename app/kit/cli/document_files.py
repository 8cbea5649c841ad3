"""Files that commands read; - is stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from app.kit.errors import BadRequest, NotFound
from app.kit.text.untrusted_json import read_object

MAX_BYTES = 1 << 20
STDIN = "-"


def read_file(file: str) -> bytes:
    """A document that a command names. Raises NotFound, BadRequest."""
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", hint="Name a file that is there, or - for stdin.") from None
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error


def read_json(file: str) -> dict[str, Any]:
    """The JSON object in a file; - is stdin. Raises BadRequest."""
    try:
        text = sys.stdin.read(MAX_BYTES + 1) if file == STDIN else Path(file).read_text(encoding="utf-8")
        return read_object(text)
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror or error}", hint="Name a file that is there.") from error
    except ValueError as error:  # no UTF-8, or no JSON object
        raise BadRequest(f"{file} cannot be read: {error}", hint="It is to be one JSON object.") from error
