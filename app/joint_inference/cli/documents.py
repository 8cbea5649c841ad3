"""Services as somebody wrote them down: a file, or stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from app.joint_inference.documents import parse_documents
from app.kit.errors import BadRequest, NotFound

STDIN = "-"


def read_resources(file: str) -> list[Any]:
    """All that the file holds. Raises NotFound, BadRequest, and as parse_documents."""
    return parse_documents(_bytes(file))


def _bytes(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", hint="Name the YAML of the service, or - for stdin.") from None
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error
