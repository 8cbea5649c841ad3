"""The server-sent events of a job: its state at once and at every change, until it has ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from app.conversion.service import Conversion
from app.kit.errors import NotFound
from app.kit.redis.change_hub import ChangeHub
from app.kit.web.sse import EventFrames, frame, record_frames

MIN_FRAME_GAP_S = 0.05


def job_frames(hub: ChangeHub, conversion: Conversion, job_id: str, user: str) -> AsyncIterator[bytes]:
    """Ends with `done`, or with `gone` when the record was forgotten."""
    return record_frames(hub, f"job:{job_id}", user, lambda: _frames(conversion, job_id, user), gap_s=MIN_FRAME_GAP_S)


def _frames(conversion: Conversion, job_id: str, user: str) -> EventFrames:
    try:
        record = conversion.jobs.get(job_id, user)
    except NotFound as error:
        return EventFrames(b"", frame("gone", json.dumps({"error": error.to_dict()})))
    text = json.dumps(conversion.shown(record))
    return EventFrames(frame("status", text), frame("done", text) if record.is_terminal else b"")
