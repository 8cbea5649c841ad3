from __future__ import annotations

import math

import numpy as np
import pytest

from app.conversion.errors import NotFinite
from app.conversion.toolchains.tensor_comparison import SNR_CAP_DB, compare, require_finite


def noisy(snr_db: float, size: int = 10_000, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(0, scale, size).astype(np.float32)
    noise = rng.normal(0, 1, size)
    noise *= math.sqrt(float((x.astype(np.float64) ** 2).sum()) / float((noise**2).sum()) / 10 ** (snr_db / 10))
    return x, (x + noise).astype(np.float32)


@pytest.mark.parametrize("snr_db", [-6.0, 0.0, 20.0, 60.0])
def test_snr_is_ten_times_the_logarithm_of_energy_over_noise(snr_db: float) -> None:
    assert compare(*noisy(snr_db)).snr_db == pytest.approx(snr_db, abs=0.05)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e6, 1e25])
def test_snr_does_not_depend_on_the_scale_even_where_float32_squares_overflow_or_vanish(scale: float) -> None:
    assert compare(*noisy(30.0, scale=scale)).snr_db == pytest.approx(30.0, abs=0.05)


def test_equal_tensors_are_exact_and_have_the_capped_snr() -> None:
    x = np.arange(5, dtype=np.float32)
    one = compare(x, x.copy())
    assert (one.exact, one.snr_db, one.cosine, one.max_abs) == (True, SNR_CAP_DB, pytest.approx(1.0), 0.0)


def test_a_silent_reference_has_no_snr_and_is_flagged() -> None:
    one = compare(np.zeros(4, np.float32), np.full(4, 0.5, np.float32))
    assert (one.snr_db, one.cosine, one.silent, one.max_abs) == (None, None, True, 0.5)


def test_two_silent_tensors_are_equal() -> None:
    one = compare(np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert one.exact and one.snr_db == SNR_CAP_DB and one.cosine == 1.0


def test_cosine_of_opposite_tensors_is_minus_one() -> None:
    x = np.arange(1, 5, dtype=np.float32)
    assert compare(x, -x).cosine == pytest.approx(-1.0)


def test_integer_and_bool_tensors_are_compared_by_value() -> None:
    assert compare(np.array([1, 2, 3]), np.array([1, 2, 5])).max_abs == 2.0
    assert compare(np.array([True, False]), np.array([True, False])).exact


def test_tensors_of_other_shape_are_not_compared() -> None:
    one = compare(np.ones(3, np.float32), np.ones(4, np.float32))
    assert not one.same_shape and one.snr_db is None


@pytest.mark.parametrize(("bad", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_value_that_is_not_finite_is_named_with_its_tensor_and_sample(bad: float, kind: str) -> None:
    x = np.array([1.0, bad], dtype=np.float32)
    with pytest.raises(NotFinite, match=rf"'scores' holds {kind} for sample 'a.png'"):
        compare(np.ones(2, np.float32), x, tensor="scores", sample="a.png")


def test_large_finite_values_are_finite() -> None:
    require_finite(np.full(8, 3e38, dtype=np.float32), "t", "s")
    assert math.isfinite(compare(np.full(8, 3e38, np.float32), np.full(8, -3e38, np.float32)).max_abs)
