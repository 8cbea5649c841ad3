"""A stage that ends the processes it runs in again and again rests for a while. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.edge.video.stage_host.errors import StagePaused

ENDED_MOST = 3
"""In a row."""
PAUSE_S = 30.0


@dataclass
class _Record:
    ended: int = 0
    until: float = 0.0


class CircuitBreaker:
    """By a stage's key. After its rest a stage is on trial: the first process that it ends makes it rest again."""

    def __init__(self, most: int = ENDED_MOST, pause_s: float = PAUSE_S) -> None:
        self._most = most
        self._pause_s = pause_s
        self._records: dict[str, _Record] = {}

    def check(self, key: str, now: float) -> None:
        """now: seconds of a clock that never goes back. Raises StagePaused."""
        record = self._records.get(key)
        if record is not None and now < record.until:
            raise StagePaused(
                f"The stage {key} has ended {record.ended} processes in a row and rests for "
                f"{record.until - now:.0f} s more.",
                hint="Its log says why. A frame may take timeout_s, a parameter of the stage.",
            )

    def ended(self, key: str, now: float) -> None:
        record = self._records.setdefault(key, _Record())
        record.ended += 1
        if record.ended >= self._most:
            record.until = now + self._pause_s

    def went_well(self, key: str) -> None:
        self._records.pop(key, None)

    def paused(self, now: float) -> list[str]:
        return sorted(key for key, record in self._records.items() if now < record.until)
