"""Which frames a generator takes, with a clock that a test turns."""

from __future__ import annotations

from collections.abc import Generator as Shots
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.edge.video.runner.frame_context import CapturedFrame
from app.edge.video.runner.frame_generator import ArrivalRate, Generator, is_slower
from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.frame_gate import FrameGate
from app.inference.prediction import Picture
from app.inference.region import Region
from app.inference.sources.frames import LazyFrame
from app.video.model.plan import VideoConf


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Reel:
    """25 frames a second. untouched: frames whose pixels nobody has read."""

    def __init__(self, count: int, *, damaged: frozenset[int] = frozenset(), cut: bool = False) -> None:
        self.count, self.damaged, self.cut = count, damaged, cut
        self.untouched = set(range(count))

    def frames(self) -> Shots[LazyFrame, None, None]:
        for number in range(self.count):
            yield LazyFrame(f"#{number}", lambda number=number: self.read(number), at=number / 25)  # type: ignore[misc]
        if self.cut:
            yield LazyFrame("its end", None, reason="cut", is_cut=True)

    def read(self, number: int) -> Picture:
        if number in self.damaged:
            raise DamagedPicture("broken")
        self.untouched.discard(number)
        return np.full((4, 6), number, np.uint8)


def take(reel: Reel, conf: VideoConf, **more: Any) -> tuple[list[CapturedFrame], Generator, Clock]:
    clock = Clock()
    generator = Generator(lambda: conf, clock=clock, sleep=clock.sleep, **more)
    return list(generator.one_pass(reel)), generator, clock


def numbers(taken: list[CapturedFrame]) -> list[int]:
    return [int(frame.picture[0, 0, 0]) for frame in taken]


def test_the_rate_of_a_source_that_names_none_is_measured_without_interruptions() -> None:
    clock = Clock()
    rate = ArrivalRate(clock)

    def measure(fps: float, seconds: float) -> float:
        for _ in range(round(fps * seconds)):
            clock.now += 1 / fps
            rate.arrived()
        return rate.fps

    assert measure(12, 2.9) == 0, "not known yet"
    assert measure(12, 1) == 12
    assert measure(11, 6) == 12, "about the same"
    clock.now += 60
    assert measure(12, 4) == 12, "an interruption is no rate"
    clock.now += 2
    rate.begin()
    assert measure(12, 4) == 12, "opening takes its time"
    assert measure(5, 7) == 5
    assert is_slower(rate.fps, 25) and not is_slower(24, 25)


def test_a_measured_rate_is_that_of_all_frames_also_of_those_left_out() -> None:
    _, generator, _ = take(Reel(101), VideoConf(fps=5))
    assert generator.rate.fps == 25


def test_live_frames_come_at_their_own_time() -> None:
    taken, _, clock = take(Reel(51), VideoConf(fps=25))
    assert clock.now == pytest.approx(102.0)
    assert [frame.captured - 100 for frame in taken] == pytest.approx([frame.at for frame in taken])


def test_without_real_time_nobody_waits_and_the_same_frames_are_taken() -> None:
    slow, _, _ = take(Reel(50), VideoConf(fps=10))
    fast, _, clock = take(Reel(50), VideoConf(fps=10), realtime=False)
    assert clock.now == 100.0
    assert numbers(slow) == numbers(fast)
    assert len(fast) == 20


def test_of_frames_left_out_no_pixel_is_touched() -> None:
    reel = Reel(20)
    taken, generator, _ = take(reel, VideoConf(fps=25, nskip=2, ntracking=1))
    assert [(n, frame.tracked) for n, frame in zip(numbers(taken), taken, strict=True)] == [
        (n, n % 4 == 1) for n in range(20) if n % 4 < 2
    ]
    assert reel.untouched == {n for n in range(20) if n % 4 >= 2}
    assert generator.skipped == 10


def test_a_damaged_frame_is_replaced_by_the_next_one() -> None:
    taken, generator, _ = take(Reel(10, damaged=frozenset({0, 6})), VideoConf(fps=25, nskip=4))
    assert numbers(taken) == [1, 7]
    assert generator.damaged == 2
    assert "#6: broken" in generator.why_damaged


def test_a_source_that_is_cut_off_says_so_after_its_frames() -> None:
    generator = Generator(lambda: VideoConf(fps=25), realtime=False)
    seen = []
    with pytest.raises(SourceUnusable, match="cut off"):
        for frame in generator.one_pass(Reel(3, cut=True)):
            seen.append(frame)
    assert numbers(seen) == [0, 1, 2]
    assert generator.damaged == 0, "no frame is damaged: there are none"


def test_a_pass_without_one_frame_is_none() -> None:
    with pytest.raises(SourceUnusable, match="broken"):
        take(Reel(2, damaged=frozenset({0, 1})), VideoConf())


def test_loops_go_on_over_passes() -> None:
    generator = Generator(lambda: VideoConf(fps=25), realtime=False, n_loop=7)
    first = list(generator.one_pass(Reel(3)))
    second = list(generator.one_pass(Reel(3)))
    assert [frame.n_loop for frame in (*first, *second)] == [8, 9, 10, 11, 12, 13]


def test_a_clip_has_the_frames_of_its_cycle_and_the_rest_at_the_end() -> None:
    taken, _, _ = take(Reel(10), VideoConf(fps=25, ntracking=2, nskip=1), clips=True, realtime=False)
    firsts = [frame for frame in taken if frame.clip]
    assert [len(frame.clip) for frame in firsts] == [3, 3, 2]
    assert [numbers([frame])[0] for frame in firsts] == [0, 4, 8]
    assert sum(frame.tracked for frame in taken) == 5


def test_a_new_plan_counts_from_the_next_frame_on() -> None:
    conf = [VideoConf(fps=25)]
    generator = Generator(lambda: conf[0], realtime=False)
    seen = []
    for frame in generator.one_pass(Reel(50)):
        seen.append(numbers([frame])[0])
        if seen[-1] == 9:
            conf[0] = replace(conf[0], fps=5)
    assert seen[:10] == list(range(10))
    assert seen[10:] == [10, *range(15, 50, 5)]


def test_grey_pictures_become_coloured_ones() -> None:
    assert take(Reel(1), VideoConf())[0][0].picture.shape == (4, 6, 3)


class StillReel(Reel):
    """All black; from second 4 on white."""

    def read(self, number: int) -> Picture:
        return np.full((40, 60), 255 if number >= 100 else 0, np.uint8)


@pytest.mark.parametrize("realtime", [True, False])
def test_of_a_still_source_a_frame_a_second_holds_on_and_none_is_processed(realtime: bool) -> None:
    gate = FrameGate(motion=0.1, still_s=3.0)
    taken, generator, _ = take(StillReel(150), VideoConf(fps=25), gate=gate, realtime=realtime)
    processed = [frame.n_loop - 1 for frame in taken if not frame.tracked]
    assert processed == [0, 75, 100], "the first, one after 3 s, and the one in which something has changed"
    assert generator.still == 147
    assert [frame.still for frame in taken] == [frame.tracked for frame in taken]
    assert len([frame for frame in taken if frame.still]) in (5, 6)


def test_a_short_pass_in_which_nothing_moves_has_been_read_although_it_passes_no_frame_on() -> None:
    _, generator, _ = take(StillReel(10), VideoConf(fps=25), gate=FrameGate(motion=0.1, still_s=60))
    assert list(generator.one_pass(StillReel(10))) == []
    assert generator.still == 19
    with pytest.raises(SourceUnusable, match="not one frame"):
        list(generator.one_pass(Reel(2, damaged=frozenset({0, 1}))))


def test_frames_that_would_be_tracked_are_left_out_of_a_still_cycle() -> None:
    taken, generator, _ = take(StillReel(75), VideoConf(fps=25, ntracking=2), gate=FrameGate(motion=0.1, still_s=60))
    assert (generator.still, generator.skipped) == (24, 48)
    assert [frame.n_loop for frame in taken if frame.tracked and not frame.still] == [2, 3]


def test_of_a_region_only_the_part_is_given_and_where_it_lies() -> None:
    reel = Reel(2)
    taken, _, _ = take(reel, VideoConf(fps=25), gate=FrameGate(Region(0.5, 0.5, 1.0, 1.0)))
    frame = taken[1]
    assert frame.picture.shape == (2, 3, 3)
    assert frame.crop is not None
    assert (frame.crop.x, frame.crop.y, frame.source_size) == (3, 2, (6, 4))
