"""Streams of other kinds than RTSP and HTTP, and cameras of this machine: read, or refused with the reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import av
import numpy as np
import pytest

from app.inference.errors import SourceUnusable
from app.inference.sources import open_video_source
from app.inference.sources.factory import is_live
from tests.harness.ports import free_port

RATE = 24


@pytest.fixture
def sender() -> Iterator[str]:
    """The URL to which somebody sends MPEG-TS by UDP, whether it is read or not."""
    url, ends = f"udp://127.0.0.1:{free_port()}", threading.Event()

    def send() -> None:
        with av.open(f"{url}?pkt_size=1316", "w", format="mpegts") as container:
            stream = container.add_stream("mpeg2video", rate=RATE)
            stream.width, stream.height, stream.pix_fmt, stream.gop_size = 320, 180, "yuv420p", 6
            number = 0
            while not ends.wait(1 / RATE):
                picture = np.full((180, 320, 3), number % 250, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
                number += 1

    thread = threading.Thread(target=send)
    thread.start()
    yield url
    ends.set()
    thread.join()


def refusal(source: str) -> str:
    video, _, _ = open_video_source(source)
    with pytest.raises(SourceUnusable) as refused:
        next(video.frames())
    return refused.value.message


def test_a_stream_by_udp_is_read_from_where_it_is(sender: str) -> None:
    video, name, live = open_video_source(sender)
    with closing(video.frames()) as frames:
        shapes = [frame.read().shape for frame in islice(frames, 60) if frame.read is not None]
    assert live and name == sender
    assert len(shapes) > 8 and set(shapes) == {(180, 320, 3)}


def test_a_server_of_rtmp_that_is_not_there_is_named() -> None:
    url = f"rtmp://ann:secret@127.0.0.1:{free_port()}/live/camera"
    assert "nothing listens at its host and port" in refusal(url) and "secret" not in refusal(url)


def test_a_device_that_is_no_camera_is_refused_and_a_camera_is_live() -> None:
    assert refusal("/dev/null") == "null cannot be opened as a video: it is no camera"
    assert is_live("/dev/null") and is_live("udp://127.0.0.1:9")
    assert not is_live("/") and not is_live("/none.mp4")
