"""The recording of a job: real encoding of drawn pictures, into a ring on a real disk."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from app.edge.media.paced_thread import pause_after
from app.edge.media.video_writer import FORMATS, KEYFRAME_EVERY_S, VideoFormat
from app.edge.video.runner import recorder as recording
from app.edge.video.runner import video_segments
from app.edge.video.runner.preview import PreviewScene
from app.edge.video.runner.recorder import DISK_FULL, FOLDER, NO_ENCODER, Recorder
from app.edge.video.runner.video_segments import Segment, SegmentRing, SegmentWriter, clip_of
from app.inference.prediction import Picture
from app.video.model.drawn_video import Recording
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.until import until

BEGIN_S = 1_700_000_000.0
H264 = FORMATS[0]
FPS = 5


def picture(number: int, size: tuple[int, int] = (64, 48)) -> Picture:
    return np.full((size[1], size[0], 3), 10 * (number % 20), np.uint8)


def segment(begins_s: float, seconds: float, format: VideoFormat = H264, size: tuple[int, int] = (64, 48)) -> bytes:
    writer = SegmentWriter(format, size, begins_s)
    for number in range(int(seconds * FPS)):
        writer.add(picture(number, size), begins_s + number / FPS)
    return writer.close()


def ring(folder: Path, *, hours: float = 1.0, megabytes: int = 10) -> SegmentRing:
    return SegmentRing(folder, Recording(hours, megabytes))


def filled(folder: Path, count: int = 3, format: VideoFormat = H264) -> SegmentRing:
    """Segments of four seconds, one after the other."""
    made = ring(folder)
    for begins_s in (BEGIN_S + 4 * number for number in range(count)):
        made.add(segment(begins_s, 4, format), begins_s, begins_s + 3.8, format.container)
    return made


def times(clip: bytes) -> list[float]:
    with av.open(io.BytesIO(clip)) as container:
        return [round(float(frame.time or 0), 2) for frame in container.decode(video=0)]


@pytest.mark.parametrize("format", [FORMATS[0], FORMATS[2]], ids=["h264", "vp8"])
def test_a_clip_over_segments_has_their_pictures_at_their_times(tmp_path: Path, format: VideoFormat) -> None:
    made = filled(tmp_path, format=format)
    span = BEGIN_S + 2.0, BEGIN_S + 9.0
    clip = clip_of(made.between(*span), *span, format.container)
    shown = times(clip)
    assert shown[0] == 0
    assert shown[-1] == pytest.approx(7.0, abs=0.01)
    assert all(after - before == pytest.approx(1 / FPS, abs=0.02) for before, after in pairwise(shown))


def test_a_clip_begins_at_the_keyframe_before(tmp_path: Path) -> None:
    made = filled(tmp_path, 1)
    span = BEGIN_S + 1.0, BEGIN_S + 3.0
    assert times(clip_of(made.between(*span), *span, "mp4"))[-1] == pytest.approx(3.0, abs=0.01)


def test_a_player_can_start_before_all_of_a_clip_has_arrived(tmp_path: Path) -> None:
    made = filled(tmp_path)
    clip = clip_of(made.between(BEGIN_S, BEGIN_S + 12), BEGIN_S, BEGIN_S + 12, "mp4")
    assert clip.index(b"moov") < clip.index(b"mdat")


def test_of_a_time_without_pictures_there_is_no_clip(tmp_path: Path) -> None:
    made = filled(tmp_path, 1)
    assert made.between(BEGIN_S + 10, BEGIN_S + 20) == []
    assert clip_of(made.between(BEGIN_S + 3.79, BEGIN_S + 20), BEGIN_S + 3.81, BEGIN_S + 20, "mp4") == b""


def test_a_clip_ends_where_the_size_of_the_picture_changes(tmp_path: Path) -> None:
    made = filled(tmp_path, 1)
    made.add(segment(BEGIN_S + 4, 4, size=(32, 24)), BEGIN_S + 4, BEGIN_S + 7.8, "mp4")
    assert times(clip_of(made.between(BEGIN_S, BEGIN_S + 8), BEGIN_S, BEGIN_S + 8, "mp4"))[-1] < 4


def test_a_clip_over_a_clock_that_was_set_back_goes_on_after_what_it_has(tmp_path: Path) -> None:
    made = filled(tmp_path, 1)
    begins_s = BEGIN_S + 1.5  # 2.3 s before the last picture
    made.add(segment(begins_s, 8), begins_s, begins_s + 7.8, "mp4")
    span = BEGIN_S, BEGIN_S + 12
    shown = times(clip_of(made.between(*span), *span, "mp4"))
    assert shown == sorted(set(shown))
    assert shown[-1] == pytest.approx(1.5 + 7.8, abs=0.01)
    assert max(after - before for before, after in pairwise(shown)) <= KEYFRAME_EVERY_S


def test_a_damaged_segment_is_left_out(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.between(BEGIN_S, BEGIN_S + 1)[0].path.write_bytes(b"")
    shown = times(clip_of(made.between(BEGIN_S, BEGIN_S + 12), BEGIN_S, BEGIN_S + 12, "mp4"))
    assert shown[-1] == pytest.approx(7.8, abs=0.01)


def test_a_clock_that_is_set_back_keeps_nothing_for_longer_than_twice_its_time(tmp_path: Path) -> None:
    made = ring(tmp_path, hours=1)

    def add(begins_s: float) -> list[float]:
        made.add(bytes(100), begins_s, begins_s + 9, "mp4")
        return [one.begins_s - BEGIN_S for one in made.between(0, 2 * BEGIN_S)]

    assert add(BEGIN_S + 3600) == [3600]
    assert add(BEGIN_S) == [3600, 0], "an hour back"
    assert made.begins_s == BEGIN_S and made.ends_s == BEGIN_S + 9
    assert add(BEGIN_S + 3700) == [3600, 3700], "what lies before one of the future goes in its time"
    assert add(BEGIN_S - 86400) == [-86400], "a day back"
    assert (made.size_bytes, len(list(tmp_path.iterdir()))) == (100, 1)


def test_the_oldest_goes_by_age_and_by_size(tmp_path: Path) -> None:
    made = ring(tmp_path, hours=0.01, megabytes=1)
    for number in range(10):
        made.add(bytes(100_000), BEGIN_S + 10 * number, BEGIN_S + 10 * number + 9, "mp4")
    assert made.begins_s == BEGIN_S + 60, "36 s before the last"
    made.add(bytes(800_000), BEGIN_S + 100, BEGIN_S + 109, "mp4")
    assert made.size_bytes <= 1_000_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == made.size_bytes


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "1-2.new").write_bytes(b"half")
    assert ring(tmp_path).ends_s is not None
    assert not list(tmp_path.glob("*.new"))


def test_the_ring_goes_on_after_a_restart(tmp_path: Path) -> None:
    before = filled(tmp_path)
    (tmp_path / "1-2.new").write_bytes(b"half of a segment, of a process that was killed")
    after = ring(tmp_path)
    assert (after.begins_s, after.ends_s, after.size_bytes) == (before.begins_s, before.ends_s, before.size_bytes)


# --- the recorder ---------------------------------------------------------------------------------
class Scene:
    """What is drawn of it is decided by the test."""

    def __init__(self, number: int) -> None:
        self.number = number


class Job:
    """Shows scenes to a recorder, whose clock it sets."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.now, self.notes, self.drawn = BEGIN_S, list[str](), list[int]()
        self.recorder = Recorder(
            Recording(1.0, **{"fps": 15.0, **limits}), folder, self.draw, self.notes.append, clock=lambda: self.now
        )
        self.recorder.start()
        self.shown = 0

    def draw(self, scene: PreviewScene) -> Picture:
        self.drawn.append(scene.number)
        return picture(scene.number, (320, 240))

    def show(self, after_s: float = 0.2) -> None:
        """A scene, which is recorded when this returns."""
        self.now += after_s
        self.shown += 1
        scene: Any = Scene(self.shown)
        self.recorder.show(scene)
        until(lambda: self.drawn and self.drawn[-1] == self.shown)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.recorder.close()


def test_what_is_shown_is_recorded_and_can_be_had_at_once(job: Job) -> None:
    for _ in range(5):
        job.show()
    clip, media_type = job.recorder.clip(BEGIN_S, BEGIN_S + 2)
    assert media_type == "video/mp4"
    assert times(clip) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], abs=0.01)
    state = job.recorder.state()
    assert (state.begins_s, state.ends_s) == pytest.approx((BEGIN_S + 0.2, BEGIN_S + 1.0))
    assert state.problem == ""
    assert state.size_bytes > 0
    assert job.recorder.clip(BEGIN_S + 100, BEGIN_S + 110) == (b"", "")


def test_the_last_pictures_are_stored_when_the_job_stops(tmp_path: Path) -> None:
    job = Job(tmp_path, width=160)
    job.show()
    job.show(1)
    job.recorder.close()
    (path,) = (tmp_path / FOLDER).iterdir()
    with av.open(path) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (160, 120)
    assert SegmentRing(tmp_path / FOLDER, Recording(1.0)).ends_s == BEGIN_S + 1.2


def test_a_full_disk_is_noted_once_and_recording_goes_on_when_there_is_room(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video_segments, "MIN_FREE_BYTES", 1 << 60)
    for _ in range(2):
        job.show()
        assert job.recorder.clip(BEGIN_S, job.now + 1) == (b"", "")
    assert job.recorder.state().problem == DISK_FULL
    assert job.notes == [f"Nothing is recorded: {DISK_FULL}. The job goes on."]
    monkeypatch.setattr(video_segments, "MIN_FREE_BYTES", 0)
    job.show()
    assert times(job.recorder.clip(job.now - 0.1, job.now + 1)[0])
    assert job.recorder.state().problem == ""
    assert job.notes[1:] == ["It is recorded again."]


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def test_a_disk_that_fails_while_a_segment_is_written_leaves_no_part_of_it(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: int
) -> None:
    def fails(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(cause, os.strerror(cause))

    monkeypatch.setattr(Path, "write_bytes", fails)
    job.show()
    assert job.recorder.clip(BEGIN_S, job.now + 1) == (b"", "")
    assert job.recorder.state().problem == DISK_FULL
    assert not list((tmp_path / FOLDER).iterdir())


@pytest.mark.parametrize("least_bytes", [0, 1 << 20], ids=["none is left", "too little is left"])
def test_on_a_small_disk_what_is_missing_is_said_and_recording_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_bytes: int
) -> None:
    monkeypatch.setattr(video_segments, "MIN_FREE_BYTES", least_bytes)
    with small_disk(tmp_path / "disk", "2m") as disk:
        job = Job(disk)
        (disk / FOLDER).mkdir(exist_ok=True)
        with (disk / "filling").open("wb") as filling, pytest.raises(OSError, match="No space"):
            filling.write(bytes(4 << 20))
        job.show()
        assert job.recorder.clip(BEGIN_S, job.now + 1) == (b"", "")
        assert job.recorder.state().problem == DISK_FULL
        (disk / "filling").unlink()
        job.show()
        assert times(job.recorder.clip(job.now - 0.1, job.now + 1)[0])
        assert job.notes == [f"Nothing is recorded: {DISK_FULL}. The job goes on.", "It is recorded again."]
        job.recorder.close()


def test_a_picture_that_cannot_be_drawn_ends_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = job.recorder._draw
    monkeypatch.setattr(job.recorder, "_draw", lambda scene: draw(scene) if scene.number > 1 else 1 / 0)
    job.recorder.show(Scene(1))  # type: ignore[arg-type]
    until(lambda: job.recorder.state().problem)
    job.shown = 1
    job.show()
    assert times(job.recorder.clip(BEGIN_S, job.now + 1)[0])


def test_without_an_encoder_the_job_goes_on_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "available_format", lambda: None)
    job = Job(tmp_path)
    until(lambda: job.notes)
    assert job.recorder.state().problem == NO_ENCODER
    job.recorder.close()


@pytest.mark.parametrize(
    ("spent_s", "took_s", "pause_s"), [(0.001, 0.01, 0.19), (0.03, 0.05, 0.25), (0.03, 1.0, 0.0)], ids=str
)
def test_of_a_core_a_tenth_is_taken_at_most(spent_s: float, took_s: float, pause_s: float) -> None:
    assert pause_after(spent_s, took_s, fps=5, most_of_a_core=0.1) == pytest.approx(pause_s)


def test_a_file_with_another_name_is_no_segment(tmp_path: Path) -> None:
    (tmp_path / "a-b.mp4").write_bytes(b"")
    assert ring(tmp_path).between(0, 1e12) == list[Segment]()
