from __future__ import annotations

import zipfile

import numpy as np
import pytest

from app.conversion.toolchains.host.accuracy import accuracy
from tests.harness.paths import SAMPLES

SAMPLE = SAMPLES / "digits"


def test_accuracy_is_the_share_of_samples_whose_highest_score_is_their_label() -> None:
    x = np.eye(4, dtype=np.float32)
    assert accuracy(lambda one: one, x, np.array([0, 1, 2, 0])) == 0.75


def test_accuracy_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        accuracy(lambda one: one, np.zeros((0, 4), np.float32), np.zeros(0, np.int64))


def test_the_bundled_sample_is_small_enough_to_ship_and_its_halves_do_not_overlap() -> None:
    from PIL import Image

    files = [path for path in SAMPLE.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    with zipfile.ZipFile(SAMPLE / "reference.zip") as archive, np.load(SAMPLE / "test.npz") as test:
        pictures = set()
        for name in archive.namelist():
            with archive.open(name) as file, Image.open(file) as picture:
                assert (picture.mode, picture.size) == ("L", (8, 8))
                pictures.add(picture.tobytes())
        assert len(pictures) == 100
        tested = {np.round(x * 255).astype(np.uint8).tobytes() for x in test["x"]}
    assert not pictures & tested
