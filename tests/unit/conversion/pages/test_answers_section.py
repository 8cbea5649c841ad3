"""How right both models are, on the page of a job."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from app.conversion.pages.quality import build_quality_context
from app.conversion.service import quality as service
from app.conversion.service.quality import Reports
from app.kit.web.templates import environment
from tests.unit.conversion.service.quality.test_quality import BIE, NEF, ONNX

ROWS = [
    {"metric": metric, "float": value, "int8": value - 0.02, "n": 20, "are_unseen": True}
    for metric, value in (("mAP@.5:.95", 0.412), ("mAP@.5", 0.63))
]
TASK = {"kind": "box_f1", "float_agreement": 0.962, "n": 48}


def section(bie: dict[str, Any]) -> str:
    """Its text, one space between words."""
    template = environment("en").get_template("conversion/_quality_labels.html")
    text = template.render(**build_quality_context(Reports(ONNX, bie, NEF).quality("host")))
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_both_models_stand_beside_each_other_by_each_metric() -> None:
    text = section({**BIE, "labels": ROWS})
    assert "By the labels float int8 Pictures mAP@.5:.95 0.412 0.392 20 mAP@.5 0.630 0.610 20" in text
    assert "On labeled pictures not used for calibration." in text
    assert "On all labeled pictures" in section({**BIE, "labels": [{**ROWS[0], "are_unseen": False}]})


def test_without_labels_it_is_told_how_often_int8_answers_as_float_does() -> None:
    text = section({**BIE, "judgement": {"n": 10, "task": TASK}})
    assert text == "Answers of float and int8 Agreement with the float model: 0.962 (box F1, 48 pictures)."
    assert section(BIE) == ""


def test_the_json_of_a_quality_has_them() -> None:
    assert service.to_json(Reports(ONNX, {**BIE, "labels": ROWS}, NEF).quality("host"))["labels"] == ROWS
