"""Server-sent events: a job at once and at every change until it has ended, and the list of jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from app.kit.errors import NotFound
from app.kit.redis.change_hub import ChangeHub
from app.kit.web.sse import EventFrames, frame, record_frames
from app.video import responses, schemas
from app.video.model.job import JobState
from app.video.service import Video

CHANNEL = "video"
MIN_FRAME_GAP_S = 0.2


def job_frames(hub: ChangeHub, video: Video, user: str, uid: str) -> AsyncIterator[bytes]:
    """The events of a job's page. They end with `done`, or with `gone` when the job was deleted.

    Args:
        user: who looks on.
        uid: of the job.
    """
    return record_frames(hub, f"{CHANNEL}:{uid}", user, lambda: _frames(video, user, uid), gap_s=MIN_FRAME_GAP_S)


def list_frames(hub: ChangeHub, video: Video, user: str) -> AsyncIterator[bytes]:
    """`jobs`: the user's newest, at once and when they have changed."""
    return record_frames(hub, CHANNEL, user, lambda: _newest(video, user), gap_s=MIN_FRAME_GAP_S)


def _newest(video: Video, user: str) -> EventFrames:
    jobs, cursor = video.jobs.page(user)
    answer = schemas.JobsAnswer(jobs=[responses.summary(job) for job in jobs], next_cursor=cursor)
    return EventFrames(frame("jobs", answer.model_dump_json()))


def _frames(video: Video, user: str, uid: str) -> EventFrames:
    try:
        job = video.jobs.get(user, uid)
    except NotFound as error:
        return EventFrames(b"", frame("gone", json.dumps({"error": error.to_dict()})))
    text = responses.describe_job(job).model_dump_json()
    return EventFrames(frame("status", text), frame("done", text) if job.state is JobState.DONE else b"")
