"""When a live source is opened to see what it gives, and how often again."""

from __future__ import annotations

import threading

import pytest

from app.edge.agent.cameras import Cameras
from app.edge.video.drivers import Videos
from app.edge.video.source_probes import AGAIN_S, LIVE, SourceProbes
from app.inference.sources.facts import SourceFacts, probe
from tests.harness.camera import SIZE, camera
from tests.harness.until import until

DOOR = "rtsp://ann:secret@camera/1"
GIVEN = SourceFacts(width=640, height=360, fps=15, is_live=True)


def test_what_a_camera_gives_is_told_once_it_is_known_and_not_found_out_again() -> None:
    tried, may_answer = list[str](), threading.Event()

    def run(source: str) -> SourceFacts:
        may_answer.wait()
        tried.append(source)
        return GIVEN

    videos = Videos(Cameras([("door", DOOR)]), SourceProbes(run))
    unknown = {"type": "door", "name": "rtsp://camera/1", "live": "yes"}
    assert [videos.describe()["0"], videos.describe()["0"]] == [unknown, unknown], "nobody waits for it"
    may_answer.set()
    until(lambda: videos.describe()["0"] == {**unknown, "size": "640x360", "fps": "15"})
    assert tried == [DOOR]


def test_one_that_cannot_be_opened_says_why_and_is_tried_again_after_a_while() -> None:
    at, tried, away = [0.0], list[str](), SourceFacts("it is away", is_live=True)

    def run(source: str) -> SourceFacts:
        tried.append(source)
        return away if len(tried) < 3 else GIVEN

    videos = Videos(Cameras([("door", DOOR)]), SourceProbes(run, clock=lambda: at[0]))
    until(lambda: videos.describe()["0"].get("problem") == "it is away")
    assert [videos.describe()["0"]["problem"] for _ in range(3)] == ["it is away"] * 3
    assert len(tried) == 1, "not at once"

    def look_later() -> str | None:
        at[0] += AGAIN_S
        return videos.describe()["0"].get("size")

    until(lambda: look_later() == "640x360")


def test_a_camera_that_a_worker_reads_is_not_opened_beside_it_and_has_no_problem() -> None:
    tried, may_answer = list[str](), threading.Event()

    def run(source: str) -> SourceFacts:
        tried.append(source)
        may_answer.wait()
        return SourceFacts("it allows one connection", is_live=True)

    probes = SourceProbes(run)
    videos = Videos(Cameras([("door", DOOR), ("hall", "rtsp://camera/2")]), probes)
    videos.describe(None)
    assert "problem" not in videos.describe([DOOR, "rtsp://camera/2"])["0"]
    assert tried == [], "neither before it is known what is read, nor when it is read"
    videos.describe()
    videos.describe([DOOR, "rtsp://camera/2"])
    may_answer.set()
    until(lambda: probes.facts(DOOR).problem)
    assert "problem" not in videos.describe([DOOR, "rtsp://camera/2"])["0"], "a worker reads it by now"
    assert tried[0] == DOOR and "rtsp://camera/2" not in tried


@pytest.mark.parametrize("source", ["/dev/video0", "udp://0.0.0.0:5000", "srt://:9000?mode=listener"])
def test_one_that_only_one_program_can_read_is_left_to_the_job(source: str) -> None:
    assert SourceProbes(lambda _: GIVEN).facts(source) == LIVE


def test_the_rate_of_a_camera_that_names_none_is_measured() -> None:
    with camera() as served:
        facts = probe(served.url)
    assert (facts.width, facts.height, facts.is_live, facts.problem) == (*SIZE, True, "")
    assert facts.fps >= 1
    gone = probe(served.url)
    assert gone.is_live and gone.problem.startswith("http://127.0.0.1") and not gone.width
