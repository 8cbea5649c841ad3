"""Reports a worker to the node's agent: its status and tally, and hard samples with small pictures.

An agent that is unreachable is tried again each second; no answer of it ends the worker.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from app.edge.agent_connection import AgentConnection
from app.edge.joint.outcome import OpenSample, SampleOutcome
from app.edge.joint.rows import RowQueue
from app.edge.joint.work import Work
from app.inference.picture_codec import encode
from app.inference.prediction import Picture, Prediction
from app.joint_inference.model.resource import SINGULAR
from app.joint_inference.model.tally import Sample
from app.kit.process.periodic_thread import PeriodicThread

TICK_S = 1.0
AT_LEAST_EVERY_S = 10.0
TIMEOUT_S = 3.0
StatusSource = Callable[[], Mapping[str, Any]]
"""Gives the current report: status, and taskInfo and detail where there are some."""
TIMES = ("startTime", "updateTime", "currentTime", "fps")
QUEUE_LENGTH = 20
LONGEST_SIDE = 640
MAX_PICTURE_BYTES = 256_000
EVERY_S = 1.0
STALE_S = 5.0
"""Viewers want the present: of samples that have waited longer at most one is shown."""
QUALITIES = (80, 60, 40, 20)
Preview = tuple[Sample, bytes, str]
"""A sample, its picture, and the picture's content type."""
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class StatusReporter:
    """Reports one worker each second, from a thread of its own."""

    work: Work
    """What the worker was started for."""
    status_source: StatusSource
    _: KW_ONLY
    samples: SampleQueue | None = None
    """Hard samples to report."""
    rows: RowQueue | None = None
    """Of what was answered, to report."""
    save: Callable[[], None] = lambda: None
    """Also called each second: saves what the worker keeps on disk."""

    def __post_init__(self) -> None:
        work, worker = self.work, self.work.content.worker.name
        self._owner = {
            "name": worker,
            "namespace": work.namespace,
            "ownerName": work.service,
            "ownerKind": SINGULAR,
            "kind": "inference",
            "uid": work.uid,
        }
        self._service = {key: self._owner[key] for key in ("namespace", "ownerName", "uid")}
        self._agent = AgentConnection(work.agent_url, timeout_s=TIMEOUT_S)
        self._last_report: Mapping[str, Any] | None = None
        self._last_report_at = 0.0
        self._thread = PeriodicThread("report", self.step, every_s=TICK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Send a last report, if the agent is there."""
        self._thread.close()
        self.save()
        self._last_report = None
        self._agent.hurry(2.0)
        if self._report() and self.work.agent_url:
            self._send_rows()
        self._agent.close()

    def step(self) -> None:
        self.save()
        if self.work.agent_url and self._report():
            self._send_rows()
            if self.samples is not None:
                self._show(self.samples)

    def _report(self) -> bool:
        """Report the status, if it has changed or it is time. False: the agent is unreachable."""
        now, report = time.monotonic(), self.status_source()
        if _remove_times(report) == self._last_report and now - self._last_report_at < AT_LEAST_EVERY_S:
            return True
        if not self.work.agent_url or not self._post("info", json={**self._owner, **report}):
            return False
        self._last_report, self._last_report_at = _remove_times(report), now
        return True

    def _send_rows(self) -> None:
        """All that wait, or as many as the agent takes."""
        while self.rows is not None and (report := self.rows.report()) is not None:
            headers = {"Content-Type": "application/json"}
            if not self._post("rows", content=report.body, headers=headers, params=self._service):
                return
            self.rows.is_taken()

    def _show(self, samples: SampleQueue) -> None:
        preview = samples.take()
        if preview is None:
            return
        sample, picture, content_type = preview
        files = {
            "sample": (None, json.dumps(sample.to_json()), "application/json"),
            "picture": ("picture", picture, content_type),
        }
        if not self._post("samples", files=files, params=self._service):
            samples.put_back(preview)

    def _post(self, what: str, **content: Any) -> bool:
        """False: the agent is unreachable. A refusal counts as delivered."""
        return self._agent.post(f"/neptune/workers/{self._owner['name']}/{what}", **content)


def _remove_times(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what changes all the time."""
    info = report.get("taskInfo") or {}
    return {**report, "taskInfo": {key: value for key, value in info.items() if key not in TIMES}}


class SampleQueue:
    """Hard samples that wait to be reported, in their order. For any thread.

    A burst is queued until QUEUE_LENGTH are there; then one each EVERY_S, instead of the oldest.
    """

    def __init__(self, labels: tuple[str, ...] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.labels = labels
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Preview]] = deque(maxlen=QUEUE_LENGTH)
        self._added_at = -EVERY_S

    def add(self, pending: OpenSample, outcome: SampleOutcome, *, at: str) -> None:
        now = self._clock()
        with self._lock:
            if len(self._waiting) == QUEUE_LENGTH and now - self._added_at < EVERY_S:
                return
            self._added_at = now
        small = shrunk(pending.picture)
        preview = small_picture(small)
        if preview is None:
            return
        sample = sample_of(pending, outcome, at=at, labels=self.labels)
        facts = {"dhash": difference_hash(small), "preview": [int(small.shape[1]), int(small.shape[0])]}
        sample = replace(sample, extra={**sample.extra, **facts})
        with self._lock:
            self._waiting.append((now, (sample, *preview)))

    def take(self) -> Preview | None:
        """Remove and return the next that is not stale, or else the newest; None: the queue is empty."""
        with self._lock:
            while len(self._waiting) > 1 and self._clock() - self._waiting[0][0] > STALE_S:
                self._waiting.popleft()
            return self._waiting.popleft()[1] if self._waiting else None

    def put_back(self, preview: Preview) -> None:
        with self._lock:
            if len(self._waiting) < QUEUE_LENGTH:
                self._waiting.appendleft((self._clock(), preview))


def sample_of(pending: OpenSample, outcome: SampleOutcome, *, at: str, labels: tuple[str, ...] = ()) -> Sample:
    """What is reported of a sample. Width, height and boxes are those of the source picture, not of the preview.

    Args:
        at: when its answer was there, text in ISO 8601.
        labels: names of the classes, by number.
    """
    height, width = pending.picture.shape[:2]
    extra = {"error": outcome.error, "source": pending.row.source, "ids": pending.row.ids}
    return Sample(
        id=pending.id,
        at=at,
        width=int(width),
        height=int(height),
        why=outcome.verdict.why,
        score=round(outcome.verdict.score, 5),
        source=outcome.source,
        edge=replace(outcome.edge or Prediction(), candidates=()),
        cloud=outcome.cloud,
        edge_ms=round(outcome.edge_ms, 3),
        cloud_ms=outcome.cloud_ms,
        bytes_up=outcome.bytes_up,
        labels=labels,
        origin=pending.origin,
        extra={name: value for name, value in extra.items() if value},
    )


def shrunk(picture: Picture) -> Picture:
    """No side longer than LONGEST_SIDE."""
    if max(picture.shape[:2]) <= LONGEST_SIDE:
        return picture
    image = Image.fromarray(picture)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), reducing_gap=2.0)
    return np.asarray(image, dtype=np.uint8)


def difference_hash(picture: Picture) -> str:
    """64 bits in hexadecimal: of 9×8 gray fields whether each is lighter than the one to its left. Pictures that look
    alike differ in few of them."""
    fields = np.asarray(Image.fromarray(picture).convert("L").resize((9, 8), Image.Resampling.BOX), dtype=np.int16)
    bits = np.packbits((fields[:, 1:] > fields[:, :-1]).ravel())
    return bits.tobytes().hex()


def small_picture(picture: Picture) -> tuple[bytes, str] | None:
    """A preview and its content type; None: it cannot be made small enough."""
    picture = shrunk(picture)
    for quality in QUALITIES:
        data, content_type = encode(picture, quality)
        if len(data) <= MAX_PICTURE_BYTES:
            return data, content_type
    return None
