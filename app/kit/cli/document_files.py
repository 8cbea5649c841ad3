"""Files that commands read; - is stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

STDIN = "-"


def read_file(file: str) -> bytes:
    """Returns the content of a file that a command names.

    Raises:
        NotFound: There is no such file.
        BadRequest: It cannot be read.
    """
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", hint="Name a file that is there, or - for stdin.") from None
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error


def read_text(file: str) -> str:
    """Returns the text of a file in UTF-8. Raises as `read_file` does, and BadRequest for other bytes."""
    try:
        return read_file(file).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{file} cannot be read: {error}", hint="It is to be a text in UTF-8.") from error


def read_json(file: str) -> JsonObject:
    """Returns the JSON object in a file. Raises as `read_text` does, and BadRequest for anything but an object."""
    try:
        return read_object(read_text(file))
    except UnreadableJson as error:
        raise BadRequest(f"{file} cannot be read: {error}", hint="It is to be one JSON object.") from error
