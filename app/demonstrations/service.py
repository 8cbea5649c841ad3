"""The processes of demonstrations: `modelmill joint demo --at …` and `modelmill video demo --at …`, one of each.

Each hangs on a leash of the process that serves the pages: none outlives it, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.demonstrations.errors import DemonstrationRefused
from app.kit.process.periodic_thread import PeriodicThread
from app.standalone.nodes import CODE
from app.standalone.process import Command, Part, Process, tail

LINES = 6
CHANNEL = "demonstrations"
"""Under which changes are announced to open pages."""
LOOK_S = 0.5
"""Between two looks at what demonstrations say, as long as one runs."""
OWN = "MODELMILL_"
"""Settings of the product are none of the demonstration, which talks to it as any program does."""


class DemoName(StrEnum):
    JOINT = "joint"
    VIDEO = "video"


class DemoState(StrEnum):
    OFF = "off"
    RUNNING = "running"
    ENDING = "ending"
    """It removes what it has made."""
    FAILED = "failed"


@dataclass(frozen=True)
class DemoView:
    """How a demonstration is."""

    name: DemoName
    state: DemoState
    lines: tuple[str, ...] = ()
    """The last that it has said, in English."""


class _Run:
    def __init__(self, process: Process, log: Path) -> None:
        self.process, self.log, self.is_ending = process, log, False

    def state(self) -> DemoState:
        if self.process.is_running():
            return DemoState.ENDING if self.is_ending else DemoState.RUNNING
        return DemoState.FAILED if self.process.returncode else DemoState.OFF


class Demonstrations:
    """May be used by several threads."""

    def __init__(self, folder: Path, *, is_offered: bool, announce: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            folder: Of the logs; made when the first starts.
            is_offered: Where accounts are demanded it is not: nodes join by themselves only where they are not.
            announce: Tells open pages that one has said something, or has ended.
        """
        self.is_offered = is_offered
        self._folder = folder
        self._announce = announce
        self._looking: PeriodicThread | None = None
        self._last: list[DemoView] = []
        self._lock = threading.Lock()
        self._runs: dict[DemoName, _Run] = {}
        self._lifeline: tuple[int, int] | None = None

    def start(self, name: DemoName, url: str) -> None:
        """Begin it, unless it runs.

        Args:
            url: Of the product, on this machine.

        Raises:
            DemonstrationRefused: Demonstrations are not offered here.
        """
        if not self.is_offered:
            raise DemonstrationRefused(
                "This installation has accounts, so no node joins it by itself.",
                hint=f"Run `modelmill {name} demo`, which starts a Modelmill of its own.",
            )
        with self._lock:
            run = self._runs.get(name)
            if run is None or not run.process.is_running():
                self._runs[name] = self._launch(name, url)

    def stop(self, name: DemoName) -> None:
        """Have it remove what it has made and end. One that does not run stays as it is."""
        with self._lock:
            run = self._runs.get(name)
            if run is not None and not run.is_ending:
                run.is_ending = True
                run.process.ask_to_stop()

    def views(self) -> list[DemoView]:
        with self._lock:
            return [self._view(name) for name in DemoName]

    def close(self) -> None:
        """End all of them, whatever they were doing."""
        if self._looking is not None:
            self._looking.close()
        with self._lock:
            for run in self._runs.values():
                run.process.kill()
            self._runs.clear()
            for descriptor in self._lifeline or ():
                os.close(descriptor)
            self._lifeline = None

    def _launch(self, name: DemoName, url: str) -> _Run:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lifeline is None:
            self._lifeline = os.pipe2(os.O_CLOEXEC)
            self._looking = PeriodicThread("demonstrations", self._look, every_s=LOOK_S)
            self._looking.start()
        log = self._folder / f"demo-{name}.log"
        with contextlib.suppress(FileNotFoundError):
            log.unlink()
        part = Part(f"demo-{name}", (sys.executable, "-m", "app.cli.main", name.value, "demo", "--at", url))
        process = Command(part, log=log, environment=_environment(os.environ), lifeline=self._lifeline[0], folder=CODE)
        return _Run(process, log)

    def _look(self) -> None:
        views = self.views()
        if views != self._last:
            self._last = views
            self._announce()

    def _view(self, name: DemoName) -> DemoView:
        run = self._runs.get(name)
        if run is None:
            return DemoView(name, DemoState.OFF)
        state = run.state()
        lines = () if state is DemoState.OFF else tuple(tail(run.log, LINES).splitlines())
        return DemoView(name, state, lines)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in environment.items() if not name.startswith(OWN)}
    return own | {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}
