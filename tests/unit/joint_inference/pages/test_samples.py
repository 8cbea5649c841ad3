"""A hard sample on the page of its service."""

from __future__ import annotations

from app.inference.prediction import Box, Prediction
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.pages.sample_views import sample_view
from app.kit.web.templates import environment

POINTS = ((10.0, 20.0, 0.9), (15.0, 25.0, 0.8), *[(0.0, 0.0, 0.1)] * 15)


def test_visible_key_points_are_joined_over_the_picture() -> None:
    boxes = (Box(1, 2, 30, 40, 0.9, 0, POINTS), Box(1, 2, 3, 4, 0.9))
    sample = Sample("1", "2026-11-26T12:00:00.000Z", 64, 48, "unsure", 0.5, Source.EDGE, Prediction(boxes=boxes))
    template = environment("en").from_string(
        '{% import "joint_inference/_sample.html" as samples %}'
        '{{ samples.boxes(view.edge.prediction, view.sample, "edge") }}'
    )
    drawing = template.render(view=sample_view(sample))
    assert drawing.count("<rect") == 2
    assert drawing.count('<path class="bones" d="M10.0 20.0L15.0 25.0"></path>') == drawing.count("bones") == 1
    assert '<path class="joints" d="M10.0 20.0h0M15.0 25.0h0"></path>' in drawing


def test_the_final_answer_names_objects_by_their_ids() -> None:
    boxes = Prediction(boxes=(Box(1, 2, 3, 4, 0.5, 0), Box(1, 2, 30, 40, 0.9, 1)))

    def names(ids: object) -> list[list[str]]:
        extra = {"ids": ids}
        sample = Sample("1", "", 64, 48, "", 0.5, Source.CLOUD, boxes, boxes, labels=("cat", "dog"), extra=extra)
        view = sample_view(sample)
        return [[one.name for one in answer.listed] for answer in (view.edge, view.cloud) if answer]

    assert names([12, 7, 9]) == [["dog", "cat"], ["#7 dog", "#12 cat"]]
    assert names([12]) == [["dog", "cat"], ["dog", "#12 cat"]]
    assert names("7") == names([None, {}]) == names(None) == [["dog", "cat"]] * 2
