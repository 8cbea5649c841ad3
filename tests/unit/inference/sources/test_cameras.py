"""Cameras of this machine that cannot be used, by devices that behave so: no camera is needed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.edge.video.runner.source_reader import JobSource
from app.inference.errors import SourceUnusable
from app.inference.sources import open_source, open_video_source
from app.inference.sources.facts import facts_of

CAPABILITY_VERSION = 0x20080522
LIBC = ctypes.CDLL(None)


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
