"""Pictures from nearer and darker."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.alterations import ALTERATIONS, altered

SIDE = 40
MIDDLE = SIDE * 35 // 100


def picture() -> Array:
    """Black, with a bright square of a third of its sides in the middle; 1×3×40×40."""
    array = np.full((1, 3, SIDE, SIDE), -1.0, np.float32)
    begin = (SIDE - MIDDLE) // 2
    array[:, :, begin : begin + MIDDLE, begin : begin + MIDDLE] = 3.0
    return array


def only(array: Array, alteration: str) -> Array:
    inputs = altered({"x": array}, alteration)
    assert inputs is not None
    return inputs["x"]


def test_from_nearer_the_middle_fills_the_picture() -> None:
    np.testing.assert_array_equal(only(picture(), "nearer"), np.full((1, 3, SIDE, SIDE), 3.0, np.float32))


def test_darker_halves_what_is_above_black() -> None:
    darker = only(picture(), "darker")
    assert (darker.min(), darker.dtype) == (-1.0, np.float32)
    assert darker.max() == pytest.approx(1.0, abs=4 / 255), "to a step of 8 bits between its two values"


@pytest.mark.parametrize("brightest", [100, 255])
def test_a_darker_picture_has_the_levels_of_its_pixels(brightest: int) -> None:
    """An input in 8 bits represents these, and would not represent the levels between them."""
    pixels = np.random.default_rng(1).integers(0, brightest + 1, (1, 3, SIDE, SIDE))
    mean = np.array([103.5, 116.0, 123.0]).reshape(1, 3, 1, 1)
    darker = only(((pixels - mean) / 57.0).astype(np.float32), "darker") * 57.0 + mean
    np.testing.assert_allclose(darker, np.rint(darker), atol=1e-3)
    assert abs(float(darker.max()) - brightest / 2) <= 1


@pytest.mark.parametrize("alteration", sorted(ALTERATIONS))
def test_channels_may_come_last(alteration: str) -> None:
    last = only(np.moveaxis(picture(), 1, 3), alteration)
    np.testing.assert_array_equal(np.moveaxis(last, 3, 1), only(picture(), alteration))


def test_integers_stay_integers() -> None:
    assert only(np.full((1, SIDE, SIDE, 3), 7, np.uint8), "darker").dtype == np.uint8


@pytest.mark.parametrize("shape", [(1, 39), (1, 1, 8, 8), (1, 16, SIDE, SIDE), (4, 3, SIDE, SIDE)])
def test_what_is_no_picture_is_not_altered(shape: tuple[int, ...]) -> None:
    assert altered({"x": np.ones(shape, np.float32)}, "darker") is None


def test_a_spectrogram_is_no_picture() -> None:
    spectrogram = np.random.default_rng(1).normal(size=(1, 1, SIDE, SIDE)).astype(np.float32)
    assert altered({"x": spectrogram}, "darker") is None
    assert altered({"x": np.round(spectrogram * 16)}, "darker") is not None


def test_beside_a_picture_other_inputs_stay_as_they_are() -> None:
    size = np.array([[40.0, 40.0]], np.float32)
    inputs = altered({"x": picture(), "size": size}, "nearer")
    assert inputs is not None and inputs["size"] is size
