"""Stages that repeatedly end their processes are paused."""

from __future__ import annotations

from app.edge.circuit_breaker import CircuitBreaker
from app.edge.video.stage_host.errors import StagePaused

ENDED_MOST = 3
"""Processes in a row that a stage may end before it is paused."""
PAUSE_S = 30.0
"""Seconds of that pause."""


class StageBreakers:
    """Pauses a stage that repeatedly ends the processes in which it runs. By a stage's key."""

    def __init__(self, *, errors: int = ENDED_MOST, pause_s: float = PAUSE_S) -> None:
        self._errors, self._pause_s = errors, pause_s
        self._breakers: dict[str, CircuitBreaker] = {}

    def check(self, key: str, now: float) -> None:
        """Checks that the stage may be called.

        Raises:
            StagePaused: It is paused.
        """
        breaker = self._breakers.get(key)
        if breaker is not None and (left_s := breaker.left_s(now)) > 0:
            raise StagePaused(
                f"The stage {key} has ended {breaker.failures} processes in a row and rests for {left_s:.0f} s more.",
                hint="Its log says why. A frame may take timeout_s, a parameter of the stage.",
            )

    def failed(self, key: str, now: float) -> None:
        self._breakers.setdefault(key, CircuitBreaker(errors=self._errors, pause_s=self._pause_s)).failed(now)

    def succeeded(self, key: str) -> None:
        self._breakers.pop(key, None)
