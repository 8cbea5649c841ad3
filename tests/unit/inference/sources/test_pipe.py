"""Videos that another program writes into a named pipe."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from app.inference.errors import SourceUnusable
from app.inference.sources import video as video_source
from app.inference.sources.factory import is_live, open_video_source
from app.inference.sources.facts import SourceFacts, facts_of
from app.inference.sources.frames import LazyFrame
from tests.harness.written_video import writing


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "door")
    return tmp_path / "door"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_source, "TIMEOUT_S", 0.3)


def frames_of(pipe: Path) -> list[LazyFrame]:
    with closing(open_video_source(str(pipe))[0].frames()) as frames:
        return list(frames)


def test_it_is_read_until_its_writer_ends_and_then_by_the_next_one(pipe: Path) -> None:
    assert is_live(str(pipe))
    for _ in range(2):
        with writing(pipe, 10):
            *frames, end = frames_of(pipe)
        assert [frame.read().shape for frame in frames if frame.read is not None] == [(48, 64, 3)] * 10
        assert (end.read, end.is_cut, end.reason) == (None, True, "the other side has ended the stream")


def test_one_into_which_nobody_writes_is_not_waited_for_without_an_end(pipe: Path) -> None:
    with pytest.raises(SourceUnusable, match=r"door cannot be opened as a video: it gave no picture for 0\.3 s"):
        frames_of(pipe)


def test_a_writer_that_falls_silent_is_told(pipe: Path) -> None:
    """As a stream of the network whose host hangs."""
    held = os.open(pipe, os.O_RDWR)
    with writing(pipe, 50):
        pass  # the pipe holds all of it, so that only what comes behind it is silence
    *frames, end = frames_of(pipe)
    os.close(held)
    assert len(frames) > 25
    assert (end.is_cut, end.reason) == (True, "it gave no picture for 0.3 s")


def test_its_facts_are_not_read_from_it(pipe: Path) -> None:
    assert facts_of(str(pipe)) == SourceFacts(is_live=True)
