"""What both models of a conversion answer to reference pictures."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from app.conversion.intake import answer_pictures
from app.conversion.service.answers import read_answers
from app.inference.preprocess_options import Preprocess
from app.kit.web.templates import environment
from tests.harness.api import zipped
from tests.harness.models import vision

NO_CLASS = np.zeros((1, 1, 3, 2), np.float32)


def picture(width: int, height: int, color: tuple[int, int, int] = (0, 200, 0)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, "PNG")
    return file.getvalue()


def faces(x: float) -> onnx.ModelProto:
    """An Ultraface that sees one face, from x to the right half of the picture."""
    scores = np.array([[[0.1, 0.9], [0.9, 0.1]]], np.float32)
    boxes = np.array([[[x, 0.25, 0.5, 0.75], [0, 0, 1, 1]]], np.float32)
    return vision.answering({"scores": scores, "boxes": boxes})


def drawn(folder: Path, first: onnx.ModelProto, second: onnx.ModelProto, *names: str) -> dict[str, Any]:
    (folder / "quant.zip").write_bytes(
        zipped([("green.png", picture(40, 30)), ("wide.png", picture(1920, 960)), ("notes.txt", b"no picture")])
    )
    request = {
        "float": str(vision.save(folder, first, "out.onnx")),
        "int8": str(vision.save(folder, second, "out.bie")),
        "preprocess": Preprocess().to_json(),
        "images": str(folder / "quant.zip"),
        "unpack_to": str(folder / "unpacked"),
        "into": str(folder / "into"),
        "names": list(names),
        "limits": {"max_images": 10, "unpacked_bytes": 1 << 24},
    }
    return answer_pictures.draw_answers(request, lambda *_: None)


def test_a_classifier_answers_its_likeliest_classes_first(tmp_path: Path) -> None:
    model = vision.brightest_channel()
    answers = drawn(tmp_path, model, model, "green.png")
    (one,) = answers["pictures"]
    assert answers["problem"] == "" and answers["decoder"] == "classifier"
    assert one["float"]["classes"][0][0] == vision.GREEN and one["float"] == one["int8"]
    assert (one["place"], one["width"], one["height"]) == (0, 40, 30)
    with Image.open(tmp_path / "into/0.webp") as shown:
        assert shown.size == (40, 30)


def test_boxes_are_in_pixels_of_the_picture_that_is_shown(tmp_path: Path) -> None:
    drawn_answers = drawn(tmp_path, faces(0.25), faces(0.125), "wide.png")
    (one,) = drawn_answers["pictures"]
    assert set(one["float"]) == {"boxes", "classes"}, "and there are no key points"
    assert (one["width"], one["height"]) == (answer_pictures.SHOWN_SIDE, answer_pictures.SHOWN_SIDE // 2)
    assert one["float"]["boxes"][0][:4] == pytest.approx([240, 120, 480, 360], abs=0.2)
    assert one["int8"]["boxes"][0][:4] == pytest.approx([120, 120, 480, 360], abs=0.2)


@pytest.mark.slow
def test_key_points_are_drawn_with_their_box(tmp_path: Path) -> None:
    values = np.zeros((1, 11, 84), np.float32)
    values[0, :, 11] = [32, 32, 16, 24, 0.9, 30, 40, 0.8, 10, 10, 0.1]
    model = vision.answering({"output0": values}, (1, 3, 64, 64))
    answers = drawn(tmp_path, model, model, "wide.png")
    assert answers["pictures"][0]["int8"]["keypoints"] == [[[450, 300, 0.8], [150, 75, 0.1]]]
    (answered,) = read_answers(answers).pictures
    macros = environment("en").get_template("conversion/_answer.html").module
    drawing = macros.drawn(SimpleNamespace(job_id="j"), answered, "wide.png")  # type: ignore[attr-defined]
    assert drawing.count('class="joints" d="M450.0 300.0h0"') == 2, "of float and int8, the visible one"


def test_masks_are_drawn_with_their_box(tmp_path: Path) -> None:
    values, maps = np.zeros((1, 4 + 1 + 32, 84), np.float32), np.ones((1, 32, 16, 16), np.float32)
    values[0, :6, 11] = [32, 32, 16, 24, 0.9, 1]
    model = vision.answering({"output0": values, "output1": maps}, (1, 3, 64, 64))
    answers = drawn(tmp_path, model, model, "wide.png")
    (mask,) = answers["pictures"][0]["int8"]["masks"][0]
    assert sorted(zip(mask[::2], mask[1::2], strict=True)) == [(360, 150), (360, 330), (600, 150), (600, 330)]
    (answered,) = read_answers(answers).pictures
    macros = environment("en").get_template("conversion/_answer.html").module
    drawing = macros.drawn(SimpleNamespace(job_id="j"), answered, "wide.png")  # type: ignore[attr-defined]
    assert drawing.count('class="mask"') == 2


def test_what_is_no_picture_or_not_there_or_elsewhere_is_left_out(tmp_path: Path) -> None:
    model = vision.brightest_channel()
    (tmp_path / "outside.png").write_bytes(picture(8, 8))
    answers = drawn(tmp_path, model, model, "notes.txt", "../outside.png", "none.png", "green.png")
    assert [one["place"] for one in answers["pictures"]] == [3]


def test_a_model_that_no_decoder_understands_is_a_problem_in_words(tmp_path: Path) -> None:
    odd = vision.answering({"odd": NO_CLASS})
    answers = drawn(tmp_path, odd, odd, "green.png")
    assert "no decoder understands" in answers["problem"] and answers["pictures"] == []
