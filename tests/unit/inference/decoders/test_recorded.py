"""What decoders read in recorded outputs of trained models is what the authors' programs read in them: their files and
`record.py`, which made them, are in the folder `recorded`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.inference.decoders import OutputSpec, family_of
from app.inference.decoders.text_recognition import TextRecognition
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, fit_of

FOLDER = Path(__file__).with_name("recorded")
THRESHOLD = 0.3


def load(name: str) -> dict[str, Any]:
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", ["yolov8-pose", "detr", "rtdetr", "ssd", "ssd-early"])
def test_boxes_scores_classes_and_key_points_are_the_authors(name: str) -> None:
    recorded = load(name)
    size, source = ((int(w), int(h)) for w, h in (recorded["size"], recorded["source"]))
    outputs = {name.removeprefix("out:"): values for name, values in recorded.items() if name.startswith("out:")}
    family = family_of(Decoder.AUTO, [OutputSpec(name, values.shape, values) for name, values in outputs.items()], size)
    assert family.name == name.removesuffix("-early")
    options = PredictorOptions(
        score_threshold=THRESHOLD, candidate_threshold=THRESHOLD, nms_threshold=float(recorded["nms"])
    )
    read = family.read(outputs, fit_of(source, size, family.preprocess.resize or "stretch"), size, options).boxes
    expected = recorded["boxes"][np.argsort(-recorded["boxes"][:, 4], kind="stable")]
    assert len(read) == len(expected) > 0
    rows = [[box.x1, box.y1, box.x2, box.y2, box.score, box.label] for box in read]
    width, height = source
    expected[:, :4] = np.clip(expected[:, :4], 0, (width, height) * 2)
    np.testing.assert_allclose(rows, expected, atol=2e-3)
    if "keypoints" in recorded:
        np.testing.assert_allclose([box.keypoints for box in read], recorded["keypoints"], atol=2e-3)


def test_texts_are_the_authors_also_of_a_model_whose_last_class_is_the_blank() -> None:
    recorded, size = load("text-recognition"), (160, 60)
    labels = tuple(str(recorded["labels"]))
    assert len(recorded["texts"]) > 0
    for values, text, score in zip(recorded["outputs"], recorded["texts"], recorded["scores"], strict=True):
        line = TextRecognition().read({"logits": values}, Fit(size, size), size, PredictorOptions()).line
        assert line is not None
        assert line.read(labels) == (text, pytest.approx(score, abs=1e-4))
