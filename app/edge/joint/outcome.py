"""What becomes of one sample: the edge's answer at once, the final one when it is known."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from app.inference.prediction import Picture, Prediction
from app.joint_inference.hard_examples import Verdict
from app.joint_inference.model.tally import Source


@dataclass(frozen=True)
class Outcome:
    """final: what counts; source: whose answer that is. cloud_ms: from the queue to the answer. error: why the cloud's
    answer is missing; empty when it was not asked or when it answered."""

    id: str
    source: Source
    final: Prediction
    verdict: Verdict
    edge: Prediction | None
    cloud: Prediction | None = None
    edge_ms: float = 0.0
    cloud_ms: float | None = None
    bytes_up: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "source": self.source.value,
            "final": self.final.to_json(),
            "is_hard": self.verdict.is_hard,
            "why": self.verdict.why,
            "score": round(self.verdict.score, 5),
            "edge": self.edge.to_json() if self.edge else None,
            "cloud": self.cloud.to_json() if self.cloud else None,
            "edge_ms": round(self.edge_ms, 3),
            "cloud_ms": round(self.cloud_ms, 3) if self.cloud_ms else self.cloud_ms,
            "bytes_up": self.bytes_up,
            "error": self.error,
        }


class Pending:
    """edge: known as soon as this exists, but in mining-then-inference, where a hard sample has none yet.

    is_final, wait: whether and until the outcome is known. It is settled once, whoever comes first.
    """

    def __init__(
        self,
        id: str,
        picture: Picture,
        verdict: Verdict,
        edge: Prediction | None,
        *,
        edge_ms: float,
        at: float,
        origin: str = "",
        waits: bool = False,
    ) -> None:
        self.id = id
        self.picture = picture
        self.verdict = verdict
        self.edge = edge
        self.edge_ms = edge_ms
        self.at = at
        """When it was found hard: seconds of time.monotonic()."""
        self.origin = origin
        self.waits = waits
        """Nobody needs it soon: its deadline begins when it is sent, and it leaves its place to no other."""
        self.bytes_up = 0
        self._taken = threading.Lock()
        self._open = threading.Lock()
        """Held until it is settled: a tenth of the time that an Event takes, for each of the easy samples."""
        self._open.acquire()
        self._outcome: Outcome | None = None

    @property
    def is_final(self) -> bool:
        return self._outcome is not None

    @property
    def outcome(self) -> Outcome | None:
        return self._outcome

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """None: not known within this time."""
        if self._open.acquire(timeout=-1 if timeout_s is None else timeout_s):
            self._open.release()  # for the next who waits
        return self._outcome

    def claim(self) -> bool:
        """True for the first who asks: they settle it."""
        return self._taken.acquire(blocking=False)

    def settle(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._open.release()
