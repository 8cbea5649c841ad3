"""The id of an object in the pictures of a runner is that of its rows, events and sinks, also after a restart."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from app.edge.object_follower import RESERVED_IDS
from app.edge.video.runner.checkpoint import CheckpointFile
from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameOutcome, needs_of
from app.edge.video.runner.frame_workers import FrameResult
from app.edge.video.runner.plan_metrics import FrameCounts, PlanMetrics
from app.edge.video.runner.preview import PreviewRenderer, PreviewScene, PreviewStream, draw_scene
from app.edge.video.runner.quality import ReferenceSampler
from app.edge.video.runner.reporter import Reporter
from app.edge.video.runner.results import FrameResults
from app.edge.video.stages.registry import kinds
from app.inference.annotations import draw
from app.inference.prediction import Box, Picture
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.model.producer import Producer
from app.results.model.rule import Rule, RuleSet
from app.results.model.rule_evaluation import EvaluationState, evaluate
from app.results.model.sink import event_delivery, row_delivery
from app.results.model.track import MOST_OBJECTS
from app.video.model.dag import Reference, read_dag
from app.video.model.plan import Plan, VideoConf
from tests.harness.video.dags import REQUIREMENT

PICTURE = np.full((180, 320, 3), 90, np.uint8)
DETECTION = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", "detection"],
    "input": {
        "detection": {"image": "SingleFrameGenerator.image"},
        "Render": {"image": "detection.image", "count": "detection.count_result"},
    },
}
PRODUCER = Producer("video", "u", "alice", "a job", "/api/v2/video/jobs/u", "/", "video", "/", "video:u")


class Runner:
    """The part of a runner that turns answers into rows and pictures, in a process that may begin again."""

    def __init__(self, folder: Path, dag: dict[str, Any]) -> None:
        graph = read_dag(dag)
        self.needs = needs_of(graph, {stage: kinds()[stage] for stage in graph.stages})
        self.rows: list[dict[str, Any]] = []
        self.scenes: list[PreviewScene] = []
        checkpoint = CheckpointFile(folder)
        metrics = PlanMetrics(lambda: FrameCounts(0, 0, 0))
        executor = Executor("u", self.needs, (), *cast("tuple[Any, Any, Any]", (None, None, None)))
        self.reporter = Reporter("u", cast("Any", self), checkpoint, plan_result=lambda: None)
        renderer = PreviewRenderer(self.needs, PreviewStream(), lambda _: None, self.scenes.append)
        sampler = ReferenceSampler(executor, metrics.compared, lambda: True)
        self.results = FrameResults(
            self.needs, metrics, self.reporter, renderer, sampler, checkpoint, realtime=False, source_fps=lambda: 10.0
        )

    def send(self, path: str, body: bytes) -> bool:
        self.rows += json.loads(body)["results"]
        return True

    def take(self, n_loop: int, *lefts: float) -> list[Any]:
        """Takes a frame with an object at each place, in pixels from the left. Returns the ids in its row."""
        self.draw(n_loop, *lefts)
        while not self.reporter.step([], None):
            pass
        return list(self.rows[-1].get("ids", []))

    def draw(self, n_loop: int, *lefts: float) -> None:
        """Takes a frame without sending its row."""
        boxes = [[left, 60.0, left + 40, 120.0] for left in lefts]
        values: dict[str, Any] = {"bbox": boxes, "prob": [0.9] * len(boxes)}
        if self.needs.tracked == "detection":
            values["label"] = ["person"] * len(boxes)
        references = {Reference(self.needs.tracked, name): value for name, value in values.items()}
        outcome = FrameOutcome(Plan(0, VideoConf(), {}, ""), (320, 180), references, {})
        frame = CapturedFrame(n_loop, PICTURE, n_loop / 10, time.monotonic())
        self.results.take(FrameResult(frame, time.monotonic(), outcome), 1.0)

    def drawn(self) -> Picture:
        return draw_scene(self.needs, self.scenes[-1])


def with_names(ids: list[int | None], label: str, lefts: list[float]) -> Picture:
    boxes = [Box(left, 60.0, left + 40, 120.0, 0.9, 0) for left in lefts]
    return draw(PICTURE, boxes, (label,), ids)


def test_picture_row_event_and_sinks_have_the_same_id(tmp_path: Path) -> None:
    runner = Runner(tmp_path, DETECTION)
    assert [runner.take(1, 20), runner.take(2, 30, 200), runner.take(3, 210)] == [[1], [1, 2], [2]]
    assert np.array_equal(runner.drawn(), with_names([2], "person", [210]))
    assert not np.array_equal(runner.drawn(), with_names([], "person", [210]))

    records = [FrameRecord(row["n_loop"], moment_of(row, datetime.now(UTC)), row) for row in runner.rows]
    rules = RuleSet((), (Rule("there", label="person", at_least=2),))
    _, (event,), stored, _ = evaluate(rules, EvaluationState(), records, size=None, by_pts=True)
    assert [record.row["ids"] for record in stored] == [[1], [1, 2], [2]]
    assert [one["track"] for one in event_delivery(PRODUCER, event).envelope["data"]["objects"]] == [1, 2]
    sent = [row_delivery(PRODUCER, record).envelope["data"]["objects"] for record in stored]
    assert [[one["id"] for one in objects] for objects in sent] == [[1], [1, 2], [2]]


def test_a_later_stage_draws_the_ids_of_the_boxes_that_it_is_given(tmp_path: Path) -> None:
    runner = Runner(tmp_path, REQUIREMENT)
    runner.take(1, 20, 100)
    runner.take(2, 100)
    assert np.array_equal(runner.drawn(), with_names([2], "face", [100]))


def test_a_frame_that_repeats_the_boxes_of_the_last_one_keeps_its_ids(tmp_path: Path) -> None:
    runner = Runner(tmp_path, DETECTION)
    runner.take(1, 20, 100)
    still = CapturedFrame(2, PICTURE, 0.2, time.monotonic(), tracked=True, still=True)
    runner.results.take(FrameResult(still, time.monotonic()), 1.0)
    runner.reporter.step([], None)
    assert runner.rows[-1]["ids"] == [1, 2]
    assert np.array_equal(runner.drawn(), with_names([1, 2], "person", [20, 100]))


def test_a_runner_that_was_killed_goes_on_with_the_objects_and_gives_no_id_twice(tmp_path: Path) -> None:
    killed = Runner(tmp_path, DETECTION)
    killed.take(1, 20, 100)
    killed.draw(2, 20, 100, 200)
    assert killed.scenes[-1].values[killed.needs.track_ids] == [1, 2, 3]
    after = Runner(tmp_path, DETECTION)
    first, second, third = after.take(3, 25, 105, 260)
    assert (first, second) == (1, 2)
    assert third > RESERVED_IDS


def test_ids_begin_above_those_that_the_web_server_gave_to_the_rows_of_an_older_runner(tmp_path: Path) -> None:
    older = {"seq": 3, "n_loop": 7, "asked": 1, "ending": "", "reason": ""}
    (tmp_path / "runner.json").write_text(json.dumps(older))
    assert Runner(tmp_path, DETECTION).take(8, 20) == [7 * MOST_OBJECTS + 1]


def test_the_objects_of_two_cameras_are_numbered_apart(tmp_path: Path) -> None:
    door, yard = Runner(tmp_path / "door", DETECTION), Runner(tmp_path / "yard", DETECTION)
    assert [door.take(1, 20, 100), yard.take(1, 100), door.take(2, 100), yard.take(2, 20, 100)] == [
        [1, 2],
        [1],
        [2],
        [2, 1],
    ]
