"""A real RTSP server: what is said of a camera that dies, stands still, comes back, or lets nobody in."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from app.edge.joint.joint import JointInference
from app.edge.joint.stream import SourceStreams
from app.inference.errors import SourceUnusable
from app.inference.prediction import Picture, Prediction
from app.inference.sources import Source, open_source
from app.inference.sources.facts import SourceFacts, probe
from app.inference.sources.video import TIMEOUT_S
from app.joint_inference.hard_examples import make
from app.joint_inference.model.sources import NamedSource
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import stream_end
from app.joint_inference.worker_options import EdgeOptions
from app.video.model.dag import read_dag
from app.video.model.job import RestartPolicy
from tests.harness.rtsp_server import RtspServer, rtsp_server
from tests.harness.until import until
from tests.harness.variants import exhaustive
from tests.harness.video.dags import REQUIREMENT
from tests.harness.video.runner import Deployment, deployment, plan_of

pytestmark = pytest.mark.slow
ACCOUNT, PASSWORD = "ann:hunter2", "hunter2"
LIMIT = "app.inference.sources.video.TIMEOUT_S"
PATIENCE_S = 2.0
"""In place of the ten seconds, where their length is not what is tried."""
FRAME_S = 0.2
"""The last picture came at most so long before the camera failed."""


@pytest.fixture
def camera() -> Iterator[RtspServer]:
    with rtsp_server("--credentials", ACCOUNT, "--scheme", "digest") as server:
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On however busy a machine, a camera that is well is in time."""
    monkeypatch.setattr(LIMIT, 120.0)


@pytest.fixture
def impatient(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMIT, PATIENCE_S)


def watched(url: str, count: int) -> Source:
    """That has given so many pictures."""
    source = open_source(url)
    assert [frame.picture.shape for frame in islice(source, count)] == [(96, 160, 3)] * count
    return source


def failure(url: str) -> str:
    with pytest.raises(SourceUnusable) as caught:
        next(open_source(url))
    return caught.value.message


def seconds_until_lost(source: Source, reason: str) -> float:
    """Seconds from here on."""
    began = time.monotonic()
    with pytest.raises(SourceUnusable, match=reason):
        for _ in source:
            pass
    return time.monotonic() - began


def before_a_picture(count: Callable[[], int]) -> float:
    """A moment after which another picture has come, on however busy a machine: some may be under way already."""
    moment, known = time.monotonic(), count()
    until(lambda: count() > known + 2)
    return moment


@pytest.mark.parametrize("scheme", ["digest", *exhaustive("basic")])
def test_a_camera_with_a_password_is_read_by_who_has_it(scheme: str) -> None:
    with rtsp_server("--credentials", "ann:p@ss/w:rd", "--scheme", scheme) as camera:
        watched(camera.url("ann:p%40ss%2Fw%3Ard"), 40).close()
        for wrong in ("", f"ann:{PASSWORD}"):
            assert failure(camera.url(wrong)) == (
                f"{camera.url()} cannot be opened as a video: its URL has no user and password, or wrong ones (401)"
            )
        message = failure(camera.url("ann:p@ss/w:rd"))
        assert message.startswith(f"rtsp://…@127.0.0.1:{camera.port}/cam cannot be opened") and "ss/w" not in message


def test_what_a_camera_gives_is_known_before_a_job_reads_it(camera: RtspServer) -> None:
    assert probe(camera.url(ACCOUNT)) == SourceFacts(width=160, height=96, fps=20.0, is_live=True)
    assert probe(camera.url("ann:wrong")).problem == failure(camera.url("ann:wrong"))


def test_what_is_wrong_with_an_address_is_said(camera: RtspServer) -> None:
    assert failure(camera.url(ACCOUNT, "door")) == (
        f"{camera.url(path='door')} cannot be opened as a video: its host has no such stream (404)"
    )
    camera.kill()
    assert failure(camera.url(ACCOUNT)) == (
        f"{camera.url()} cannot be opened as a video: nothing listens at its host and port"
    )
    unknown = "rtsp://ann:hunter2@camera.invalid/cam"
    assert failure(unknown) == ("rtsp://camera.invalid/cam cannot be opened as a video: its host is not known")


def test_a_camera_that_sends_by_udp_only_is_read() -> None:
    with rtsp_server("--udp") as camera:
        source = watched(camera.url(), 40)
        camera.kill()
        seconds_until_lost(source, "broke off: the other side has ended the stream")


@pytest.mark.parametrize(("sends", "good", "bad"), [("udp", "rtspu", "rtspt"), *exhaustive(("tcp", "rtspt", "rtspu"))])
def test_the_scheme_of_an_address_says_by_what_the_pictures_come(sends: str, good: str, bad: str) -> None:
    with rtsp_server(f"--{sends}") as camera:
        watched(camera.url().replace("rtsp", good, 1), 20).close()
        refused = camera.url().replace("rtsp", bad, 1)
        assert failure(refused) == (
            f"{refused} cannot be opened as a video: it does not send its pictures that way; "
            "rtsp:// leaves the way to it"
        )


def test_a_camera_that_stands_still_is_given_up_after_the_time_that_is_documented(
    camera: RtspServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMIT, TIMEOUT_S)
    source = watched(camera.url(ACCOUNT), 30)
    camera.freeze()
    assert seconds_until_lost(source, "broke off: it gave no picture for 10 s") >= TIMEOUT_S - FRAME_S
    began = time.monotonic()
    assert failure(camera.url(ACCOUNT)) == f"{camera.url()} cannot be opened as a video: it gave no picture for 10 s"
    assert time.monotonic() - began >= TIMEOUT_S


def test_a_camera_that_gives_only_sound_gives_no_pictures(impatient: None) -> None:
    with rtsp_server("--sound") as camera, closing(watched(camera.url(), 30)) as source:
        camera.cover_lens()
        silent_s = seconds_until_lost(source, f"broke off: it gave no picture for {PATIENCE_S:g} s")
        assert silent_s >= PATIENCE_S - FRAME_S


Fault = Callable[[RtspServer], None]
DIES = RtspServer.kill, RtspServer.start, 0.0, "the source is cut off: the other side has ended the stream"
STANDS = RtspServer.freeze, RtspServer.thaw, PATIENCE_S, "the source is cut off: it gave no picture for 2 s"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as started:
        yield started


@pytest.mark.parametrize(
    ("fail", "mend", "after_s", "why"), [pytest.param(*STANDS, id="stands"), *exhaustive(DIES, ids="dies")]
)
def test_a_job_says_that_there_is_no_signal_and_since_when_until_the_camera_is_back(
    made: Deployment,
    camera: RtspServer,
    monkeypatch: pytest.MonkeyPatch,
    fail: Fault,
    mend: Fault,
    after_s: float,
    why: str,
) -> None:
    if after_s:
        monkeypatch.setattr(LIMIT, after_s)

    def flags() -> list[str]:
        return list(made.agent.reports[-1]["flags"])

    content = made.content(plan_of(read_dag(REQUIREMENT), "edge-1"), realtime=True, restart_policy=RestartPolicy.ALWAYS)
    made.start(content, camera.url(ACCOUNT))
    until(lambda: len(made.agent.results) > 40)
    began = before_a_picture(lambda: len(made.agent.results))
    fail(camera)
    until(lambda: "no_signal" in flags())
    silent_s, took_s = made.agent.reports[-1]["silent_s"], time.monotonic() - began
    assert after_s - FRAME_S <= silent_s <= took_s + FRAME_S, "the time of the last picture"
    assert f"No signal: {why}. The source is opened again until it is back." in made.agent.notes
    assert made.agent.reports[-1]["plan_result"]["fps"] == 0
    until(lambda: made.agent.reports[-1]["silent_s"] > silent_s + 2)
    count = len(made.agent.results)
    mend(camera)
    until(lambda: len(made.agent.results) > count and "no_signal" not in flags())
    assert "The signal is back, after " in made.agent.notes
    assert PASSWORD not in made.agent.notes and made.agent.ending is None


class SmallModel:
    def predict(self, picture: Picture) -> Prediction:  # the real one's
        return Prediction(probabilities=(0.5, 0.5))


@pytest.mark.parametrize(
    ("fail", "mend", "after_s", "why"), [pytest.param(*DIES, id="dies"), *exhaustive(STANDS, ids="stands")]
)
def test_a_worker_of_joint_inference_says_that_its_camera_is_gone_until_it_is_back(
    camera: RtspServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fail: Fault,
    mend: Fault,
    after_s: float,
    why: str,
) -> None:
    if after_s:
        monkeypatch.setattr(LIMIT, after_s)
    monkeypatch.setattr("app.edge.joint.stream.PAUSE_S", 0.2)
    caplog.set_level(logging.WARNING)
    joint = JointInference(
        SmallModel(),
        make("EdgeOnly", {}),
        EdgeOptions(sources=(NamedSource("", camera.url(ACCOUNT)),)),
        big_model=None,
        service="s",
    )
    with joint:
        stream = SourceStreams(joint)
        stream.start()
        until(lambda: joint.tally().inferences > 40)
        began = before_a_picture(lambda: joint.tally().inferences)
        fail(camera)
        end = until(lambda: stream_end(joint.detail))
        assert time.monotonic() - began >= after_s - FRAME_S
        assert end.reason == Reason.SOURCE_UNAVAILABLE and end.message.startswith(f"{camera.url()} ")
        # A later try to open it may have another reason.
        assert f"{camera.url()} broke off: {why.partition(': ')[2]}. Is it there, and in reach?" in caplog.text
        mend(camera)
        count = joint.tally().inferences
        until(lambda: stream_end(joint.detail) is None and joint.tally().inferences > count)
        stream.close()
    assert PASSWORD not in caplog.text
