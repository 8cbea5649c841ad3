"""Rows and events to files in the data home of the producer's owner: JSON Lines, in segments of bounded length."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol

from app.kit.errors import Conflict, ModelmillError
from app.kit.text.untrusted_json import read_object
from app.results.model.sink import Delivery, Sink

SEGMENT = 500
"""Rows or events in a file."""


class OwnersFiles(Protocol):
    """Files in data homes. Both methods may raise ModelmillError."""

    def read(self, owner: str, path: str) -> bytes:
        """Returns the content; empty if there is no such file."""

    def write(self, owner: str, path: str, content: bytes) -> None:
        """Replaces the content, completely or not at all."""


class FileSender:
    """Appends to files.

    Args:
        owner_of: returns the owner of a producer, by its uid.
    """

    def __init__(self, files: OwnersFiles, owner_of: Callable[[str], str]) -> None:
        self._files = files
        self._owner_of = owner_of

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Returns why they were not written; empty if they are in the files. One that was written before replaces
        itself."""
        try:
            owner = self._owner_of(sink.uid)
            for name, some in groupby(deliveries, key=lambda delivery: _name(sink, delivery)):
                path = f"{sink.address.strip('/')}/{name}"
                lines = _read_lines(self._files.read(owner, path), path)
                lines |= {delivery.envelope["id"]: json.dumps(delivery.envelope) for delivery in some}
                self._files.write(owner, path, "".join(f"{line}\n" for line in lines.values()).encode())
        except ModelmillError as error:
            return error.message.rstrip(".")
        return ""


def _name(sink: Sink, delivery: Delivery) -> str:
    """Names a file; it contains the sink's id, so that no other sink writes to it at the same time."""
    if delivery.is_test:
        return f"{sink.uid}-test.jsonl"
    return f"{sink.uid}-{sink.content.value}-{sink.sink_id[:8]}-{delivery.number // SEGMENT * SEGMENT:09}.jsonl"


def _read_lines(content: bytes, path: str) -> dict[str, str]:
    """Returns the lines of a file by the ids of their rows or events.

    Raises:
        Conflict: It has others: the owner of the home may put anything there.
    """
    try:
        return {read_object(line)["id"]: line for line in content.decode().splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise Conflict(f"{path} has other lines than this sink writes: move it away.") from error
