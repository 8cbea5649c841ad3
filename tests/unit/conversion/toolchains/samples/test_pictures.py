"""Pictures as model inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.conversion.errors import DamagedSamples, DynamicShape, UnsupportedInput
from app.conversion.options import Preprocess
from app.conversion.toolchains.graph import TensorSpec
from app.conversion.toolchains.samples import PictureReader, SampleSet, layout_of, pictures
from app.inference.errors import WrongSampleShape
from app.inference.picture_codec import EXIF_ORIENTATION
from app.kit.errors import BadInput
from tests.harness.pictures import RAW, RGB8, pixels, png, spec


def samples(folder: Path, *inputs: TensorSpec, skip_damaged: bool = False) -> SampleSet:
    return SampleSet(folder, inputs, Preprocess(), skip_damaged=skip_damaged)


def test_pixels_are_scaled_shifted_and_divided_per_channel(tmp_path: Path) -> None:
    values = pixels(8, 8)
    options = Preprocess(scale=0.5, mean=(1, 2, 3), std=(4, 5, 6))
    array = PictureReader(RGB8, options).read(png(tmp_path / "a.png", values))
    expected = (values * 0.5 - np.array([1, 2, 3])) / np.array([4, 5, 6])
    assert array.dtype == np.float32
    assert array.shape == (1, 3, 8, 8)
    np.testing.assert_allclose(array[0], expected.transpose(2, 0, 1), rtol=1e-6)


def test_the_channel_axis_is_found_in_both_layouts(tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", pixels(8, 8))
    first, last = PictureReader(RGB8, RAW).read(path), PictureReader(spec(1, 8, 8, 3), RAW).read(path)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    assert layout_of(RGB8).size == (8, 8)
    assert layout_of(spec(1, 4, 6, 3)).size == (6, 4)


def test_bgr_turns_the_channels_round_and_means_follow_that_order(tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", pixels(8, 8))
    rgb = PictureReader(RGB8, RAW).read(path)
    bgr = PictureReader(RGB8, Preprocess(scale=1, color="BGR", mean=(1, 2, 3))).read(path)
    np.testing.assert_array_equal(rgb[:, ::-1] - np.array([1, 2, 3]).reshape(1, 3, 1, 1), bgr)


def test_one_channel_gets_gray(tmp_path: Path) -> None:
    values = pixels(8, 8)
    array = PictureReader(spec(1, 1, 8, 8), RAW).read(png(tmp_path / "a.png", values))
    np.testing.assert_allclose(array[0, 0], values @ np.array([0.299, 0.587, 0.114]), atol=1)


def test_stretch_fills_the_input_and_letterbox_keeps_the_aspect(tmp_path: Path) -> None:
    path = png(tmp_path / "wide.png", np.full((4, 8, 3), 200, np.uint8))
    assert (PictureReader(RGB8, RAW).read(path) == 200).all()
    boxed = PictureReader(RGB8, Preprocess(scale=1, resize="letterbox", pad_value=7)).read(path)
    assert (boxed[0, :, 2:6] == 200).all()
    assert (boxed[0, :, :2] == 7).all()
    assert (boxed[0, :, 6:] == 7).all()


def test_width_and_height_are_not_mixed_up(tmp_path: Path) -> None:
    values = pixels(4, 6)
    array = PictureReader(spec(1, 3, 4, 6), RAW).read(png(tmp_path / "a.png", values))
    np.testing.assert_array_equal(array[0], values.transpose(2, 0, 1))


def test_a_fixed_batch_repeats_the_picture(tmp_path: Path) -> None:
    array = PictureReader(spec(4, 3, 8, 8), RAW).read(png(tmp_path / "a.png", pixels(8, 8)))
    assert array.shape == (4, 3, 8, 8)
    np.testing.assert_array_equal(array[0], array[3])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    values = pixels(8, 8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = png(tmp_path / "a.png", values, exif=exif)
    turned = {
        1: values,
        2: values[:, ::-1],
        3: values[::-1, ::-1],
        4: values[::-1],
        5: values.transpose(1, 0, 2),
        6: np.rot90(values, -1),
        7: np.rot90(values, 2).transpose(1, 0, 2),
        8: np.rot90(values),
    }[orientation]
    np.testing.assert_array_equal(PictureReader(RGB8, RAW).read(path)[0].transpose(1, 2, 0), turned)


def test_sixteen_bits_per_pixel_are_brought_to_eight(tmp_path: Path) -> None:
    values = pixels(8, 8, 1).astype(np.uint16) * 256 + 99
    array = PictureReader(spec(1, 1, 8, 8), RAW).read(png(tmp_path / "a.png", values))
    np.testing.assert_array_equal(array[0, 0], pixels(8, 8, 1))


def as_mode(mode: str) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        path = folder / ("a.tif" if mode == "CMYK" else "a.png")
        Image.fromarray(pixels(8, 8)).convert(mode).save(path)
        return path

    return save


@pytest.mark.parametrize("mode", ["RGBA", "P", "L", "LA", "1", "CMYK"])
def test_pictures_of_every_mode_become_rgb(tmp_path: Path, mode: str) -> None:
    path = as_mode(mode)(tmp_path)
    array = PictureReader(RGB8, RAW).read(path)
    expected = np.asarray(Image.open(path).convert("RGB"))
    np.testing.assert_array_equal(array[0].transpose(1, 2, 0), expected)


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path: Path) -> None:
    picture = Image.fromarray(pixels(8, 8)).convert("P")
    picture.save(tmp_path / "a.png", transparency=bytes(range(256)))
    assert PictureReader(RGB8, RAW).read(tmp_path / "a.png").shape == (1, 3, 8, 8)


@pytest.mark.parametrize("ending", ["jpg", "jpeg", "png", "bmp", "webp", "ppm", "gif", "tif", "avif", "heic", "heif"])
def test_every_promised_format_is_read(tmp_path: Path, ending: str) -> None:
    Image.fromarray(np.full((8, 8, 3), 100, np.uint8)).save(tmp_path / f"a.{ending}")
    (sample,) = SampleSet(tmp_path, [RGB8], RAW)
    np.testing.assert_allclose(sample.arrays["x"], 100, atol=2)


@pytest.mark.parametrize("ending", ["avif", "heic"])
def test_a_picture_of_a_phone_is_upright_and_a_cut_one_damaged(tmp_path: Path, ending: str) -> None:
    values = np.full((64, 64, 3), 20, np.uint8)
    values[:32] = 220
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = 6
    path = tmp_path / f"a.{ending}"
    Image.fromarray(values).save(path, exif=exif.tobytes(), quality=95)
    array = PictureReader(spec(1, 3, 64, 64), RAW).read(path)[0, 0]
    assert array[:, 40:].mean() > 200 and array[:, :24].mean() < 40
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(DamagedSamples):
        PictureReader(RGB8, RAW).verify(path)


def test_of_an_animation_the_first_frame_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), (level, level, level)) for level in (10, 240)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (PictureReader(RGB8, RAW).read(tmp_path / "a.gif") == 10).all()


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(DamagedSamples, match="floating-point"):
        PictureReader(RGB8, RAW).read(tmp_path / "a.tif")


def test_a_picture_with_too_many_pixels_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "MAX_PIXELS", 63)
    with pytest.raises(DamagedSamples, match="8 x 8 pixels"):
        PictureReader(spec(1, 3, 4, 4), RAW).read(png(tmp_path / "a.png", pixels(8, 8)))


def test_an_input_for_pictures_that_are_too_large_is_the_fault_of_the_model() -> None:
    with pytest.raises(UnsupportedInput, match="'x' takes pictures of 60000 x 50000 pixels"):
        PictureReader(spec(1, 3, 50000, 60000), RAW)


def test_a_batch_that_no_memory_holds_is_the_fault_of_the_model() -> None:
    with pytest.raises(UnsupportedInput, match="'x' takes 4611686018427387904 pictures at once"):
        PictureReader(spec(1 << 62, 3, 16, 16), RAW)


@pytest.mark.parametrize("shape", [(1, 39), (1, 4, 8, 8), (3, 8, 8), (1, 8, 8, 2)])
def test_pictures_for_an_input_that_is_no_image_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    png(tmp_path / "a.png", pixels(8, 8))
    with pytest.raises(WrongSampleShape, match="pictures do not fit"):
        samples(tmp_path, spec(*shape))


def test_pictures_for_a_model_with_two_inputs_are_refused(tmp_path: Path) -> None:
    png(tmp_path / "a.png", pixels(8, 8))
    with pytest.raises(WrongSampleShape, match=r"\['x', 'z'\]"):
        samples(tmp_path, RGB8, spec(1, 3, 8, 8, name="z"))


def test_a_shape_that_is_not_fixed_is_refused(tmp_path: Path) -> None:
    png(tmp_path / "a.png", pixels(8, 8))
    with pytest.raises(DynamicShape, match="input 'x'"):
        samples(tmp_path, spec("N", 3, 8, 8))


@pytest.mark.parametrize("options", [{"mean": (1, 2)}, {"std": (1, 2, 3, 4)}])
def test_means_and_deviations_must_match_the_channels(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"values, but the input 'x' has 3 channel"):
        PictureReader(RGB8, Preprocess(**options))


@pytest.mark.parametrize(("color", "channels"), [("RGB", 1), ("BGR", 1), ("GRAY", 3)])
def test_a_colour_order_must_match_the_channels(color: Any, channels: int) -> None:
    with pytest.raises(BadInput, match=f"preprocess.color is {color}"):
        PictureReader(spec(1, channels, 8, 8), Preprocess(color=color))


def test_options_that_overflow_are_refused() -> None:
    with pytest.raises(BadInput, match="cannot hold"):
        PictureReader(RGB8, Preprocess(scale=1e30, std=(1e-30,)))


def test_integer_inputs_get_rounded_pixels_and_refuse_scales_of_float_inputs(tmp_path: Path) -> None:
    values = pixels(8, 8)
    array = PictureReader(spec(1, 8, 8, 3, dtype="uint8"), RAW).read(png(tmp_path / "a.png", values))
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array[0], values)
    with pytest.raises(BadInput, match="almost nothing"):
        PictureReader(spec(1, 8, 8, 3, dtype="uint8"), Preprocess())
