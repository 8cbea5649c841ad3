"""A thread that takes the newest scene at its own pace: it never delays a frame, and takes at most a share of
a core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from app.inference.prediction import Picture

SMOOTHED = 0.05


class Scene(Protocol):
    """What can be drawn."""

    @property
    def number(self) -> int:
        """Returns the number of its frame."""


S = TypeVar("S", bound=Scene)


class SceneThread:
    """A thread that does something with the newest scene, and is woken when there is a newer one."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        raise NotImplementedError


class PacedThread(SceneThread, Generic[S]):
    """Takes scenes, for subclasses that say how."""

    FAILING: ClassVar[str]
    """What a problem prevents, as the job's events have it."""
    WORKS_AGAIN: ClassVar[str]

    def __init__(
        self,
        name: str,
        draw: Callable[[S], Picture],
        note: Callable[[str], None],
        *,
        fps: float,
        most_of_a_core: float,
        again_s: float | None = None,
        owner: str = "job",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            name: of the thread.
            draw: returns the picture of a scene.
            note: called with the begin and the end of a problem, for the job's events.
            fps: the most scenes per second.
            most_of_a_core: the share of a core above which there are fewer.
            owner: what goes on when there is a problem.
            again_s: seconds without a new scene after which the last one is taken again; None: it is not.
            clock: seconds, for the time of a scene.
        """
        super().__init__(name)
        self._draw, self._note, self._owner = draw, note, owner
        self._problem, self._is_failing = "", False
        self._fps, self._most, self._again_s, self._clock = fps, most_of_a_core, again_s, clock
        self._share = 0.0
        """The share of a core that it takes."""
        self._newest: tuple[S, float] | None = None
        self._last: S | None = None

    def show(self, scene: S) -> None:
        """Offers a scene, and returns at once."""
        with self._changed:
            self._newest = scene, self._clock()
            self._changed.notify_all()

    def _take(self, scene: S, at_s: float) -> float:
        """Takes a scene of this time. Returns the seconds of computation that it has caused in other processes; raises
        nothing."""
        raise NotImplementedError

    def _fail(self, problem: str) -> None:
        if not self._is_failing or problem != self._problem:
            self._problem, self._is_failing = problem, True
            self._note(f"{self.FAILING}: {problem}. The {self._owner} goes on.")

    def _recover(self) -> None:
        if self._is_failing:
            self._is_failing = False
            self._note(self.WORKS_AGAIN)

    def _run(self) -> None:
        while (newest := self._next()) is not None:
            began_s, spent_s = time.monotonic(), time.thread_time()
            spent_s = self._take(*newest) + time.thread_time() - spent_s
            pause_s = pause_after(spent_s, time.monotonic() - began_s, self._fps, self._most)
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, timeout=pause_s)
            self._share += SMOOTHED * (spent_s / (time.monotonic() - began_s) - self._share)

    def _next(self) -> tuple[S, float] | None:
        """Waits for a scene. None: it is over."""
        with self._changed:
            timeout_s = self._again_s if self._last is not None else None
            self._changed.wait_for(lambda: self._is_over or self._newest is not None, timeout=timeout_s)
            if self._is_over:
                return None
            if self._newest is None and self._last is not None:
                return self._last, self._clock()
            newest, self._newest = self._newest, None
            self._last = newest[0] if newest is not None and self._again_s is not None else None
            return newest


def pause_after(spent_s: float, took_s: float, fps: float, most_of_a_core: float) -> float:
    """Returns the seconds before the next frame.

    Args:
        spent_s: computing time of this frame.
        took_s: seconds since its begin.
        fps: the most frames per second.
        most_of_a_core: the most of a core that may be spent.
    """
    return max(0.0, max(1 / fps, spent_s / most_of_a_core) - took_s)
