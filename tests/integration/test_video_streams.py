"""Jobs on live streams: a camera that dies, comes back, or stands still."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import av
import numpy as np
import pytest

from app.video.model.dag import read_dag
from app.video.model.job import RestartPolicy
from tests.harness.http_server import served
from tests.harness.until import until
from tests.harness.video.dags import REQUIREMENT
from tests.harness.video.runner import Deployment, deployment, plan_of

EDGE, RATE = "edge-1", 12


class Camera:
    """Sends MPEG-TS over HTTP, without a length, as fast as it is read. mode: what becomes of who has asked: on, off
    (the connection is closed, and refused), frozen (nothing more comes)."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._film = recorded()
        self.mode = "on"
        self.url = ""

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> None:
        if self.mode == "off":
            request.send_error(503)
            return
        request.send_response(200)
        request.send_header("content-type", "video/mp2t")
        request.end_headers()
        request.wfile.write(self._film)
        request.wfile.flush()
        self.wait_while("frozen" if self.mode == "frozen" else "on")

    def become(self, mode: str) -> None:
        with self._changed:
            self.mode = mode
            self._changed.notify_all()

    def wait_while(self, mode: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.mode != mode)


def recorded() -> bytes:
    file, rng = io.BytesIO(), np.random.default_rng(1)
    with av.open(file, "w", format="mpegts") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 320, 180, "yuv420p", 4_000_000
        for _ in range(4 * RATE):
            picture = rng.integers(0, 255, (180, 320, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


@pytest.fixture
def camera() -> Iterator[Camera]:
    made = Camera()
    with served(made.answer) as url:
        made.url = f"{url.replace('//', '//ann:secret@')}/camera"
        yield made
        made.become("closed")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as deployed:
        yield deployed


def start(made: Deployment, camera: Camera, policy: RestartPolicy) -> None:
    """Until it has seen something."""
    content = made.content(plan_of(read_dag(REQUIREMENT), EDGE), realtime=True, restart_policy=policy)
    made.start(content, camera.url)
    until(lambda: made.agent.results)


def flags(made: Deployment) -> list[str]:
    return list(made.agent.reports[-1]["flags"])


def test_a_camera_that_dies_is_no_end_but_a_failure(made: Deployment, camera: Camera) -> None:
    start(made, camera, RestartPolicy.NEVER)
    camera.become("off")
    ending, reason = until(lambda: made.agent.ending)
    assert (ending, reason) == ("error", "the source is cut off: the connection was lost")


@pytest.mark.parametrize("policy", [RestartPolicy.EOS, RestartPolicy.ERROR, RestartPolicy.ALWAYS])
def test_a_camera_that_is_away_is_a_job_without_a_signal_until_it_is_back(
    made: Deployment, camera: Camera, policy: RestartPolicy
) -> None:
    start(made, camera, policy)
    camera.become("off")
    until(lambda: "no_signal" in flags(made))
    away = until(lambda: next((one for one in made.agent.reports if one.get("silent_s", 0) > 1), None))
    assert away["plan_result"] == {"delay": {}, "fps": 0.0, "frames": 0, "plan_seq": 1}
    assert "No signal: the source is cut off: the connection was lost." in made.agent.notes
    seen = len(made.agent.results)
    camera.become("on")
    until(lambda: len(made.agent.results) > seen and "no_signal" not in flags(made))
    assert "The signal is back, after " in made.agent.notes
    back = until(lambda: next((one for one in made.agent.reports[::-1] if "e2e_p50" in one["plan_result"]), None))
    assert "silent_s" not in back and back["plan_result"]["e2e_p50"] > 0 and back is not away
    assert made.agent.ending is None


def test_a_camera_that_stands_still_is_told_in_words(
    made: Deployment, camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.inference.sources.video.TIMEOUT_S", 4.0)
    camera.become("frozen")
    start(made, camera, RestartPolicy.NEVER)
    assert until(lambda: made.agent.ending) == ("error", "the source is cut off: it gave no picture for 4 s")


def test_a_camera_that_was_never_there_is_waited_for(made: Deployment, camera: Camera) -> None:
    camera.become("off")
    content = made.content(plan_of(read_dag(REQUIREMENT), EDGE), realtime=True, restart_policy=RestartPolicy.ALWAYS)
    made.start(content, camera.url)
    until(lambda: made.agent.reports and "no_signal" in flags(made))
    assert "secret" not in made.agent.notes and "cannot be opened as a video" in made.agent.notes
    camera.become("on")
    until(lambda: made.agent.results)
