"""The server-sent events of a job: its state at once and at every change, until it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import redis
from sse_starlette import ServerSentEvent

from app.conversion import model
from app.conversion.service import Conversion
from app.kit.errors import NotFound
from app.kit.events import NudgeHub, changed

LOOK_AGAIN_S = 10.0
MIN_FRAME_GAP_S = 0.05


@dataclass(frozen=True)
class Frames:
    """status: the state as it is sent. last: what is sent after it; empty while the job goes on."""

    status: bytes
    last: bytes


async def job_frames(hub: NudgeHub, conversion: Conversion, job_id: str, user: str) -> AsyncIterator[bytes]:
    """Ends with `done`, or with `gone` when the record was forgotten. Says nothing while Redis is away.

    When this process ends, it ends without a word: the viewer comes back by itself.
    """
    key = f"job:{job_id}"
    with hub.watch(key) as flag:
        sent = b""
        while not hub.is_ending:
            with contextlib.suppress(redis.RedisError):
                frames = await hub.shared(key, user, lambda: _frames(conversion, job_id, user))
                if frames.status and frames.status != sent:
                    yield frames.status
                    sent = frames.status
                if frames.last:
                    yield frames.last
                    return
            await asyncio.sleep(MIN_FRAME_GAP_S)
            await changed(flag, LOOK_AGAIN_S)


def _frames(conversion: Conversion, job_id: str, user: str) -> Frames:
    try:
        record = conversion.jobs.get(job_id, user)
    except NotFound as error:
        return Frames(b"", _encoded("gone", json.dumps({"error": error.to_dict()})))
    text = json.dumps(model.to_json(record, conversion.jobs.queue_position(record)))
    return Frames(_encoded("status", text), _encoded("done", text) if record.is_terminal else b"")


def _encoded(event: str, data: str) -> bytes:
    return ServerSentEvent(data, event=event).encode()
