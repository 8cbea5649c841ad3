"""The job record, its statuses and the one transition table. Pure: no clock, no Redis, no framework."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """The three steps, in their only order. Values are the requirement's words for `stage` and `status`."""

    ONNX = "ONNX"
    BIE = "BIE"
    NEF = "NEF"

    @property
    def step(self) -> str:
        """The word the done message and the queues use."""
        return self.value.lower()
