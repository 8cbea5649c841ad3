"""The counters of an edge worker, and its hard samples. The JSON forms are sent worker → agent → web. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.inference.prediction import Prediction
from app.kit.text.json_values import JsonObject

UPLOAD_SHARE = "cloudAnswerRatio"
"""The key of the share of all pictures that the cloud answered."""


def upload_share_key(task_info: Mapping[str, Any]) -> str:
    """Returns the key of the share that the cloud answered; for a worker without it, that of the requirement's
    ratio."""
    return UPLOAD_SHARE if UPLOAD_SHARE in task_info else "uploadCloudRatio"


class Source(StrEnum):
    """The model with the final answer."""

    EDGE = "edge"
    CLOUD = "cloud"
    EDGE_FALLBACK = "edge_fallback"
    """The sample was hard and should have been uploaded, but the cloud did not answer in time."""


class Breaker(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True)
class Tally:
    """Counters since start_time, over restarts of the worker. Times are ISO 8601 in UTC; milliseconds are those of the
    last 512 samples."""

    inferences: int = 0
    hard: int = 0
    """Judged as hard, each counted once."""
    uploaded: int = 0
    """Answered by the cloud."""
    failed: int = 0
    """Sent, but not answered in time."""
    kept: int = 0
    """Hard, but not sent: over the upload budget, the queue full, or the breaker open."""
    fallback: int = 0
    """Failed, or not sent because of the cloud."""
    bytes_uploaded: int = 0
    bytes_saved: int = 0
    """Held back by the byte budget."""
    bytes_month: int = 0
    """Uploaded in this calendar month."""
    edge_ms_p50: float | None = None
    edge_ms_p95: float | None = None
    cloud_ms_p50: float | None = None
    """From the queue to the answer."""
    cloud_ms_p95: float | None = None
    fps: float | None = None
    breaker: Breaker = Breaker.CLOSED
    last_error: str = ""
    start_time: str = ""
    update_time: str = ""

    @property
    def hard_ratio(self) -> float:
        """The requirement's uploadCloudRatio: 0.1 if 100 of 1000 are hard, whatever happened to them."""
        return self.hard / self.inferences if self.inferences else 0.0

    @property
    def upload_ratio(self) -> float:
        """The share that the cloud answered."""
        return self.uploaded / self.inferences if self.inferences else 0.0

    def to_task_info(self) -> JsonObject:
        """Returns the requirement's taskInfo, with further keys."""
        return {
            "inferenceNumber": self.inferences,
            "hardExampleNumber": self.hard,
            "uploadCloudRatio": round(self.hard_ratio, 4),
            UPLOAD_SHARE: round(self.upload_ratio, 4),
            "startTime": self.start_time,
            "updateTime": self.update_time,
            "currentTime": self.update_time,
            "uploadNumber": self.uploaded,
            "uploadFailedNumber": self.failed,
            "keptNumber": self.kept,
            "fallbackNumber": self.fallback,
            "bytesUploaded": self.bytes_uploaded,
            "bytesSaved": self.bytes_saved,
            "bytesThisMonth": self.bytes_month,
            "edgeMsP50": self.edge_ms_p50,
            "edgeMsP95": self.edge_ms_p95,
            "cloudMsP50": self.cloud_ms_p50,
            "cloudMsP95": self.cloud_ms_p95,
            "fps": self.fps,
            "breaker": self.breaker.value,
            "lastError": self.last_error,
        }


@dataclass(frozen=True)
class Sample:
    """One hard sample with both answers."""

    id: str
    at: str
    width: int
    height: int
    why: str
    """The algorithm's reason."""
    score: float
    source: Source
    edge: Prediction
    cloud: Prediction | None = None
    """None if it did not answer."""
    edge_ms: float = 0.0
    cloud_ms: float | None = None
    bytes_up: int = 0
    labels: tuple[str, ...] = ()
    origin: str = ""
    """Origin of the picture: a file's name and the frame's number."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {
            **vars(self),
            "labels": list(self.labels),
            "edge": self.edge.to_json(),
            "cloud": self.cloud.to_json() if self.cloud else None,
            "extra": dict(self.extra),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Sample:
        """Reads the result of to_json.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        return Sample(
            **{
                **data,
                "source": Source(data["source"]),
                "edge": Prediction.from_json(data["edge"]),
                "cloud": Prediction.from_json(data["cloud"]) if data.get("cloud") else None,
                "labels": tuple(str(label) for label in data.get("labels", ())),
            }
        )


MOST_ROWS = 1000
"""Rows in a report."""
MAX_BYTES = 1 << 20
"""Bytes of a report."""


class RowChoice(StrEnum):
    """Which samples are stored as rows."""

    ALL = "all"
    OBJECTS = "objects"
    """Only those with detected objects."""
    NONE = "none"
