"""The rows of what was answered: in the order of the samples, each once, whatever the agent does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.edge.joint import rows as rows_module
from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import SampleOutcome
from app.edge.joint.rows import RowQueue
from app.inference.prediction import Box, Picture, Prediction
from app.inference.region import Crop
from app.joint_inference.hard_examples import Verdict, make
from app.joint_inference.model.tally import MOST_ROWS, RowChoice, Source
from app.joint_inference.service.row_report import read_rows
from app.joint_inference.worker_options import EdgeOptions

BOXES = Prediction(boxes=(Box(1.234, 2, 30, 40, 0.91234567, 1),), candidates=(Box(1, 1, 5, 5, 0.3),))
NOTHING = Prediction()


def outcome(id: str = "1", final: Prediction = BOXES, source: Source = Source.EDGE) -> SampleOutcome:
    return SampleOutcome(id, source, final, Verdict(source is not Source.EDGE, 0.5, ""), final, model="big@3")


def sent(queue: RowQueue) -> list[dict[str, Any]]:
    """What the next report holds, as the web reads it."""
    report = queue.report()
    return read_rows(report.body).rows if report else []


def filled(queue: RowQueue, *ids: str, final: Prediction = BOXES) -> None:
    for id in ids:
        queue.fill(queue.reserve(), outcome(id, final), (64, 48))


def test_a_row_has_boxes_in_pixels_with_class_and_score_and_whose_answer_it_is() -> None:
    queue = RowQueue(RowChoice.ALL, ("cat", "dog"), clock=lambda: 1.79e9)
    queue.fill(queue.reserve(), outcome(source=Source.CLOUD), (64, 48))
    assert sent(queue) == [
        {
            "at": 1.79e9,
            "size": [64, 48],
            "bbox": [[1.23, 2.0, 30.0, 40.0]],
            "labels": ["dog"],
            "scores": [0.91235],
            "sample": "1",
            "answered_by": "cloud",
            "is_hard": True,
            "model_name": "big",
            "model_version": 3,
            "ids": [1],
        }
    ]


def test_key_points_of_a_part_are_in_pixels_of_the_whole_and_stand_in_no_row_without_them() -> None:
    queue = RowQueue(RowChoice.ALL)
    box = Box(1, 2, 30, 40, 0.9, 0, ((5.123, 6, 0.9), (7, 8, 0.12345)))
    queue.fill(queue.reserve(Crop(100, 10, 640, 480)), outcome(final=Prediction(boxes=(box, BOXES.boxes[0]))), (64, 48))
    filled(queue, "2")
    first, second = sent(queue)
    assert first["bbox"][0] == [101, 12, 130, 50]
    assert first["keypoints"] == [[[105.12, 16, 0.9], [107, 18, 0.123]], []]
    assert "keypoints" not in second


def test_a_mask_of_a_part_is_in_pixels_of_the_whole() -> None:
    queue = RowQueue(RowChoice.ALL)
    box = Box(1, 2, 30, 40, 0.9, 0, (), (((1, 2), (3, 4), (5, 6.125)),))
    queue.fill(queue.reserve(Crop(100, 10, 640, 480)), outcome(final=Prediction(boxes=(box,))), (64, 48))
    (row,) = sent(queue)
    assert row["masks"] == [[[101, 12, 103, 14, 105, 16.12]]] and "keypoints" not in row


def test_what_a_classifier_answers_is_as_large_as_the_picture() -> None:
    queue = RowQueue(RowChoice.ALL)
    filled(queue, "1", final=Prediction(probabilities=(0.25, 0.75)))
    (row,) = sent(queue)
    assert (row["bbox"], row["labels"], row["scores"]) == ([[0.0, 0.0, 64.0, 48.0]], ["1"], [0.75])


def test_a_hard_sample_keeps_its_place_before_easy_ones_that_were_answered_sooner() -> None:
    queue = RowQueue(RowChoice.ALL)
    filled(queue, "easy 1")
    hard = queue.reserve()
    filled(queue, "easy 2")
    assert [row["sample"] for row in sent(queue)] == ["easy 1"]
    queue.is_taken()
    assert queue.report() is None
    queue.fill(hard, outcome("hard", source=Source.CLOUD), (64, 48))
    assert [row["sample"] for row in sent(queue)] == ["hard", "easy 2"]


def test_a_report_that_was_not_taken_is_sent_again_as_it_was() -> None:
    queue = RowQueue(RowChoice.ALL)
    filled(queue, "1")
    first = queue.report()
    filled(queue, "2")
    assert queue.report() == first
    queue.is_taken()
    second = queue.report()
    assert first is not None and second is not None
    runs = [(read_rows(one.body).run, read_rows(one.body).batch) for one in (first, second)]
    assert (runs[0][0], runs[0][1] + 1) == runs[1]


def test_of_a_line_that_is_too_long_the_oldest_go_and_reports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_WAITING", MOST_ROWS + 100)
    queue = RowQueue(RowChoice.ALL)
    filled(queue, *map(str, range(rows_module.MOST_WAITING + 7)))
    assert queue.lost == 7
    assert [row["sample"] for row in sent(queue)] == [str(n) for n in range(7, 7 + MOST_ROWS)]


def test_empty_pictures_leave_no_row_where_only_objects_are_wanted_and_nothing_does_where_none_is() -> None:
    queue = RowQueue(RowChoice.OBJECTS)
    filled(queue, "empty", final=NOTHING)
    assert queue.report() is None
    filled(queue, "full")
    assert [row["sample"] for row in sent(queue)] == ["full"]
    queue = RowQueue(RowChoice.NONE)
    filled(queue, "1")

    assert queue.report() is None


class Small:
    def predict(self, picture: Picture) -> Prediction:  # the real one's
        return BOXES


def test_each_sample_that_a_worker_answers_leaves_a_row() -> None:
    joint = JointInference(Small(), make("CloudOnly", {}), EdgeOptions(labels=("a", "b")), big_model=None, service="s")
    for n in range(3):
        joint.infer(np.zeros((48, 64, 3), np.uint8), id=str(n))
    rows = sent(joint.rows)
    assert [(row["sample"], row["answered_by"], row["labels"]) for row in rows] == [
        (str(n), "edge_fallback", ["b"]) for n in range(3)
    ]
