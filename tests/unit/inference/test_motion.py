"""Does anything move?"""

from __future__ import annotations

import numpy as np

from app.inference.motion import MotionGate, measure_changed_share, small_grey
from app.inference.prediction import Picture


def scene(x: int = 0, shade: int = 100) -> Picture:
    """Grey, with a white square of a tenth of its width."""
    picture = np.full((240, 320, 3), shade, np.uint8)
    picture[100:132, x : x + 32] = 255
    return picture


def test_the_share_that_has_changed_is_that_of_the_picture() -> None:
    before, after = small_grey(scene(0)), small_grey(scene(160))
    assert abs(measure_changed_share(before, after) - 2 * 32 * 32 / (240 * 320)) < 0.005
    assert measure_changed_share(before, small_grey(scene(0, 110))) == 0, "a little lighter is no motion"


def test_still_pictures_are_held_until_something_has_moved_far_enough_or_it_is_time() -> None:
    now = [0.0]
    gate = MotionGate(0.01, 10, clock=lambda: now[0])
    seen = [gate.passes(scene(x)) for x in (0, 0, 2, 4, 6, 160, 160)]
    assert seen == [True, False, False, False, False, True, False]
    assert gate.held == 5
    now[0] = 10.0
    assert gate.passes(scene(160))


def test_what_moves_slowly_passes_too() -> None:
    gate = MotionGate(0.01, 1e9)
    seen = [gate.passes(scene(x)) for x in range(0, 120, 2)]
    assert 3 <= sum(seen) <= 20


def test_without_a_least_share_each_passes() -> None:
    gate = MotionGate(0, 10)
    assert [gate.passes(scene()) for _ in range(3)] == [True] * 3
    assert gate.held == 0
