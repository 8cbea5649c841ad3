"""The file with the instructions of the agent to a process that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.kit.errors import BadInput
from app.kit.text.untrusted_json import read_json

VARIABLE = "MODELMILL_WORK"
"""Environment variable with the path of the file."""


class WorkMissing(BadInput, code="NO_WORK"):
    """An agent did not start this process, or its instructions cannot be read."""


@contextmanager
def work_document(path: Path, reader: str) -> Iterator[Any]:
    """Yields the content of the file, which the block converts.

    Args:
        path: of the file.
        reader: the kind of process, for the message.

    Raises:
        WorkMissing: The file cannot be read, or its content cannot be converted.
    """
    try:
        yield read_json(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput) as error:
        raise WorkMissing(f"{path} does not say what this {reader} is to do: {error}.") from None


def path_from_environment() -> Path:
    """Returns the path of this process's file.

    Raises:
        WorkMissing: The environment does not name it.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        raise WorkMissing(f"{VARIABLE} is not set.", hint="The agent of a node sets it for the processes it starts.")
    return Path(path)
