"""A new small model beside the previous one, on some of the same pictures; a roll-out is judged by it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from app.edge.joint.work import Work
from app.inference.agreement import agreement
from app.inference.prediction import Picture, Prediction
from app.inference.predictor_factory import open_predictor
from app.joint_inference.worker_options import EdgeOptions
from app.kit.clock import ms_since
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject

EVERY_S = 0.2
MOST = 1000
"""Pictures to compare: more would not change the result, and the previous model need not run forever."""
REPORT_EVERY_S = 2.0
logger = logging.getLogger(__name__)


class FormerModel(Protocol):
    """The model that the new one replaces."""

    def predict(self, picture: Picture) -> Prediction: ...


class ModelComparison:
    """Called by one thread at a time.

    Args:
        former: the former model.
        sha256: of the new one.
        clock: monotonic seconds.
    """

    def __init__(self, former: FormerModel, sha256: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._former = former
        self._sha256 = sha256
        self._clock = clock
        self._compared_at = self._reported_at = -1000.0
        self._agreement = self._ms = self._former_ms = 0.0
        self._pictures = self._errors = 0
        self._reported: JsonObject = {}

    def add(self, picture: Picture, prediction: Prediction, ms: float) -> None:
        """Compares the models on a picture if it is time again.

        Args:
            prediction: of the new model.
            ms: its time in milliseconds.
        """
        now = self._clock()
        if self._pictures >= MOST or now - self._compared_at < EVERY_S:
            return
        self._compared_at = now
        started = time.perf_counter()
        try:
            former = self._former.predict(picture)
        except Exception:  # the former model only counts for the comparison
            logger.exception("The former model has failed")
            return
        self._former_ms += ms_since(started)
        self._ms += ms
        self._agreement += agreement(prediction, former)
        self._pictures += 1

    def count_error(self) -> None:
        """Counts a picture that the new model could not answer."""
        self._errors += 1

    def to_json(self) -> JsonObject:
        """Returns the roll-out's Comparison; a new one only now and then, since each causes a report."""
        now = self._clock()
        if now - self._reported_at >= REPORT_EVERY_S:
            count = max(1, self._pictures)
            self._reported_at = now
            self._reported = {
                "sha256": self._sha256,
                "pictures": self._pictures,
                "agreement": round(self._agreement / count, 4) if self._pictures else 1.0,
                "ms": round(self._ms / count, 3),
                "former_ms": round(self._former_ms / count, 3),
                "errors": self._errors,
            }
        return self._reported


def open_comparison(work: Work, options: EdgeOptions) -> ModelComparison | None:
    """Compares with the former model, if the order names one that can be opened."""
    card = work.content.former
    if card is None or work.former is None:
        return None
    try:
        former = open_predictor(
            replace(card, labels=options.labels or card.labels), work.former, work.former_twin, options.predictor
        )
    except ModelmillError as error:
        logger.warning("The former model cannot be compared with: %s", error.message)
        return None
    return ModelComparison(former, work.content.model.sha256)
