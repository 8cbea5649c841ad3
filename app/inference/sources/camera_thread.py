"""Reads a camera of this machine in a thread of its own: one that gives nothing, such as a grabber without a signal,
keeps its reader in the kernel, where no timeout of FFmpeg reaches it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress

from app.inference.sources.frames import LazyFrame

Read = Callable[[], Generator[LazyFrame, None, None]]
Frames = queue.Queue[LazyFrame | BaseException | None]
"""The next frame, why there is none, or None at the end."""

_kept = dict[str, threading.Thread]()
"""Threads that are still in the kernel, by their camera, which nobody else can open until they are back."""


class CameraSilent(Exception):
    """The camera has given nothing for so long."""


def read_camera(place: str, read: Read, patience_s: float) -> Generator[LazyFrame, None, None]:
    """Yields what `read` does, in a thread.

    Args:
        place: of the camera.
        read: opens it, and yields its frames.
        patience_s: seconds for each of them.

    Raises:
        CameraSilent: It gives none.
    """
    if (kept := _kept.get(place)) is not None:
        kept.join(patience_s)
        if kept.is_alive():
            raise CameraSilent
    frames, is_over = Frames(1), threading.Event()
    _kept[place] = thread = threading.Thread(target=_pump, args=(read, frames, is_over), daemon=True)
    thread.start()
    is_silent = False
    try:
        while (frame := frames.get(timeout=patience_s)) is not None:
            if isinstance(frame, BaseException):
                raise frame
            yield frame
    except queue.Empty:
        is_silent = True
        raise CameraSilent from None
    finally:
        is_over.set()
        with suppress(queue.Empty):
            frames.get_nowait()  # so that the thread, which may wait to add one more, sees that it is over
        if not is_silent:
            thread.join(patience_s)


def _pump(read: Read, frames: Frames, is_over: threading.Event) -> None:
    try:
        with closing(read()) as every:
            for frame in every:
                frames.put(frame)
                if is_over.is_set():
                    return
        frames.put(None)
    except BaseException as error:  # noqa: BLE001  # it is raised where the frames are awaited
        frames.put(error)
