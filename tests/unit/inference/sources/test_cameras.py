"""Cameras of this machine that cannot be used, by devices that behave so: no camera is needed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import termios
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path

import pytest

from app.edge.video.runner.source_reader import JobSource
from app.inference.errors import SourceUnusable
from app.inference.sources import open_source, open_video_source, video
from app.inference.sources.facts import facts_of
from tests.harness.until import until
from tests.harness.written_video import writing

CAPABILITY_VERSION = 0x20080522
LIBC = ctypes.CDLL(None)
PIPE_BYTES = 1 << 20
"""More than is written, so that nobody has to wait for its reader."""


def problem_of(source: str) -> str:
    with pytest.raises(SourceUnusable) as caught:
        next(open_source(source))
    return caught.value.message


def problem_without_rights(source: str) -> str:
    """In a thread without the capabilities of root, such as reading any file; other threads keep theirs."""
    problems = list[str]()

    def run() -> None:
        assert LIBC.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()) == 0
        problems.append(problem_of(source))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return problems[0]


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A device that is there, and no camera: its descriptor and path."""
    own, other = pty.openpty()
    yield other, os.ttyname(other)
    os.close(own)
    os.close(other)


@pytest.mark.parametrize("path", ["/dev/video99", "/dev/v4l/by-id/usb-none-video-index0"])
def test_one_that_is_unplugged_is_waited_for_as_every_camera(path: str) -> None:
    assert JobSource(path).is_live
    with pytest.raises(SourceUnusable, match="there is no source"):
        open_video_source(path)
    assert facts_of(path).problem == f"there is no source {path!r} on this node"


def test_a_device_that_is_no_camera_is_said(terminal: tuple[int, str]) -> None:
    path = terminal[1]
    assert problem_of(path) == f"{Path(path).name} cannot be opened as a video: it is no camera"


def test_one_that_the_agents_user_may_not_open_is_said(terminal: tuple[int, str]) -> None:
    Path(terminal[1]).chmod(0)
    problem = problem_without_rights(terminal[1])
    assert problem.endswith(": the user that the agent runs as may not open it; cameras belong to the group video")


def test_a_file_and_a_pipe_that_the_agents_user_may_not_open_are_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "film.mp4").write_bytes(b"film")
    for path in (tmp_path / "pipe", tmp_path / "film.mp4"):
        path.chmod(0)
        assert "the user that the agent runs as may not open it" in problem_without_rights(str(path))


def test_one_that_another_program_has_open_is_said(terminal: tuple[int, str]) -> None:
    """As a terminal that is opened exclusively, which holds for all but root."""
    descriptor, path = terminal
    Path(path).chmod(0o666)
    fcntl.ioctl(descriptor, termios.TIOCEXCL)
    assert problem_without_rights(path).endswith(": another program has the camera open")


class SilentCamera:
    """A pipe that FFmpeg reads itself stands in, since its reader waits in the kernel as that of a camera does."""

    def __init__(self, door: Path) -> None:
        os.mkfifo(door)
        self._door, self._held = door, os.open(door, os.O_RDWR)
        fcntl.fcntl(self._held, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._source = video.Video(str(door), "door", live=True)

    def read(self) -> list[str]:
        """Reasons why there is no further picture, after all of them; or why it cannot be opened."""
        try:
            with closing(self._source.frames()) as frames:
                return [frame.reason for frame in frames if frame.read is None]
        except SourceUnusable as error:
            return [error.message]

    def fill(self) -> AbstractContextManager[None]:
        """Somebody gives pictures, and is silent then."""
        return writing(self._door, 200)

    def end(self) -> None:
        os.close(self._held)


@pytest.mark.slow
def test_one_that_falls_silent_in_the_kernel_is_told_and_read_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(video, "CAMERA", "mpegts")
    monkeypatch.setattr(Path, "is_fifo", lambda _: False)
    silence = "it gave no picture for 0.5 s"
    numbers = count()

    def watch() -> SilentCamera | None:
        camera = SilentCamera(tmp_path / f"door{next(numbers)}")
        with camera.fill():
            if camera.read() == [silence]:
                return camera
        camera.end()  # the machine was too busy to open it in this time
        return None

    camera = until(watch)
    assert camera.read() == [f"door cannot be opened as a video: {silence}"]

    def read_anew() -> list[str]:
        with camera.fill():
            return camera.read()

    until(read_anew, [silence].__eq__)
    camera.end()
