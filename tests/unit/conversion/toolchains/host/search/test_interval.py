"""How sure a mean over a few pictures is."""

from __future__ import annotations

import pytest

from app.conversion.toolchains.host.search.interval import interval_of


def test_the_interval_is_students() -> None:
    low, high = interval_of([19.0, 21.0, 20.0, 22.0, 18.0])
    assert low == pytest.approx(20 - 1.9634, abs=0.01)
    assert high == pytest.approx(20 + 1.9634, abs=0.01)


def test_more_pictures_make_it_narrower() -> None:
    few, many = interval_of([19.0, 21.0] * 3), interval_of([19.0, 21.0] * 30)
    assert few[0] is not None and many[0] is not None
    assert few[0] < many[0] < 20


def test_of_one_picture_nothing_is_sure() -> None:
    assert interval_of([20.0]) == (None, None)
    assert interval_of([]) == (None, None)
