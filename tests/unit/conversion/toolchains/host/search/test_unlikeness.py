"""Which samples are unlike each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.unlikeness import CELLS, VALUES, looks_of, unlike


@dataclass(frozen=True)
class Sample:
    arrays: Mapping[str, Array]
    name: str = ""


def of(*arrays: Array) -> Array:
    return looks_of([Sample({"x": array}) for array in arrays])


@pytest.mark.parametrize("side", [16, 20, 33])
def test_a_picture_looks_like_the_means_of_its_cells(side: int) -> None:
    picture = np.random.default_rng(1).normal(size=(1, 3, side, side)).astype(np.float32)
    bounds = [cell * side // CELLS for cell in range(CELLS + 1)]
    first = picture[0, :, : bounds[1], bounds[2] : bounds[3]].mean(axis=(1, 2))
    np.testing.assert_allclose(of(picture)[0].reshape(3, CELLS, CELLS)[:, 0, 2], first, rtol=1e-5)
    np.testing.assert_allclose(of(np.moveaxis(picture, 1, 3))[0].reshape(CELLS, CELLS, 3)[0, 2], first, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 39), (1, 1000), (2, 3, 40, 40), (1, 16, 20, 20), (1, 0)])
def test_of_other_arrays_some_values_are_taken(shape: tuple[int, ...]) -> None:
    looks = of(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    assert looks.shape == (1, min(VALUES, int(np.prod(shape))))
    assert (np.diff(looks[0]) >= 1).all()


def test_the_next_is_the_farthest_from_all_before() -> None:
    looks = np.array([[0.0], [1.0], [10.0], [5.0], [9.5]], np.float32)
    assert unlike(looks, [0, 1, 2, 3, 4], 4) == [0, 2, 3, 1]
    assert unlike(looks, [1, 3, 4], 2) == [4, 1], "places stay those of the whole"


def test_of_copies_each_is_taken_once() -> None:
    assert sorted(unlike(np.zeros((5, 2), np.float32), [0, 1, 2, 3, 4], 5)) == [0, 1, 2, 3, 4]
