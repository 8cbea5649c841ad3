"""What is read of a row that a node reported, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest

from app.results.model.frame_result import ClassSummary, FrameRecord, ResultFilter, labels_in
from app.results.model.producer import Producer
from app.results.model.sink import row_delivery

BOX = [1.0, 2.0, 3.0, 4.0]


def record(**row: Any) -> FrameRecord:
    return FrameRecord(1, "2026-11-22T08:00:00.000Z", {"n_loop": 1, "e2e": 0.1, "tracked": False, **row})


def test_counts_are_what_the_job_shows_and_not_its_facts() -> None:
    made = record(total=3, up=1.5, pts=4.0, at=1.79e9, bbox=[BOX], is_open=True, note="x")
    assert made.counts == {"total": 3, "up": 1.5}
    assert made.object_count == 1


def test_objects_have_the_class_and_score_at_their_place() -> None:
    first, second = record(bbox=[BOX, BOX], labels=["person"], scores=[0.9, 0.4]).objects
    assert (first.label, first.score, second.label, second.score) == ("person", 0.9, "", 0.4)


def test_an_object_has_its_key_points_also_in_a_cloudevent() -> None:
    points = [[5, 6, 0.9]]
    row = record(bbox=[BOX, BOX, BOX], keypoints=[points, [[5, 6]], []])
    assert [one.keypoints for one in row.objects] == [points, (), []]
    assert row.counts == {}
    producer = Producer("video", "1", "ann", "door", "/jobs/1", "/", "video", "/p", "video.job")
    first, second, _ = row_delivery(producer, row).envelope["data"]["objects"]
    assert first == {"label": "", "score": None, "bbox": BOX, "keypoints": points}
    assert set(second) == {"label", "score", "bbox"}
    part = [1, 2, 3, 4, 5, 6]
    with_masks = record(bbox=[BOX, BOX, BOX], masks=[[part], [[1, 2, 3, 4, 5]], [[1, 2, 3, "4", 5, 6]]])
    assert [one.mask for one in with_masks.objects] == [[part], (), ()]
    assert row_delivery(producer, with_masks).envelope["data"]["objects"][0]["mask"] == [part]


@pytest.mark.parametrize(
    "row", [{}, {"bbox": None}, {"bbox": ["x", [1, 2], [1, 2, 3, "4"]]}, {"bbox": [], "labels": "person"}]
)
def test_what_is_no_box_is_passed_over(row: dict[str, Any]) -> None:
    assert record(**row).objects == []


def test_objects_are_summed_up_by_class_the_most_frequent_first() -> None:
    boxes = {
        "bbox": [[0, 0, 1, 1]] * 3,
        "labels": ["dog", "cat", "cat"],
        "scores": [0.5, 0.9, 0.7],
        "ids": [7, 8, None],
    }
    assert record(**boxes).classes == [ClassSummary("cat", 2, 0.7, 0.9, [8]), ClassSummary("dog", 1, 0.5, 0.5, [7])]
    assert record(bbox=[[0, 0, 1, 1]] * 2).classes == [ClassSummary("", 2, None, None, [])]
    assert record().classes == []


def test_the_classes_of_a_row_are_told_once() -> None:
    assert labels_in(record(bbox=[BOX] * 3, labels=["car", "person", "car"]).row) == ["car", "person"]


@pytest.mark.parametrize(
    ("chosen", "matches"),
    [
        (ResultFilter(), True),
        (ResultFilter(label="person"), True),
        (ResultFilter(label="dog"), False),
        (ResultFilter(min_score=0.8), True),
        (ResultFilter(min_score=0.95), False),
        (ResultFilter(label="person", min_score=0.5), False),
        (ResultFilter(label="car", min_score=0.5), True),
    ],
)
def test_a_score_is_asked_of_the_class_that_is_asked_for(chosen: ResultFilter, matches: bool) -> None:
    made = record(bbox=[BOX, BOX], labels=["person", "car"], scores=[0.4, 0.9])
    assert chosen.matches(made) is matches
