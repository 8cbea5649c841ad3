"""Something to see on the pages of video: nodes with videos, stages, jobs that run, wait and have ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.kit.clock import now
from app.video.model.job import Ending
from tests.harness.video.records import EDGE, ended_video, running_video, waiting_video

USER = "local"


class VideoScene(NamedTuple):
    """uids."""

    running: str
    waiting: str
    ended: str


def set_video_scene(container: Container) -> VideoScene:
    video, at = container.video, now()
    ended = ended_video(video, USER, now=at, ending=Ending.ERROR, reason="The source cannot be read: clip.mp4.")
    running = running_video(video, USER, now=at)
    shade = np.linspace(0, 255, 480 * 270 * 3).reshape(270, 480, 3).astype(np.uint8)
    picture, _ = encode(shade)
    video.pictures.put_snapshot(EDGE, running.uid, picture, now=now())
    waiting = waiting_video(video, USER, now=at)  # last: from now on no runner says where it serves a live picture
    return VideoScene(running.uid, waiting.uid, ended.uid)
