"""The progress of a vendor run: it has no callback, so progress is derived from known log lines and time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

from app.conversion.model import Stage
from app.conversion.toolchains.base import Progress

Phase = tuple[re.Pattern[str], float, str]
MARK = r"^\[modelmill\] phase "
REPORT_EVERY_S = 2.0
CREEP_S = {Stage.ONNX: 60.0, Stage.BIE: 900.0, Stage.NEF: 180.0}
"""Seconds after which a phase shows 63 % of the way to the next one; stage times are not documented."""


def _make_phase(pattern: str, fraction: float, message: str) -> Phase:
    return re.compile(pattern, re.IGNORECASE), fraction, message


WAITING = _make_phase(r"^waiting for another Kneron conversion", 0.0, "waiting for another conversion on this machine")
START = _make_phase(MARK + "import", 0.10, "starting the toolchain")
PHASES: dict[Stage, tuple[Phase, ...]] = {
    Stage.ONNX: (
        WAITING,
        START,
        _make_phase(MARK + "optimize", 0.2, "optimizing the graph"),
        _make_phase(MARK + "evaluate", 0.6, "estimating the speed on the chip"),
    ),
    Stage.BIE: (
        WAITING,
        START,
        _make_phase(MARK + "analysis", 0.2, "quantizing"),
        _make_phase(r"\bknerex\b", 0.35, "quantizing: value ranges"),
        _make_phase(r"\bdynasty\b", 0.6, "quantizing: fixed-point check"),
        _make_phase(r"\bcompiler frontend\b", 0.8, "quantizing: compiling for the report"),
        _make_phase(r"general/Success", 0.9, "quantizing: done"),
    ),
    Stage.NEF: (
        WAITING,
        START,
        _make_phase(MARK + "compile", 0.2, "compiling"),
        _make_phase(r"\bcompiler frontend\b", 0.5, "compiling: scheduling"),
        _make_phase(r"\bgen_nef\b", 0.8, "compiling: writing the NEF"),
    ),
}


class PhaseClock:
    """Turns log lines and ticks into progress that never goes back.

    Args:
        clock: Seconds, for tests.
    """

    def __init__(self, stage: Stage, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._phases, self._creep_s = PHASES[stage], CREEP_S[stage]
        self._progress, self._clock = progress, clock
        self._index = -1
        self._began = self._reported_at = clock()

    def watch(self, line: str | None) -> None:
        now = self._clock()
        if line is not None:
            for index in range(self._index + 1, len(self._phases)):
                if self._phases[index][0].search(line):
                    self._index, self._began, self._reported_at = index, now, now
                    self._progress(self._phases[index][1], self._phases[index][2])
                    return
        if self._index >= 0 and now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            self._progress(self._estimate_fraction(now), self._phases[self._index][2])

    def _estimate_fraction(self, now: float) -> float:
        low = self._phases[self._index][1]
        following = self._index + 1
        high = self._phases[following][1] if following < len(self._phases) else 0.98
        return low + (high - low) * (1 - math.exp(-(now - self._began) / self._creep_s)) * 0.98
