"""Pictures as inputs: exactly as the converter reads its samples, and back to the picture's pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.conversion.toolchains.samples import PictureReader
from app.inference.errors import ModelUnusable
from app.inference.picture_codec import decode
from app.inference.preprocess_options import Preprocess, read_preprocess
from app.inference.preprocessing import Preprocessor, fit_of, input_layout, preparation_of
from tests.harness.pictures import pixels, png, spec

CASES = [
    ((1, 3, 8, 12), "float32", {}),
    ((1, 3, 8, 12), "float32", {"scale": 1, "mean": [127], "std": [128]}),
    ((1, 3, 13, 7), "float32", {"color": "BGR", "scale": 1, "mean": [1, 2, 3], "std": [4, 5, 6]}),
    ((1, 3, 16, 16), "float32", {"color": "BGR", "scale": 1, "resize": "letterbox"}),
    ((1, 8, 24, 3), "float32", {"resize": "letterbox", "pad_value": 7}),
    ((1, 1, 8, 8), "float32", {}),
    ((2, 3, 8, 8), "float32", {}),
    ((1, 3, 8, 8), "float16", {}),
    ((1, 8, 8, 3), "uint8", {"scale": 1}),
    ((1, 3, 20, 31), "float32", {"resize": "letterbox"}),
]


@pytest.mark.parametrize(("shape", "dtype", "options"), CASES)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_input_is_bit_for_bit_what_the_converter_reads(
    shape: tuple[int, ...], dtype: str, options: dict[str, Any], channels: int, tmp_path: Path
) -> None:
    path = png(tmp_path / "a.png", pixels(20, 31, channels))
    preprocess = read_preprocess(options)
    expected = PictureReader(spec(*shape, dtype=dtype), preprocess).read(path)

    array, _ = Preprocessor(input_layout(shape, (0, 0)), dtype, preprocess).prepare(decode(path.read_bytes()))

    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_a_letterboxed_box_comes_back_to_where_it_was() -> None:
    fit = fit_of((200, 100), (64, 64), "letterbox")
    assert (fit.inner, fit.place) == ((64, 32), (0, 16))
    back = fit.to_source(np.array([[0, 16, 64, 48], [16, 24, 32, 40]], np.float32))
    np.testing.assert_allclose(back, [[0, 0, 200, 100], [50, 25, 100, 75]])


def test_what_lies_beyond_the_picture_is_clipped_to_it() -> None:
    back = fit_of((200, 100), (64, 64), "stretch").to_source(np.array([[-9, -9, 99, 99]], np.float32))
    np.testing.assert_allclose(back, [[0, 0, 200, 100]])


def test_open_sides_are_those_that_are_given_and_an_open_batch_is_one() -> None:
    assert input_layout((None, 3, None, None), (320, 240)).shape == (1, 3, 240, 320)
    assert input_layout((None, None, None, 3), (320, 240)).shape == (1, 240, 320, 3)


@pytest.mark.parametrize("shape", [(1, 39), (1, 4, 8, 8), (3, 8, 8), (1, 3, 8, 8, 8)])
def test_an_input_that_takes_no_pictures_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelUnusable, match="takes no pictures"):
        input_layout(shape, (0, 0))


def test_open_sides_that_nobody_gives_are_refused() -> None:
    with pytest.raises(ModelUnusable, match=r"\[\?, 3, \?, \?\] leaves width and height open"):
        input_layout((None, 3, None, None), (0, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"color": "GRAY"}, "color is GRAY"),
        ({"mean": [1, 2]}, "mean has 2 values"),
        ({"scale": 1e30, "std": [1e-30]}, "float32 cannot hold"),
    ],
)
def test_options_that_do_not_fit_the_input_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnusable, match=message):
        Preprocessor(input_layout((1, 3, 8, 8), (0, 0)), "float32", read_preprocess(options))


def test_the_card_stands_before_the_family_and_an_override_before_both_field_by_field() -> None:
    family = Preprocess(color="BGR", scale=1)
    assert preparation_of(family, {}, {}) == family
    assert preparation_of(family, {"color": "RGB"}, {}) == Preprocess(color="RGB")
    assert preparation_of(family, {}, {"resize": "letterbox"}) == Preprocess(color="BGR", scale=1, resize="letterbox")


@pytest.mark.parametrize(("card", "overrides"), [({"colour": "RGB"}, {}), ({}, {"std": [0]}), ({"scale": "big"}, {})])
def test_preprocessing_that_is_none_is_refused_by_its_field(card: dict[str, Any], overrides: dict[str, Any]) -> None:
    with pytest.raises(ModelUnusable, match=r"preprocess\.(colour|std|scale)"):
        preparation_of(Preprocess(), card, overrides)
