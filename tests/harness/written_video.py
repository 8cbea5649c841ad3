"""A video that another program writes into a named pipe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import numpy as np


@contextmanager
def writing(pipe: Path, count: int) -> Iterator[None]:
    """Another program, which writes so many frames as MPEG-TS and ends."""

    def write() -> None:
        with pipe.open("wb") as file, av.open(file, "w", format="mpegts") as container:
            stream = container.add_stream("mpeg2video", rate=25)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            for number in range(count):
                picture = np.full((48, 64, 3), number, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode(None))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join()
