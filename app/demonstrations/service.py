"""The processes of demonstrations, one of each: `modelmill joint demo --at …`, `modelmill video demo --at …`, and
the one that sets up training.

Each is under a subreaper whose lifeline the process that serves the pages holds: none outlives it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.demonstrations.errors import DemonstrationRefused
from app.kit.process.periodic_thread import PeriodicThread
from app.standalone.data_folder import Lock
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
    TRAINING = "training"
    """Sets up a Ray cluster on this machine, on which a task can then be started like any other."""


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
    """The last lines of its output, in English."""
    is_offered: bool = True
    """Whether it can be started here."""


class _Run:
    def __init__(self, process: Process, log: Path) -> None:
        self.process, self.log, self.is_ending = process, log, False

    def state(self) -> DemoState:
        if self.process.is_running():
            return DemoState.ENDING if self.is_ending else DemoState.RUNNING
        is_stopped = self.is_ending and self.process.returncode == -signal.SIGTERM  # before it could handle the signal
        return DemoState.FAILED if self.process.returncode and not is_stopped else DemoState.OFF


class Demonstrations:
    """May be used by several threads."""

    def __init__(
        self, folder: Path, *, is_offered: bool, run: Path | None = None, announce: Callable[[], None] = lambda: None
    ) -> None:
        """
        Args:
            folder: of the logs; made when the first starts.
            is_offered: not if accounts are required, since nodes then cannot join by themselves.
            run: the folder of the running stack, if it can start a Ray cluster: `modelmill up` without one.
            announce: tells open pages that one has new output, or has ended.
        """
        self.is_offered = is_offered
        self._folder = folder
        self._run = run
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
        self._require_offer(name)
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
            return [self._build_view(name) for name in DemoName]

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
        part = Part(f"demo-{name}", (sys.executable, "-m", *self._name_module(name, url)))
        process = Command(
            part, log=log, environment=_build_environment(os.environ), lifeline=self._lifeline[0], folder=CODE
        )
        return _Run(process, log)

    def _name_module(self, name: DemoName, url: str) -> tuple[str, ...]:
        if name is DemoName.TRAINING:
            return ("app.standalone.training_setup", str(self._run))
        installs = ("--install",) if name is DemoName.VIDEO else ()
        return ("app.cli.main", name.value, "demo", "--at", url, *installs)

    def _require_offer(self, name: DemoName) -> None:
        if not self.is_offered:
            hint = f"Run `modelmill {name} demo`, which starts a Modelmill of its own."
            raise DemonstrationRefused(
                "This installation has accounts, so no node joins it by itself.",
                hint="" if name is DemoName.TRAINING else hint,
            )
        if not self.offers(name):
            raise DemonstrationRefused(
                "This installation cannot start a Ray cluster by itself, or has one already.",
                hint="`modelmill up --train` starts one.",
            )

    def offers(self, name: DemoName) -> bool:
        """Whether it can be started here."""
        return self.is_offered and (
            name is not DemoName.TRAINING or (self._run is not None and Lock.owner(self._run) is not None)
        )

    def _look(self) -> None:
        views = self.views()
        if views != self._last:
            self._last = views
            self._announce()

    def _build_view(self, name: DemoName) -> DemoView:
        run = self._runs.get(name)
        if run is None:
            return DemoView(name, DemoState.OFF, is_offered=self.offers(name))
        state = run.state()
        lines = () if state is DemoState.OFF else tuple(tail(run.log, LINES).splitlines())
        return DemoView(name, state, lines, self.offers(name))


def _build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in environment.items() if not name.startswith(OWN)}
    return own | {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}
