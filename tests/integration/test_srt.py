"""Streams by SRT, from FFmpeg's own program."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from app.inference.errors import DecoderMissing, SourceUnusable
from app.inference.sources import open_video_source, srt
from app.inference.sources.facts import facts_of
from app.inference.sources.srt import require_libsrt
from tests.harness.ffmpeg_server import SOUND, FfmpegServer
from tests.harness.ports import free_port
from tests.harness.until import until

LIMIT = "app.inference.sources.video.TIMEOUT_S"
PASSPHRASE = "hunter2hunter2"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        require_libsrt("the stream")
    except DecoderMissing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's libsrt1.5-gnutls is not installed")
    monkeypatch.setattr(LIMIT, 120.0)
    monkeypatch.setattr(srt, "CONNECT_S", 120.0)


def problem_of(source: str) -> str:
    """Why it cannot be opened, without what every reason begins with."""
    video, name, _ = open_video_source(source)
    with closing(video.frames()) as frames, pytest.raises(SourceUnusable) as caught:
        next(frames)
    assert PASSPHRASE not in caught.value.message
    return caught.value.message.removeprefix(f"{name} cannot be opened as a video: ")


def test_a_stream_with_a_passphrase_is_refused_to_who_lacks_it() -> None:
    with FfmpegServer("srt") as server:
        server.start(f"?mode=listener&passphrase={PASSPHRASE}")
        assert problem_of(server.url) == srt.REASONS[11]
        assert problem_of(f"{server.url}?passphrase={PASSPHRASE}x") == "its URL has a wrong passphrase"


def test_a_stream_is_read_until_it_ends_and_then_anew() -> None:
    def read() -> list[tuple[bool, str]]:
        """How its first and its last frame are; FFmpeg leaves a reader that has no processor for five seconds."""
        server.start(f"?mode=listener&passphrase={PASSPHRASE}")
        with closing(video.frames()) as frames:
            try:
                first = next(frames)
                server.end()
                *_, last = frames
            except SourceUnusable:
                return []
        return [(first.read is not None, first.reason), (last.read is not None, last.reason)]

    with FfmpegServer("srt") as server:
        video, name, is_live = open_video_source(f"{server.url}?passphrase={PASSPHRASE}&streamid=door&latency=50")
        assert is_live and name == server.url
        for _ in range(2):
            until(read, [(True, ""), (False, "the other side has ended the stream")].__eq__)


def test_a_sender_that_calls_is_waited_for() -> None:
    def read() -> bool:
        sender.start("?mode=caller&connect_timeout=120000")
        with closing(open_video_source(f"{sender.url}?mode=listener")[0].frames()) as frames, suppress(SourceUnusable):
            return next(frames).read is not None
        return False

    with FfmpegServer("srt") as sender:
        until(read)


def test_one_that_gives_only_sound_is_said() -> None:
    with FfmpegServer("srt", SOUND) as server:
        server.start()
        assert problem_of(server.url).endswith("has no picture in it, only sound")


def test_what_is_wrong_with_an_address_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srt, "CONNECT_S", 0.5)
    at = f"srt://127.0.0.1:{free_port()}"
    problems = {
        at: "nothing answers at its host and port",
        "srt://camera.invalid:9000": "its host is not known",
        "srt://127.0.0.1": "its URL has no port",
        f"{at}?mode=rendezvous": "its mode has to be caller or listener",
        f"{at}?latency=200000": "its latency has to be in milliseconds, at most 10,000",
        f"{at}?passphrase=short": "its passphrase has to have 10 to 79 bytes",
        f"{at}?streamid={'x' * 513}": "its streamid has to have at most 512 bytes",
        f"{at}?streamid=#!::r=door": "its URL has a #, which is written %23 there",
        f"srt://192.0.2.1:{free_port()}?mode=listener": "this node has no such address to receive at",
    }
    with ThreadPoolExecutor() as pool:
        assert dict(zip(problems, pool.map(problem_of, problems), strict=True)) == problems
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        taken = f"srt://127.0.0.1:{other.getsockname()[1]}?mode=listener"
        assert problem_of(taken) == "another program of this node receives at its port"


def test_a_sender_that_says_nothing_or_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMIT, 1.0)
    at = f"srt://127.0.0.1:{free_port()}"
    assert problem_of(f"{at}?mode=listener") == "it gave no picture for 1 s"
    with ThreadPoolExecutor() as pool:  # two readers, of whom nobody sends
        assert set(pool.map(problem_of, [f"{at}?mode=listener", at])) == {"it gave no picture for 1 s"}


def test_without_the_library_it_is_said_before_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srt, "_load", lambda: None)
    assert facts_of("srt://127.0.0.1:9").problem.startswith(
        "srt://127.0.0.1:9 comes by SRT, and this node has no libsrt"
    )
