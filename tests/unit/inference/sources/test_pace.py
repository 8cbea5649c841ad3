"""The pace of what is live: nothing waits, frames that are too many or too old are left out."""

from __future__ import annotations

from app.inference.sources.frames import Pace


def given(times: list[tuple[float, float]], fps: float = 0) -> list[int]:
    """times: of each frame, when it was taken and when it is looked at. Indexes of those that are given."""
    now = [0.0]
    slept: list[float] = []
    pace = Pace(fps, lambda: now[0], slept.append, live=True)
    pace.begin()
    chosen = []
    for index, (taken, seen) in enumerate(times):
        now[0] = 100 + seen
        if pace.wants(taken):
            pace.wait(taken)
            chosen.append(index)
    assert not slept
    return chosen


def test_live_frames_that_come_in_time_are_all_given() -> None:
    assert given([(0.1 * n, 0.1 * n + 0.3) for n in range(10)]) == list(range(10))


def test_live_frames_are_thinned_out_by_the_clock() -> None:
    assert given([(0.1 * n, 0.1 * n) for n in range(20)], fps=2) == [0, 5, 10, 15]


def test_live_frames_that_became_old_while_the_reader_was_busy_are_left_out() -> None:
    times = [(0.1 * n, 0.1 * n) for n in range(3)] + [(0.3 + 0.1 * n, 2.0 + 0.01 * n) for n in range(20)]
    chosen = given(times)
    assert chosen[:3] == [0, 1, 2]
    assert 16 < chosen[3] < 20
    assert chosen[3:] == list(range(chosen[3], 23))
