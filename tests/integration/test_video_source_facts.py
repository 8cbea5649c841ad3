"""What a policy is told of the source, and how many frames were dropped: as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.inference.sources import open_video_source
from app.video.model.dag import read_dag
from tests.harness.until import until
from tests.harness.video.dags import REQUIREMENT
from tests.harness.video.runner import Deployment, StubHost, deployment, plan_of, video

EDGE = "edge-1"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    host = StubHost(EDGE)
    host.delays["face_detection"] = 0.05
    with deployment(tmp_path, host) as deployed:
        yield deployed


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """12 frames a second, 20 s of them."""
    return video(tmp_path / "clip.mp4", frames=240, fps=12)


def start(made: Deployment, clip: Path, **more: object) -> None:
    made.start(made.content(plan_of(read_dag(REQUIREMENT), EDGE), realtime=True, **more), clip)


def test_a_policy_is_told_the_rate_and_size_of_the_source(made: Deployment, clip: Path) -> None:
    start(made, clip)
    demands = until(lambda: [each for each in list(made.agent.demands) if "seq" in each.get("generator_output", {})])
    source = demands[-1]["generator_output"]
    assert (source["fps"], source["width"], source["height"]) == (12.0, 320, 180)
    assert source["seq"] >= 1


def test_a_plan_that_was_made_before_the_source_was_opened_is_corrected_at_once(made: Deployment, clip: Path) -> None:
    start(made, clip)
    first = until(lambda: list(made.agent.demands))[0]
    assert (first["why"], first["generator_output"]["fps"]) == ("source", 12.0)


def test_dropped_frames_are_counted_also_while_none_waits(made: Deployment, clip: Path) -> None:
    start(made, clip)
    runner = made.runner
    assert runner is not None
    until(lambda: made.agent.results)
    runner.queue.dropped += 7
    until(lambda: len(runner.queue) == 0)
    assert runner._count_left_out().dropped >= 7


def test_a_source_that_has_not_been_opened_names_no_rate(clip: Path) -> None:
    reel = open_video_source(str(clip))[0]
    assert reel.fps == 0
    frames = reel.frames()
    next(frames)
    assert reel.fps == 12
    frames.close()
