"""What is known of each tracked box beside its place: class, score, key points and mask. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.edge.video.runner.frame_context import DagRequirements, FrameOutcome
from app.edge.video.runner.resize import Ratio, scale_keypoints, scale_masks
from app.kit.text.json_values import JsonObject
from app.video.model.dag import Reference
from app.video.model.kinds import Type


def carry_details(needs: DagRequirements, outcome: FrameOutcome, boxes: list[list[float]]) -> FrameOutcome:
    """Returns the outcome with these boxes instead of the tracked ones; key points and masks are shifted with theirs.

    Args:
        needs: of a DAG with tracked boxes.
        boxes: in the order of the outcome's.
    """
    reference = needs.tracked_boxes
    assert reference is not None
    values = {**outcome.values, reference: boxes}
    former = outcome.values[reference]
    shifts = [(box[0] - old[0], box[1] - old[1]) for old, box in zip(former, boxes, strict=True)]
    for each, type_, objects in _iterate_details(needs, outcome):
        if type_ is Type.KEYPOINTS:
            values[each] = [
                [[x + dx, y + dy, score] for x, y, score in points]
                for points, (dx, dy) in zip(objects, shifts, strict=True)
            ]
        elif type_ is Type.MASKS:
            values[each] = [_shift(mask, shift) for mask, shift in zip(objects, shifts, strict=True)]
    return replace(outcome, values=values)


def details_of(needs: DagRequirements, outcome: FrameOutcome, ratio: Ratio, place: tuple[int, int]) -> JsonObject:
    """Returns labels, scores, keypoints and masks of a row, as far as the stage of the tracked boxes has them.

    Args:
        needs: of a DAG with tracked boxes.
        outcome: its values for the frame.
        ratio: from pixels of the sent picture to those of the frame.
        place: of the frame in its source.
    """
    reference, boxes_are = needs.tracked_boxes, needs.kinds[needs.tracked].boxes_are
    assert reference is not None
    stated: JsonObject = {"labels": [boxes_are] * len(outcome.values[reference])} if boxes_are else {}
    for _, type_, values in _iterate_details(needs, outcome):
        if type_ is Type.LABELS:
            stated["labels"] = values
        elif type_ is Type.SCORES:
            stated["scores"] = [round(float(score), 4) for score in values]
        elif type_ is Type.KEYPOINTS and values:
            stated["keypoints"] = [
                [[round(x + place[0], 1), round(y + place[1], 1), round(float(score), 3)] for x, y, score in points]
                for points in scale_keypoints(values, ratio)
            ]
        elif type_ is Type.MASKS and values:
            masks = [_shift(mask, place) for mask in scale_masks(values, ratio)]
            stated["masks"] = [[[round(value, 1) for value in part] for part in mask] for mask in masks]
    return stated


def _shift(mask: list[list[float]], shift: tuple[float, float]) -> list[list[float]]:
    return [[value + shift[at % 2] for at, value in enumerate(part)] for part in mask]


def _iterate_details(needs: DagRequirements, outcome: FrameOutcome) -> Iterator[tuple[Reference, Type, list[Any]]]:
    """Yields the outputs with one entry for each box."""
    reference = needs.tracked_boxes
    count = len(outcome.values[reference]) if reference is not None else 0
    for field, type_ in needs.kinds[needs.tracked].outputs.items():
        each = Reference(needs.tracked, field)
        values = outcome.values.get(each)
        if isinstance(values, list) and len(values) == count:
            yield each, type_, values
