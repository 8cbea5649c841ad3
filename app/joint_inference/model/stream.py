"""The state of an edge worker's stream. Sent in the worker's report: worker → agent → web. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.joint_inference.model.status import Reason
from app.kit.text.json_values import JsonObject

STREAM = "stream"
"""Key in a worker's report of itself."""
ENDS = (Reason.SOURCE_UNAVAILABLE, Reason.DECODER_MISSING, Reason.SOURCE_ENDED)
MOST_TEXT = 500


@dataclass(frozen=True)
class StreamEnd:
    """Why no frames come."""

    reason: Reason
    message: str
    is_partial: bool = False
    """Other sources of the worker go on."""

    @property
    def is_failure(self) -> bool:
        return self.reason is not Reason.SOURCE_ENDED

    def to_json(self) -> JsonObject:
        partial = {"is_partial": True} if self.is_partial else {}
        return {"reason": self.reason.value, "message": self.message[:MOST_TEXT], **partial}


def stream_end(detail: Mapping[str, Any]) -> StreamEnd | None:
    """Returns why no frames come; None if they do, there is no stream, or nothing is known.

    Args:
        detail: a worker's report of itself, which may be anything.
    """
    stream = detail.get(STREAM)
    reason = stream.get("reason") if isinstance(stream, Mapping) else None
    if reason not in ENDS:
        return None
    assert isinstance(stream, Mapping)
    message = str(stream.get("message", ""))[:MOST_TEXT]
    return StreamEnd(Reason(reason), message, is_partial=stream.get("is_partial") is True)
