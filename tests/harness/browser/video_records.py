"""Something to see on the pages of video: nodes with videos, stages, jobs that run, wait and have ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.kit.clock import now
from app.results.model.rule import Direction, Rule, RuleSet, Zone
from app.results.model.sink import SinkContent, SinkKind
from app.video.model.job import Ending
from app.video.service.producers import producer_of_job
from tests.harness.video.records import EDGE, ended_video, result, running_video, waiting_video

USER = "local"


class VideoPages(NamedTuple):
    """uids."""

    running: str
    waiting: str
    ended: str


def set_video_scene(container: Container) -> VideoPages:
    video, at = container.video, now()
    ended = ended_video(video, USER, now=at, ending=Ending.ERROR, reason="The source cannot be read: clip.mp4.")
    running = running_video(video, USER, now=at)
    shade = np.linspace(0, 255, 480 * 270 * 3).reshape(270, 480, 3).astype(np.uint8)
    picture, _ = encode(shade)
    _set_rules(container, running.uid)
    video.pictures.put_snapshot(EDGE, running.uid, picture, now=now())
    waiting = waiting_video(video, USER, now=at)  # last: from now on no runner says where it serves a live picture
    return VideoPages(running.uid, waiting.uid, ended.uid)


def _set_rules(container: Container, uid: str) -> None:
    """An area and a line, a rule of each, and an event."""
    video = container.video
    door = Zone("door", ((0.55, 0.2), (0.9, 0.2), (0.9, 0.95), (0.55, 0.95)))
    gate = Zone("gate", ((0.3, 0.2), (0.35, 0.9)))
    loiter = Rule("loiterer", zone="door", label="person", min_score=0.5, frames=1, cooldown_s=300)
    out = Rule("out", zone="gate", direction=Direction.LEFT, cooldown_s=0)
    boxes = {"bbox": [[300, 60, 380, 230]], "labels": ["person"], "scores": [0.91], "size": [480, 270]}
    address = "mqtts://mill:secret@93.184.215.14/cameras/door"
    producer = producer_of_job(video.jobs.get(USER, uid))
    container.results.rules.put(producer, RuleSet((door, gate), (loiter, out)))
    container.results.sinks.add(producer, SinkKind.MQTT, SinkContent.ROWS, address, now=now())
    row = {**result(51), "at": now().timestamp(), **boxes}
    video.reports.take({"job_uid": uid, "seq": 51, "results": [row]}, node=EDGE, user="", now=now())
