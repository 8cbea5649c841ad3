"""The drawn picture of a job as a stream: pushed to a real RTSP server, GStreamer's, and played from there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from app.edge.joint.joint import JointInference
from app.edge.joint.stream import SourceStreams
from app.edge.media import broadcaster as broadcasting
from app.edge.media import rtsp_push
from app.edge.media.broadcaster import FLAG, NO_SERVER, Broadcaster
from app.edge.media.rtsp_push import STALLED
from app.edge.video.runner.preview import PreviewScene
from app.inference.broadcast import Broadcast, BroadcastState
from app.inference.prediction import Box, Picture, Prediction
from app.joint_inference.hard_examples import make
from app.joint_inference.model.sources import NamedSource, SourceBroadcast, source_broadcasts
from app.joint_inference.worker_options import EdgeOptions
from app.kit.backoff import GrowingPause
from app.video.model.dag import read_dag
from app.video.model.job import RestartPolicy
from tests.harness.ports import free_port
from tests.harness.rtsp_server import RtspServer, rtsp_server
from tests.harness.until import until
from tests.harness.video.dags import REQUIREMENT
from tests.harness.video.runner import UID, deployment, plan_of, video

pytestmark = pytest.mark.slow
GRAPH, EDGE = read_dag(REQUIREMENT), "edge-1"
ACCOUNT, PASSWORD = "ann:hunter2", "hunter2"


@pytest.fixture
def server() -> Iterator[RtspServer]:
    with rtsp_server("--credentials", ACCOUNT, "--scheme", "digest", "--relay", str(free_port())) as made:
        yield made


class Scene:
    number = 1


class Job:
    """Shows one gray picture, which a broadcaster repeats."""

    def __init__(self, url: str, path: str = "door") -> None:
        self.notes: list[str] = []
        self.broadcaster = Broadcaster(Broadcast(path, fps=20.0, width=320), url, UID, self.draw, self.notes.append)
        self.broadcaster.start()
        scene: Any = Scene()
        self.broadcaster.show(scene)

    def draw(self, _: PreviewScene) -> Picture:
        return np.full((480, 640, 3), 200, np.uint8)

    def until_sent(self, frames: int) -> BroadcastState:
        """So many more."""
        sent = self.broadcaster.state()["frames"] + frames
        return until(self.broadcaster.state, lambda state: state["frames"] >= sent and state["is_sending"])

    def until_failed(self) -> str:
        return until(self.broadcaster.state, lambda state: self.broadcaster.flags)["problem"]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcasting, "AGAIN_S", 0.05)
    monkeypatch.setattr(broadcasting, "PAUSE", GrowingPause(0.1, 0.2))
    monkeypatch.setattr(broadcasting, "MOST_OF_A_CORE", 1.0)


def played(server: RtspServer, frames: int = 3) -> list[Picture]:
    """What a viewer sees."""
    url, options = server.url(ACCOUNT, "out/door"), {"rtsp_transport": "tcp"}
    with av.open(url, options=options, timeout=120) as container:
        return [frame.to_ndarray(format="rgb24") for frame in islice(container.decode(video=0), frames)]


@pytest.mark.exhaustive
def test_a_viewer_of_the_media_server_sees_the_picture_again_after_the_server_was_gone(server: RtspServer) -> None:
    job = Job(server.url(ACCOUNT, "in/"))
    state = job.until_sent(3)
    pictures = played(server)
    assert {picture.shape for picture in pictures} == {(240, 320, 3)}
    assert abs(int(pictures[-1].mean()) - 200) < 4
    assert state["url"] == server.url(path="in/door")
    assert (state["connections"], state["problem"]) == (1, "")
    server.kill()
    problem = job.until_failed()
    assert job.broadcaster.flags == [FLAG]
    assert job.notes[0].startswith("It is not broadcast: ")
    server.start()
    state = job.until_sent(3)
    assert (state["connections"], job.broadcaster.flags, job.notes[-1]) == (2, [], "It is broadcast again.")
    assert problem and state["problem"], "the last problem stays"
    assert played(server)
    job.broadcaster.close()


@pytest.mark.parametrize(
    ("account", "path", "problem"),
    [(ACCOUNT, "nowhere", "404"), ("ann:letmein", "door", "401"), ("", "door", "401")],
    ids=["path", "password", "no-password"],
)
def test_a_refusal_is_said_without_the_password(server: RtspServer, account: str, path: str, problem: str) -> None:
    job = Job(server.url(account, "in"), path)
    assert problem in job.until_failed()
    job.broadcaster.close()
    assert "letmein" not in str([job.notes, job.broadcaster.state()])
    assert PASSWORD not in str([job.notes, job.broadcaster.state()])


@pytest.mark.exhaustive
def test_a_server_that_takes_nothing_is_said_and_holds_nobody_up(
    server: RtspServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rtsp_push, "CONNECT_S", 5.0)
    server.freeze()
    try:
        job = Job(server.url(ACCOUNT, "in"))
        assert job.until_failed() == STALLED
    finally:
        server.thaw()
    job.until_sent(1)
    assert job.notes == [f"It is not broadcast: {STALLED}. The job goes on.", "It is broadcast again."]
    job.broadcaster.close()


def test_a_media_server_that_is_not_there_or_not_known_is_said() -> None:
    for host, problem in (
        (f"127.0.0.1:{free_port()}", "nothing listens at its host and port"),
        ("media.invalid", "its host is not known"),
    ):
        job = Job(f"rtsp://{ACCOUNT}@{host}/in")
        assert job.until_failed() == problem
        job.broadcaster.close()
        assert job.notes == [f"It is not broadcast: {problem}. The job goes on."]


def test_without_a_media_server_the_job_goes_on_and_says_why() -> None:
    job = Job("")
    assert job.until_failed() == NO_SERVER
    assert not job.broadcaster.state()["is_sending"]
    job.broadcaster.close()


@pytest.mark.exhaustive
def test_a_service_sends_its_streams_with_boxes_and_reports_it(tmp_path: Path, server: RtspServer) -> None:
    class Small:
        def predict(self, picture: Picture) -> Prediction:  # the real one's
            return Prediction(boxes=(Box(20, 60, 60, 100, 0.9),))

    clip, settings = video(tmp_path / "clip.mp4", frames=50), Broadcast("door", fps=20.0, width=160)
    options = EdgeOptions(sources=(NamedSource("", str(clip)),), loop=True, fps=20, broadcast=settings)
    with JointInference(Small(), make("EdgeOnly", {}), options, big_model=None, service="s") as joint:
        streams = SourceStreams(joint, server.url(ACCOUNT, "in"))
        streams.start()

        def state() -> SourceBroadcast:
            return next(source_broadcasts(joint.status_report()["detail"]))

        assert until(state, lambda state: state.is_sending).url == server.url(path="in/door")
        assert max(int(np.ptp(picture)) for picture in played(server)) > 50, "boxes are drawn"
        server.kill()
        assert until(state, lambda state: bool(state.problem))
        seen = joint.tally().inferences
        until(lambda: joint.tally().inferences > seen + 5)
        streams.close()


def test_a_job_reports_its_broadcast_and_goes_on_although_the_server_is_gone(
    tmp_path: Path, server: RtspServer
) -> None:
    clip = video(tmp_path / "clip.mp4", frames=50)
    with deployment(tmp_path / "job") as made:
        made.media_server = server.url(ACCOUNT, "in")
        dag = {**REQUIREMENT, "broadcast": {"path": "door", "fps": 20, "width": 160}}
        policy = RestartPolicy.EOS
        made.start(made.content(plan_of(GRAPH, EDGE), dag=dag, realtime=True, restart_policy=policy), clip)
        report = until(lambda: made.agent.reports, lambda some: any(one["broadcast"]["is_sending"] for one in some))[-1]
        assert report["broadcast"]["url"] == server.url(path="in/door")
        assert max(int(np.ptp(picture)) for picture in played(server)) > 50, "boxes are drawn"
        server.kill()
        until(lambda: FLAG in made.agent.reports[-1]["flags"])
        seen = len(made.agent.results)
        until(lambda: len(made.agent.results) > seen + 10)
        numbers = [row["n_loop"] for row in made.agent.results]
        assert numbers == sorted(numbers)
        until(lambda: last_of_broadcast(made.agent.notes).startswith("It is not broadcast: "))


def last_of_broadcast(notes: str) -> str:
    """The last line about it; a job may have other notes before and after."""
    return next((line for line in reversed(notes.splitlines()) if "broadcast" in line), "")
