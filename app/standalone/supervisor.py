"""Keeps parts running: starts them, restarts those that ended unexpectedly with growing pauses, and stops all of
them."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from app.kit.backoff import GrowingPause
from app.standalone.data_folder import DataFolder
from app.standalone.process import Command, Parent, Part, Process

PAUSE = GrowingPause(0.1, 10.0)
SETTLED_S = 20.0
"""After a part has run this long, in seconds, its restart is almost immediate."""
POLL_S = 0.02
KILL_S = 5.0
"""Seconds for a subreaper to kill everything below it."""

Notice = Callable[[str], None]


class Watched:
    """A part and its current process. Only the supervisor's thread, or `stop`, uses it."""

    def __init__(self, part: Part, log: Path) -> None:
        self.part = part
        self.log = log
        self.process: Process | None = None
        self.started_at = 0.0
        self.due_at = 0.0
        self.pause_s = PAUSE.first_s
        self.failures = 0
        """Consecutive ends before it had run for SETTLED_S."""


class Supervisor:
    """Keeps parts running.

    Args:
        folder: of logs.
        environment: returns a part's environment.
        cwd: where parts start.
        notice: called with a sentence whenever a part ended and is started again.
        parent: the process from which parts that are calls are forked.
    """

    def __init__(
        self,
        folder: DataFolder,
        environment: Callable[[Part], Mapping[str, str]],
        *,
        cwd: Path,
        notice: Notice,
        parent: Parent | None = None,
    ) -> None:
        self._parent = parent
        self._folder = folder
        self._environment = environment
        self._cwd = cwd
        self._notice = notice
        self._lifeline, self._lifeline_end = os.pipe2(os.O_CLOEXEC)
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._is_stopping = False
        self._is_urgent = threading.Event()
        self.watched: dict[str, Watched] = {}

    def start(self, parts: list[Part]) -> None:
        """Start parts, all at once. Can be called again with more."""
        with self._lock:
            for part in parts:
                watched = Watched(part, self._folder.new_log(part.name))
                self.watched[part.name] = watched
                self._launch(watched)
        os.write(self._wake, b".")
        if not self._thread.is_alive():
            self._thread.start()

    def replace(self, parts: list[Part], grace_s: float) -> None:
        """Stop those of these parts that run, then start all of them.

        Args:
            grace_s: seconds that they may take to stop.
        """
        names = {part.name for part in parts}
        with self._lock:
            running = [w.process for name, w in self.watched.items() if name in names and w.process is not None]
            self._end(running, grace_s)
            for name in names:
                self.watched.pop(name, None)
        self.start(parts)

    def pids(self) -> dict[str, int]:
        """Returns the pid of each running part's subreaper, which leads its process group."""
        return {name: watched.process.pid for name, watched in self.watched.items() if watched.process is not None}

    def stop(self, grace_s: float) -> None:
        """Sends SIGTERM to all; after the grace, ends everything below them. Returns when nothing is left."""
        self._is_stopping = True
        os.write(self._wake, b".")
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            running = [watched for watched in self.watched.values() if watched.process is not None]
            self._end([w.process for w in running if not w.part.is_last and w.process], grace_s)
            self._end([w.process for w in running if w.part.is_last and w.process], grace_s)
            self.watched.clear()
        if self._parent is not None:
            self._parent.close()
        for descriptor in (self._lifeline, self._lifeline_end, self._woken, self._wake):
            os.close(descriptor)

    def hurry(self) -> None:
        """Ends the grace at once. May be called from a signal handler."""
        self._is_urgent.set()

    def _end(self, processes: list[Process], grace_s: float) -> None:
        for process in processes:
            process.ask_to_stop()
        self._wait(processes, grace_s, self._is_urgent)
        for process in processes:
            process.ask_to_stop()
        self._wait(processes, KILL_S, threading.Event())
        for process in processes:
            process.kill()

    @staticmethod
    def _wait(processes: list[Process], timeout_s: float, is_urgent: threading.Event) -> None:
        deadline = time.monotonic() + timeout_s
        while any(process.is_running() for process in processes) and time.monotonic() < deadline:
            if is_urgent.wait(POLL_S):
                return

    def _launch(self, watched: Watched) -> None:
        watched.started_at = time.monotonic()
        part, environment = watched.part, self._environment(watched.part)
        if part.call is not None and self._parent is not None:
            watched.process = self._parent.fork(
                part, part.call, log=watched.log, environment=environment, lifeline=self._lifeline
            )
        else:
            watched.process = Command(
                part, log=watched.log, environment=environment, lifeline=self._lifeline, folder=self._cwd
            )

    def _run(self) -> None:
        while not self._is_stopping:
            with self._lock:
                pause_s = self._look()
                ends = [w.process.pidfd for w in self.watched.values() if w.process is not None]
            try:
                readable = select.select([*ends, self._woken], [], [], pause_s)[0]
            except OSError:  # `replace` has just ended one of them, and closed its descriptor
                continue
            if self._woken in readable:
                os.read(self._woken, 64)

    def _look(self) -> float | None:
        """Restarts what is due.

        Returns:
            Seconds until the next restart; None if there is none.
        """
        now = time.monotonic()
        for watched in self.watched.values():
            if watched.process is not None and not watched.process.is_running():
                self._handle_end(watched, now)
            if watched.process is None and now >= watched.due_at:
                with contextlib.suppress(OSError):  # no memory or process available: try again after the pause
                    self._launch(watched)
        due = [watched.due_at - now for watched in self.watched.values() if watched.process is None]
        return max(0.01, min(due)) if due else None

    def _handle_end(self, watched: Watched, now: float) -> None:
        code = watched.process.returncode if watched.process else None
        has_settled = now - watched.started_at > SETTLED_S
        watched.process = None
        watched.failures = 0 if has_settled else watched.failures + 1
        watched.pause_s = PAUSE.after(0.0 if has_settled else watched.pause_s)
        watched.due_at = now + watched.pause_s
        self._notice(f"{watched.part.name} ended unexpectedly (exit code {code}); it is started again")
