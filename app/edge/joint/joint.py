"""Joint inference on an edge node, for the bundled worker and for users' scripts.

joint = JointInference.from_environment()
pending = joint.submit(picture)     # the small model's answer at once; never waits for the cloud
outcome = joint.infer(picture)      # the final answer; waits for the cloud, at most its deadline
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from app.edge.joint.budget import Budget
from app.edge.joint.outcome import Outcome, Pending
from app.edge.joint.reporter import StatusReporter
from app.edge.joint.samples import Samples
from app.edge.joint.tally_counter import TallyCounter
from app.edge.joint.uploads import End, Uploads
from app.edge.joint.work import Work, model_of
from app.inference.prediction import Picture, Prediction
from app.inference.predictor import open_predictor
from app.joint_inference.hard_examples import HardExampleAlgorithm, Verdict
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.tally import Breaker, Source, Tally
from app.joint_inference.worker_options import EdgeOptions, MiningMode, algorithm_of, edge_options
from app.kit.clock import now as clock
from app.kit.clock import to_text

OnFinal = Callable[[Pending, Outcome], None]
"""Told of every sample once, from any thread."""
RUNNING, COMPLETED, FAILED = "running", "completed", "failed"
logger = logging.getLogger(__name__)


class Predicts(Protocol):
    """The small model: app.inference's, or one's own. Called by one thread at a time."""

    def predict(self, picture: Picture) -> Prediction: ...


class JointInference:
    """big_model None: there is no cloud, and every answer is the edge's. folder: where the tally is kept; None: not."""

    def __init__(
        self,
        predictor: Predicts,
        algorithm: HardExampleAlgorithm,
        options: EdgeOptions,
        *,
        big_model: BigModel | None,
        service: str,
        folder: Path | None = None,
        on_final: OnFinal | None = None,
    ) -> None:
        self.predictor = predictor
        self.algorithm = algorithm
        self.options = options
        self.samples = Samples(options.labels or tuple(getattr(predictor, "labels", ())))
        self.tallying = TallyCounter(folder / "tally.json" if folder else None, now=_now())
        self.status = RUNNING
        self.detail: dict[str, Any] = {}
        self._on_final = on_final
        self._budget = Budget(options.max_upload_ratio)
        self._deciding = threading.Lock()
        self._last_error = ""
        self._reporter: StatusReporter | None = None
        self._uploads = Uploads(big_model, service, options, self._ended) if big_model else None

    @staticmethod
    def from_environment(predictor: Predicts | None = None, *, on_final: OnFinal | None = None) -> JointInference:
        """As the agent has told this process. predictor: the small model, if it is to be run otherwise.

        Raises NoWork, BadParameter, UnknownAlgorithm, and what opening the model raises.
        """
        return JointInference.of(Work.from_environment(), predictor, on_final=on_final)

    @staticmethod
    def of(work: Work, predictor: Predicts | None = None, *, on_final: OnFinal | None = None) -> JointInference:
        """Reports to the agent until it is closed."""
        specification = work.content.specification
        options = replace(edge_options(specification.edge.parameters), source=work.source)
        algorithm = algorithm_of(specification)
        if predictor is None:
            card = work.content.model
            card = replace(card, labels=options.labels or card.labels)
            predictor = open_predictor(card, work.model, work.twin, options.predictor)
            predictor.refuse_guess()
        made = JointInference(
            predictor,
            algorithm,
            options,
            big_model=work.content.big_model,
            service=work.service,
            folder=work.folder,
            on_final=on_final,
        )
        runtime, why = getattr(predictor, "runtime", ""), getattr(predictor, "why", "")
        made.detail = {"runtime": str(runtime), "why": str(why), **model_of(work)}
        made._reporter = StatusReporter(work, made.said, samples=made.samples, keep=made.tallying.keep)
        made._reporter.start()
        return made

    def submit(self, picture: Picture, *, id: str = "", origin: str = "", waits: bool = False) -> Pending:
        """waits: return when a hard sample has its place in the queue for the cloud, instead of leaving one out when
        that is full. Raises what the predictor raises."""
        id = id or uuid.uuid4().hex
        with self._deciding:
            edge, verdict, edge_ms = self._looked_at(picture)
            may_go_up = self._budget.spend(verdict.score if verdict.is_hard else None)
        at = time.monotonic()
        pending = Pending(id, picture, verdict, edge, edge_ms=edge_ms, at=at, origin=origin, waits=waits)
        ran_ms = edge_ms if edge is not None else None
        self.tallying.inferred(is_hard=verdict.is_hard, edge_ms=ran_ms, at=at, now=_now())
        if not verdict.is_hard:
            self._finish(End(pending), Source.EDGE)
        elif self._uploads is None:
            self._finish(End(pending, error="there is no cloud"), Source.EDGE_FALLBACK)
        elif not may_go_up:
            self._finish(End(pending, error="over the upload budget"), Source.EDGE)
        else:
            left_out = self._uploads.offer(pending)
            if left_out is not None:
                self._ended(left_out)
        return pending

    def infer(self, picture: Picture, *, id: str = "", origin: str = "") -> Outcome:
        """Raises what the predictor raises."""
        pending = self.submit(picture, id=id, origin=origin)
        known = pending.wait(max(0.0, pending.at + self.options.deadline_s - time.monotonic()))
        if known is None:
            said = f"the cloud did not answer within {self.options.deadline_s:g} s"
            self._finish(End(pending, error=said, was_sent=pending.bytes_up > 0), Source.EDGE_FALLBACK)
            known = pending.wait()
        assert known is not None
        return known

    def tally(self) -> Tally:
        breaker = self._uploads.breaker if self._uploads else Breaker.CLOSED
        return self.tallying.snapshot(breaker=breaker, last_error=self._last_error, at=time.monotonic())

    def said(self) -> dict[str, Any]:
        """What the agent is told."""
        return {"status": self.status, "taskInfo": self.tally().to_task_info(), "detail": dict(self.detail)}

    def note(self, error: str) -> None:
        """Something has gone wrong that the service's user should read."""
        self._last_error = error[:300]

    def close(self, status: str = COMPLETED) -> None:
        """What waits for the cloud is answered by the edge; then the last report."""
        if self._uploads is not None:
            self._uploads.close()
        self.status = status
        if self._reporter is not None:
            self._reporter.close()
        self.tallying.keep()

    def __enter__(self) -> JointInference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.note(f"{type(error).__name__}: {error}")
        self.close(FAILED if error is not None else COMPLETED)

    def _looked_at(self, picture: Picture) -> tuple[Prediction | None, Verdict, float]:
        if self.options.mining_mode is MiningMode.MINING_THEN_INFERENCE:
            verdict = self._judged(Prediction())
            if verdict.is_hard:
                return None, verdict, 0.0
            edge, edge_ms = self._predicted(picture)
            return edge, verdict, edge_ms
        edge, edge_ms = self._predicted(picture)
        return edge, self._judged(edge), edge_ms

    def _predicted(self, picture: Picture) -> tuple[Prediction, float]:
        began = time.perf_counter()
        return self.predictor.predict(picture), (time.perf_counter() - began) * 1000

    def _predicted_after_all(self, pending: Pending) -> tuple[Prediction, float]:
        """Of a sample that the cloud left unanswered. Who waits for it is not kept waiting by a model that fails: that
        has found nothing."""
        try:
            with self._deciding:
                return self._predicted(pending.picture)
        except Exception as error:
            logger.exception("The small model has failed on sample %s", pending.id)
            self.note(f"the small model has failed: {type(error).__name__}: {error}")
            return Prediction(), 0.0

    def _judged(self, prediction: Prediction) -> Verdict:
        try:
            return self.algorithm(prediction)
        except Exception as error:
            logger.exception("The algorithm %s has failed", self.algorithm.name)
            self.note(f"the algorithm {self.algorithm.name} has failed: {type(error).__name__}: {error}")
            return Verdict(False, 0.0, "the algorithm has failed")

    def _ended(self, end: End) -> None:
        """Of a sample that was to go up."""
        if not end.was_sent:
            with self._deciding:
                self._budget.give_back()
        self._finish(end, Source.CLOUD if end.cloud is not None else Source.EDGE_FALLBACK)

    def _finish(self, end: End, source: Source) -> None:
        pending = end.pending
        if source is Source.CLOUD:
            self._last_error = ""
        elif source is Source.EDGE_FALLBACK:
            self.note(end.error)
        if not pending.claim():
            return
        outcome = self._outcome(end, source)
        if pending.verdict.is_hard:
            self.tallying.ended(outcome, was_sent=end.was_sent, now=_now())
        pending.settle(outcome)
        self._tell(pending, outcome)
        if pending.verdict.is_hard:
            self.samples.add(pending, outcome, at=_now())

    def _outcome(self, end: End, source: Source) -> Outcome:
        pending, edge, edge_ms = end.pending, end.pending.edge, end.pending.edge_ms
        if edge is None and end.cloud is None:
            edge, edge_ms = self._predicted_after_all(pending)
        final = end.cloud if end.cloud is not None else edge
        assert final is not None
        return Outcome(
            pending.id,
            source,
            final,
            pending.verdict,
            edge,
            end.cloud,
            edge_ms=edge_ms,
            cloud_ms=end.ms,
            bytes_up=pending.bytes_up,
            error=end.error,
        )

    def _tell(self, pending: Pending, outcome: Outcome) -> None:
        if self._on_final is None:
            return
        try:
            self._on_final(pending, outcome)
        except Exception:
            logger.exception("Sample %s is final, and whoever was told has failed", pending.id)


def _now() -> str:
    return to_text(clock())
