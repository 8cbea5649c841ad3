"""Rows of answers on their way to the web server: in the order of the samples, each once, with ids of their objects.

A hard sample is answered later than the easy ones after it, so each sample has its place in the queue from the start,
and the head of the queue is sent once it is answered and its objects have their ids.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.edge.joint.answer_order import AnswerOrders
from app.edge.joint.outcome import Place, SampleOutcome
from app.inference.model_card import model_facts
from app.inference.prediction import Box, Prediction, details_of
from app.inference.region import Crop
from app.joint_inference.model.tally import MOST_ROWS, RowChoice
from app.kit.text.json_values import JsonObject

MOST_WAITING = 5000
"""Beyond it the oldest is omitted."""
MOST_CHARACTERS = 400_000
"""Of a report."""


@dataclass(frozen=True)
class RowReport:
    """As RowReport of the web reads it; it stays as it is until it is taken."""

    batch: int
    body: bytes


class RowQueue:
    """For any thread.

    Args:
        choice: which samples leave a row.
        labels: names of the classes, by number.
        orders: those of the sources; None: nothing is kept of them.
        clock: the time, in seconds since 1970.

    Attributes:
        lost: how many rows were omitted because too many waited.
    """

    def __init__(
        self,
        choice: RowChoice,
        labels: tuple[str, ...] = (),
        orders: AnswerOrders | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.choice = choice
        self.orders = orders or AnswerOrders(None)
        self.labels = labels
        self.lost = 0
        self._clock = clock
        self._run = uuid.uuid4().hex
        self._batch = 0
        self._line: deque[Place] = deque()
        self._lock = threading.Lock()
        self._report: RowReport | None = None

    def reserve(self, crop: Crop | None = None, source: str = "") -> Place:
        """A place at the end of the line, for a sample that has come.

        Args:
            crop: where in a larger picture it lies; None: it is whole.
            source: name of the source that it comes from; empty: there are not several.
        """
        place = Place(self._clock(), crop, source)
        self.orders.of(source).add(place)
        if self.choice is not RowChoice.NONE:
            with self._lock:
                self._line.append(place)
                if len(self._line) > MOST_WAITING:
                    self._line.popleft()
                    self.lost += 1
        return place

    def fill(
        self, place: Place, outcome: SampleOutcome, size: tuple[int, int], then: Callable[[], None] = lambda: None
    ) -> None:
        """The sample is answered.

        Args:
            place: its own.
            size: width and height of the picture.
            then: called when its objects have their ids, in the order of the samples of its source.
        """

        def put(row: JsonObject) -> None:
            is_chosen = self.choice is RowChoice.ALL or bool(row["bbox"])
            place.ids = row.get("ids", ())
            place.text = json.dumps(row, separators=(",", ":")) if is_chosen else ""
            then()

        self.orders.of(place.source).fill(place, row_of(outcome, place, size, self.labels), put)

    def report(self) -> RowReport | None:
        """What to send next: the same until it was taken; None: nothing."""
        if self._report is None:
            texts = self._take_rows()
            if texts:
                self._batch += 1
                head = json.dumps({"run": self._run, "batch": self._batch})[:-1]
                self._report = RowReport(self._batch, f'{head},"rows":[{",".join(texts)}]}}'.encode())
        return self._report

    def is_taken(self) -> None:
        """The report has arrived."""
        self._report = None

    def _take_rows(self) -> list[str]:
        texts, characters = list[str](), 0
        with self._lock:
            while self._line and len(texts) < MOST_ROWS and characters < MOST_CHARACTERS:
                text = self._line[0].text
                if text is None:
                    break
                self._line.popleft()
                if text:
                    texts.append(text)
                    characters += len(text)
        return texts


def row_of(outcome: SampleOutcome, place: Place, size: tuple[int, int], labels: Sequence[str]) -> JsonObject:
    """A row as the web keeps it. What a classifier answers is an object as large as the picture; the class of a text is
    the text itself.

    Args:
        place: of the sample.
        size: width and height of the picture.
        labels: names of the classes, by number.
    """
    boxes = objects_of(outcome.final, size)
    crop = place.crop
    if crop is not None:
        boxes = crop.in_source(boxes)
        size = (crop.width, crop.height)
    written = [box.to_json() for box in boxes]
    return {
        "at": round(place.at, 3),
        "size": list(size),
        "bbox": [each[:4] for each in written],
        "labels": [box.text or (labels[box.label] if box.label < len(labels) else str(box.label)) for box in boxes],
        "scores": [each[4] for each in written],
        **{name: value for name, value in details_of(boxes).items() if name != "texts"},
        "sample": outcome.id,
        "answered_by": outcome.source.value,
        "is_hard": outcome.verdict.is_hard,
        **model_facts(outcome.model),
        **({"source": place.source} if place.source else {}),
    }


def objects_of(prediction: Prediction, size: tuple[int, int]) -> Sequence[Box]:
    """Returns its boxes; of a classifier one as large as the picture, whose width and height are given."""
    if prediction.label is None:
        return prediction.boxes
    return [Box(0.0, 0.0, float(size[0]), float(size[1]), prediction.probabilities[prediction.label], prediction.label)]
