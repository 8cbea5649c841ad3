"""A detector of a video job that looks at a part of each picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.edge.video.stages.base import ModelFile
from app.edge.video.stages.detection import Detection
from app.video.errors import BadStage
from tests.harness.models.vision import answering, card, plain, save, two_classes


def detected(folder: Path, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """On a picture of 64×64. The model takes one of 32×32, and sees the same in each."""
    file = ModelFile(card(labels=("person", "car")), save(folder, two_classes()), None)
    return Detection([file], parameters).run({"image": plain(1, 2, 3, 64, 64)})


def test_boxes_of_a_region_are_in_pixels_of_the_whole_picture(tmp_path: Path) -> None:
    whole = detected(tmp_path, {})
    assert whole["bbox"][0] == [10, 10, 22, 22], "of the model's 5 to 11, twice as large"
    part = detected(tmp_path, {"region": "0.5,0.25,1,0.75"})
    assert part["bbox"][0] == [32 + 5, 16 + 5, 32 + 11, 16 + 11]
    assert part["label"] == ["person", "car"]


def test_key_points_are_an_output_of_models_that_have_them(tmp_path: Path) -> None:
    values = np.zeros((1, 11, 21), np.float32)
    values[0, :, 3] = [16, 16, 8, 8, 0.9, 14, 14, 0.8, 18, 20, 0.2]
    file = ModelFile(card(), save(tmp_path, answering({"output0": values}, (1, 3, 32, 32))), None)
    picture = plain(1, 2, 3, 64, 64)
    part = Detection([file], {"region": "0.5,0.25,1,0.75"}).run({"image": picture})
    assert part["keypoints"] == [[[46, 30, 0.8], [50, 36, 0.2]]]
    whole = Detection([file], {}).run({"image": picture})
    assert not np.array_equal(
        Detection.draw(picture, {}, whole), Detection.draw(picture, {}, {**whole, "keypoints": []})
    )
    assert "keypoints" not in detected(tmp_path, {})


def test_masks_are_an_output_of_models_that_have_them(tmp_path: Path) -> None:
    values, maps = np.zeros((1, 4 + 1 + 32, 21), np.float32), np.ones((1, 32, 8, 8), np.float32)
    values[0, :6, 3] = [16, 16, 8, 8, 0.9, 1]
    model = answering({"output0": values, "output1": maps}, (1, 3, 32, 32))
    outputs = Detection([ModelFile(card(), save(tmp_path, model), None)], {}).run({"image": plain(1, 2, 3, 64, 64)})
    ((mask,),) = outputs["masks"]
    assert sorted(zip(mask[::2], mask[1::2], strict=True)) == [(24, 24), (24, 40), (40, 24), (40, 40)]
    picture = plain(1, 2, 3, 64, 64)
    assert not np.array_equal(
        Detection.draw(picture, {}, outputs), Detection.draw(picture, {}, {**outputs, "masks": []})
    )
    assert "masks" not in detected(tmp_path, {})


def test_what_is_no_region_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadStage, match="two corners as shares"):
        detected(tmp_path, {"region": "1,1,0,0"})
