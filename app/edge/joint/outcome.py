"""The outcome of one sample: the edge's answer at once, the final one when it is known."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from app.inference.prediction import Picture, Prediction
from app.inference.region import Crop
from app.joint_inference.hard_examples import Verdict
from app.joint_inference.model.tally import Source
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class SampleOutcome:
    """The final answer to one sample, and how it came about."""

    id: str
    source: Source
    """Whose answer is the final one."""
    final: Prediction
    verdict: Verdict
    """How hard the sample was."""
    edge: Prediction | None
    """The small model's answer; None: it did not run."""
    cloud: Prediction | None = None
    """The big model's answer."""
    edge_ms: float = 0.0
    cloud_ms: float | None = None
    """From the queue to the answer."""
    bytes_up: int = 0
    error: str = ""
    """Why the cloud's answer is missing; empty when it was not asked or has answered."""
    model: object = None
    """Name on the card of the model whose answer is the final one, as it tells it."""

    def to_json(self) -> JsonObject:
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


@dataclass(eq=False)
class Place:
    """Of a sample among the rows of what is answered."""

    at: float
    """When the sample came: seconds since 1970, by this node's clock."""
    crop: Crop | None = None
    """Where in a larger picture it lies; None: it is whole."""
    source: str = ""
    """Name of its source; empty: there are not several."""
    text: str | None = None
    """Its row as JSON; empty: none is wanted; None: it is not the sample's turn yet."""
    ids: Sequence[int | None] = ()
    """Of the objects in its row."""
    is_late: bool = False
    """Later samples of its source did not wait for its answer."""


@dataclass(eq=False)
class OpenSample:
    """A sample in progress. It is settled once, by the first who claims it.

    Args:
        id: of the sample.
        verdict: of the hard-example algorithm.
        edge_ms: what the small model took, in ms.
        at: when the sample came, in seconds, steady.
        origin: where it comes from, as its sender says.
        waits: its sender waits for the answer.
        row: its place among the rows of what is answered.

    Attributes:
        edge: the small model's answer; None for a hard sample in mining-then-inference.
    """

    id: str
    picture: Picture
    verdict: Verdict
    edge: Prediction | None
    _: KW_ONLY
    edge_ms: float
    at: float
    """When it was judged hard, in seconds of time.monotonic()."""
    origin: str = ""
    waits: bool = False
    """It is not urgent: its deadline starts when it is sent, and no other sample takes its place."""
    row: Place

    def __post_init__(self) -> None:
        self.bytes_up = 0
        self._claimed = threading.Lock()
        self._open = threading.Lock()
        """Held until it is settled. For the many easy samples this takes a tenth of the time of an Event."""
        self._open.acquire()
        self._outcome: SampleOutcome | None = None

    @property
    def is_final(self) -> bool:
        return self._outcome is not None

    @property
    def outcome(self) -> SampleOutcome | None:
        return self._outcome

    def wait(self, timeout_s: float | None = None) -> SampleOutcome | None:
        """The outcome, or None when it is not known within this time."""
        if self._open.acquire(timeout=-1 if timeout_s is None else timeout_s):
            self._open.release()  # for the next waiter
        return self._outcome

    def claim(self) -> bool:
        """True for the first caller, who has to settle it."""
        return self._claimed.acquire(blocking=False)

    def settle(self, outcome: SampleOutcome) -> None:
        self._outcome = outcome
        self._open.release()
