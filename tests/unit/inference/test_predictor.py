"""Opening models: what runs them, what they are fed with, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import Decoder
from tests.harness.models.vision import answering, brightest_channel, card, opened, plain, two_classes


def test_grey_pictures_are_taken_too(tmp_path: Path) -> None:
    assert len(set(opened(tmp_path, brightest_channel()).predict(np.full((9, 9), 200, np.uint8)).probabilities)) == 1


def test_a_face_detector_names_its_class_by_itself(tmp_path: Path) -> None:
    outputs = {"scores": np.tile([0.1, 0.9], (1, 5, 1)), "boxes": np.tile([0.25, 0.25, 0.5, 0.5], (1, 5, 1))}
    predictor = opened(tmp_path, answering(outputs))
    assert (predictor.decoder, predictor.labels) == (Decoder.ULTRAFACE, ("face",))
    (box,) = predictor.predict(plain(1, 2, 3, width=80, height=40)).boxes
    assert (box.x1, box.y1, box.x2, box.y2) == (20, 10, 40, 20)


@pytest.mark.parametrize(
    ("classes", "boxes", "candidates"),
    [((), [0, 1], [0, 1, 0]), (("Person",), [0], [0, 0]), (("car",), [1], [1]), (("car", "person"), [0, 1], [0, 1, 0])],
)
def test_boxes_of_classes_that_do_not_count_are_no_candidates_either(
    tmp_path: Path, classes: tuple[str, ...], boxes: list[int], candidates: list[int]
) -> None:
    told = card(labels=("person", "car"))
    prediction = opened(tmp_path, two_classes(), told, classes=classes).predict(plain(1, 2, 3, 32, 32))
    assert [box.label for box in prediction.boxes] == boxes
    assert [box.label for box in prediction.candidates] == candidates


def test_classes_that_a_model_does_not_know_are_refused_with_those_it_knows(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="no class 'persn'") as caught:
        opened(tmp_path, two_classes(), card(labels=("person", "car")), classes=("persn",))
    assert caught.value.hint == "It knows person, car."
    with pytest.raises(ModelUnusable, match="is a classifier"):
        opened(tmp_path, brightest_channel(), classes=("red",))


def test_what_is_asked_of_a_closed_predictor_fails(tmp_path: Path) -> None:
    predictor = opened(tmp_path, brightest_channel())
    predictor.close()
    with pytest.raises(InferenceFailed, match="closed"):
        predictor.predict(plain(1, 2, 3))


def test_threads_may_share_a_predictor(tmp_path: Path) -> None:
    predictor = opened(tmp_path, brightest_channel())
    colours = [plain(*(250 if channel == index % 3 else 0 for channel in range(3))) for index in range(60)]
    with ThreadPoolExecutor(4) as pool:
        labels = [prediction.label for prediction in pool.map(predictor.predict, colours)]
    assert labels == [index % 3 for index in range(60)]
