"""The part of a picture that is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from app.inference.prediction import Box
from app.inference.region import Crop, Region, read_region


def test_a_part_shares_the_pictures_memory_and_its_boxes_are_in_the_whole() -> None:
    picture = np.zeros((100, 200, 3), np.uint8)
    part, crop = read_region("0.25, 0.5, 0.75, 1").of(picture)
    assert (part.shape, crop) == ((50, 100, 3), Crop(50, 50, 200, 100))
    part[0, 0] = 9
    assert picture[50, 50, 0] == 9
    (box,) = crop.in_source([Box(1, 2, 3, 4, 0.5, 7)])
    assert box == Box(51, 52, 53, 54, 0.5, 7)


def test_the_smallest_part_has_a_pixel() -> None:
    for region in (Region(0, 0, 0.001, 0.001), Region(0.999, 0.999, 1, 1)):
        assert region.of(np.zeros((10, 10), np.uint8))[0].shape == (1, 1)


@pytest.mark.parametrize("text", ["", "1", "a,b,c,d", "0,0,1", "0.5,0,0.5,1", "0,0,1,1.1", "nan,0,1,1", "0.9,0,0.1,1"])
def test_what_is_no_region_is_refused_with_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="two corners"):
        read_region(text)
