"""Boxes with masks, against masks of single pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from app.inference.decoders import OutputSpec, family_of
from app.inference.masks import MOST_POINTS, MOST_POLYGONS
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import fit_of
from tests.harness.models.vision import answering, card, opened, plain
from tests.harness.variants import exhaustive

SIZE, CELLS, CLASSES = (128, 64), 128 + 32 + 8, 3
SOURCE = (512, 128)
OPTIONS = PredictorOptions(score_threshold=0.6, candidate_threshold=0.2, nms_threshold=0.3)


def outputs(*boxes: list[float], seed: int = 1) -> dict[str, np.ndarray]:
    """Each x, y, w, h in pixels of the input, score of class 1; masks are smooth and differ from box to box."""
    random = np.random.default_rng(seed)
    coarse = random.normal(0, 1, (32, 5, 9)).astype(np.float32)
    maps = [np.asarray(Image.fromarray(one).resize((32, 16), Image.Resampling.BICUBIC)) for one in coarse]
    values = np.zeros((1, 4 + CLASSES + 32, CELLS), np.float32)
    for place, (*corners, score) in enumerate(boxes):
        values[0, :4, place], values[0, 5, place] = corners, score
        values[0, -32:, place] = random.normal(0, 1, 32)
    return {"output0": values, "output1": np.stack(maps)[None]}


def expected(given: dict[str, np.ndarray], place: int) -> np.ndarray:
    """The mask in pixels of the source: the prototypes' sum, enlarged, cut by the box, above 0. The picture of 512×128
    is 128×32 in the input, with bars of 16 above and below."""
    values, maps = given["output0"][0, :, place], given["output1"][0]
    logits = np.einsum("p,phw->hw", values[-32:], maps).astype(np.float32)
    whole = np.asarray(Image.fromarray(logits).resize((512, 256), Image.Resampling.BILINEAR))
    x, y, width, height = values[:4] * 4
    rows, columns = np.mgrid[:256, :512] + 0.5
    is_inside = (abs(columns - x) <= width / 2) & (abs(rows - y) <= height / 2)
    return ((whole > 0) & is_inside)[64:192]


def raster(box: Box) -> np.ndarray:
    image = Image.new("1", SOURCE)
    for polygon in box.mask:
        ImageDraw.Draw(image).polygon([(x - 0.5, y - 0.5) for x, y in polygon], fill=1)
    return np.asarray(image)


@pytest.mark.slow
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("seed", [0, *exhaustive(1, 2, 3)])
def test_masks_are_those_of_the_prototypes_cut_by_their_box(seed: int, is_transposed: bool) -> None:
    given = outputs([30, 30, 50, 28, 0.9], [95, 36, 60, 40, 0.8], [64, 32, 20, 10, 0.5], seed=seed)
    read = {**given, "output0": given["output0"].transpose(0, 2, 1)} if is_transposed else given
    ports = [OutputSpec(name, values.shape) for name, values in reversed(read.items())]
    family = family_of(Decoder.AUTO, ports, SIZE)
    assert family.name is Decoder.YOLOV8_SEG
    decoded = family.read(read, fit_of(SOURCE, SIZE, "letterbox"), SIZE, OPTIONS)
    assert [box.label for box in decoded.boxes] == [1, 1]
    assert decoded.candidates[2].mask == (), "a candidate has none"
    for place, box in enumerate(decoded.boxes):
        mine, pixels = raster(box), expected(given, place)
        assert len(box.mask) <= MOST_POLYGONS and all(3 <= len(part) <= MOST_POINTS for part in box.mask)
        filled = holes_filled(pixels)
        assert (mine & filled).sum() / (mine | filled).sum() > 0.93


def holes_filled(pixels: np.ndarray) -> np.ndarray:
    """Polygons have no holes."""
    image = Image.fromarray(np.pad(pixels, 1).astype(np.uint8)).copy()
    ImageDraw.floodfill(image, (0, 0), 2)
    return np.asarray(image)[1:-1, 1:-1] != 2


def test_a_box_without_a_mask_or_beyond_the_picture_stays() -> None:
    given = outputs([30, 30, 50, 28, 0.9], [126, 62, 30, 30, 0.8], [200, 200, 10, 10, 0.7])
    given["output0"][0, -32:, 0] = 0
    family = family_of(Decoder.YOLOV8_SEG, [OutputSpec(name, values.shape) for name, values in given.items()], SIZE)
    boxes = family.read(given, fit_of(SOURCE, SIZE, "letterbox"), SIZE, OPTIONS).boxes
    assert len(boxes) == 3 and boxes[0].mask == ()
    assert all(0 <= x <= 512 and 0 <= y <= 128 for box in boxes for part in box.mask for x, y in part)
    given["output1"][:] = np.nan
    assert not any(box.mask for box in family.read(given, fit_of(SOURCE, SIZE, "letterbox"), SIZE, OPTIONS).boxes)
    assert not family.read(
        {**given, "output0": 0 * given["output0"]}, fit_of(SOURCE, SIZE, "stretch"), SIZE, OPTIONS
    ).boxes


def test_a_model_answers_masks_in_pixels_of_the_picture(tmp_path: Path) -> None:
    values = np.zeros((1, 4 + 1 + 32, 84), np.float32)
    values[0, :5, 11], values[0, 5, 11] = [32, 32, 32, 48, 0.9], 1
    maps = np.full((1, 32, 16, 16), -1, np.float32)
    maps[0, 0, 6:10, 2:14] = 1
    predictor = opened(tmp_path, answering({"output1": maps, "output0": values}, (1, 3, 64, 64)), card(labels=("cup",)))
    assert predictor.decoder is Decoder.YOLOV8_SEG
    (box,) = predictor.predict(plain(1, 2, 3, 128, 64)).boxes
    assert (box.x1, box.y1, box.x2, box.y2) == pytest.approx((32, 0, 96, 64))
    ((*corners,),) = box.mask
    xs, ys = np.array(corners).T
    assert (xs.min(), xs.max()) == (32, 96), "it ends where the box does"
    assert (ys.min(), ys.max()) == pytest.approx((16, 48)), "half way between the pixels of the map"
