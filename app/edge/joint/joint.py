"""Joint inference on an edge node, for the bundled worker and for users' scripts.

joint = JointInference.from_environment()
pending = joint.submit(picture)  # has the small model's answer at once; never waits for the cloud
outcome = joint.infer(picture)   # the final answer; waits for the cloud, at most until the deadline
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from app.edge.joint.answer_order import NAME, AnswerOrders
from app.edge.joint.byte_budget import ByteBudget
from app.edge.joint.comparison import ModelComparison, open_comparison
from app.edge.joint.outcome import OpenSample, SampleOutcome
from app.edge.joint.reporter import SampleQueue, StatusReporter
from app.edge.joint.rows import RowQueue
from app.edge.joint.tally_counter import TallyCounter
from app.edge.joint.upload_policy import UploadBudget
from app.edge.joint.uploads import CloudLink, UploadResult, Uploads
from app.edge.joint.work import Work, model_of
from app.inference.prediction import Picture, Prediction
from app.inference.predictor_factory import open_predictor
from app.inference.region import Crop
from app.joint_inference.hard_examples import HardExampleAlgorithm, Verdict
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.sources import BROADCASTS
from app.joint_inference.model.tally import Breaker, Source, Tally
from app.joint_inference.worker_options import EdgeOptions, MiningMode, algorithm_of, edge_options
from app.kit.clock import ms_since, to_text
from app.kit.clock import now as clock
from app.kit.text.json_values import JsonObject

OnFinal = Callable[[OpenSample, SampleOutcome], None]
"""Called once for every sample, from any thread."""
RUNNING, COMPLETED, FAILED = "running", "completed", "failed"
logger = logging.getLogger(__name__)


class SmallModel(Protocol):
    """The small model: one of `app.inference`, or a user's own. Called by one thread at a time."""

    def predict(self, picture: Picture) -> Prediction: ...


class JointInference:
    """The small model, the algorithm that finds hard samples, and the connection to the big model. Thread-safe."""

    def __init__(
        self,
        predictor: SmallModel,
        algorithm: HardExampleAlgorithm,
        options: EdgeOptions,
        *,
        big_model: BigModel | None,
        service: str,
        folder: Path | None = None,
        on_final: OnFinal | None = None,
        comparison: ModelComparison | None = None,
        link: CloudLink | None = None,
        model: str = "",
        first_id: int = 1,
    ) -> None:
        """
        Args:
            predictor: the small model.
            algorithm: judges how hard a sample is.
            options: the worker's parameters.
            big_model: where it is; None: every answer is the edge's.
            service: the service's name.
            folder: where the tally is saved; None: nowhere.
            on_final: called with every final outcome.
            comparison: of the small model with the former one; None: there is nothing to compare.
            link: how an encrypted link to the big model is made; None: there is no certificate for one.
            model: name on the card of the small model; empty: unknown.
            first_id: of an object, for a worker that has kept nothing.
        """
        self.model = model
        self.predictor = predictor
        self._comparison = comparison
        self.algorithm = algorithm
        self.options = options
        labels = options.labels or tuple(getattr(predictor, "labels", ()))
        self.samples = SampleQueue(labels)
        self.rows = RowQueue(options.rows, labels, AnswerOrders(folder / NAME if folder else None, first_id))
        self.counter = TallyCounter(folder / "tally.json" if folder else None, now=_format_now())
        self.status = RUNNING
        self.detail: JsonObject = {}
        self._report_broadcasts: Callable[[], list[JsonObject]] = list
        self.broadcast: OnFinal | None = None
        self._on_final = on_final
        self._budget = UploadBudget(options.max_upload_ratio)
        self._decision = threading.Lock()
        self._last_error = ""
        self._reporter: StatusReporter | None = None
        budget_file = folder / "budget.json" if folder else None
        self._bytes = ByteBudget(options.max_bytes_per_s, options.max_bytes_per_month, budget_file)
        self._uploads = (
            Uploads(big_model, service, options, self._on_upload_result, link=link, budget=self._bytes)
            if big_model
            else None
        )

    @staticmethod
    def from_environment(predictor: SmallModel | None = None, *, on_final: OnFinal | None = None) -> JointInference:
        """For a script that an agent has started.

        Args:
            predictor: runs the small model instead of the bundled runtimes.
            on_final: called with every final outcome.

        Raises:
            WorkMissing: this process was not started as a worker.
            BadParameter, UnknownAlgorithm: the service's parameters are wrong.
        """
        return JointInference.of(Work.from_environment(), predictor, on_final=on_final)

    @staticmethod
    def of(work: Work, predictor: SmallModel | None = None, *, on_final: OnFinal | None = None) -> JointInference:
        """For this work; reports to the agent until it is closed."""
        specification = work.content.specification
        options = replace(edge_options(work.parameters), sources=work.sources)
        algorithm = algorithm_of(specification)
        if predictor is None:
            card = work.content.model
            card = replace(card, labels=options.labels or card.labels)
            predictor = open_predictor(card, work.model, work.twin, options.predictor)
            predictor.refuse_guess()
        joint = JointInference(
            predictor,
            algorithm,
            options,
            big_model=work.content.big_model,
            service=work.service,
            folder=work.folder,
            on_final=on_final,
            comparison=open_comparison(work, options),
            link=CloudLink(work.tls, specification.cloud.node) if work.tls else None,
            model=work.content.model.name,
            first_id=work.first_id(clock()),
        )
        if work.tls is not None:
            work.tls.watch()
        runtime, why = getattr(predictor, "runtime", ""), getattr(predictor, "why", "")
        joint.detail = {"runtime": str(runtime), "why": str(why), **model_of(work)}
        joint._reporter = StatusReporter(
            work, joint.status_report, samples=joint.samples, rows=joint.rows, save=joint._save
        )
        joint._reporter.start()
        return joint

    def submit(
        self,
        picture: Picture,
        *,
        id: str = "",
        origin: str = "",
        waits: bool = False,
        crop: Crop | None = None,
        source: str = "",
    ) -> OpenSample:
        """Run the small model on a picture, and send the picture to the big model if it is hard.

        Args:
            picture: H×W×3, RGB, uint8.
            id: names the sample; empty: one is made up.
            origin: where the picture is from, as shown to users.
            waits: block until a hard sample has its place in a full queue, instead of leaving the least hard out.
            crop: where in a larger picture it lies, in whose pixels its row is; None: it is whole.
            source: name of the source that it comes from; empty: there are not several.

        Returns:
            The sample, with the small model's answer.

        Raises:
            Exception: whatever the predictor raises.
        """
        id = id or uuid.uuid4().hex
        with self._decision:
            edge, verdict, edge_ms = self._inspect(picture)
            may_go_up = self._budget.spend(verdict.score if verdict.is_hard else None)
        at = time.monotonic()
        row = self.rows.reserve(crop, source)
        pending = OpenSample(id, picture, verdict, edge, edge_ms=edge_ms, at=at, origin=origin, waits=waits, row=row)
        ran_ms = edge_ms if edge is not None else None
        self.counter.count_inference(is_hard=verdict.is_hard, edge_ms=ran_ms, at=at, now=_format_now())
        if not verdict.is_hard:
            self._finish(UploadResult(pending), Source.EDGE)
        elif self._uploads is None:
            self._finish(UploadResult(pending, error="there is no cloud"), Source.EDGE_FALLBACK)
        elif not may_go_up:
            self._finish(UploadResult(pending, error="over the upload budget"), Source.EDGE)
        else:
            rejected = self._uploads.offer(pending)
            if rejected is not None:
                self._on_upload_result(rejected)
        return pending

    def infer(self, picture: Picture, *, id: str = "", origin: str = "") -> SampleOutcome:
        """Returns the final answer; waits for the cloud, at most until the deadline.

        Raises:
            Exception: What the predictor raises.
        """
        pending = self.submit(picture, id=id, origin=origin)
        outcome = pending.wait(max(0.0, pending.at + self.options.deadline_s - time.monotonic()))
        if outcome is None:
            error = f"the cloud did not answer within {self.options.deadline_s:g} s"
            self._finish(UploadResult(pending, error=error, was_sent=pending.bytes_up > 0), Source.EDGE_FALLBACK)
            outcome = pending.wait()
        assert outcome is not None
        return outcome

    def tally(self) -> Tally:
        breaker = self._uploads.breaker if self._uploads else Breaker.CLOSED
        tally = self.counter.snapshot(breaker=breaker, last_error=self._last_error, at=time.monotonic())
        counts = self._bytes.counts
        return replace(tally, bytes_saved=counts.saved_bytes, bytes_month=counts.month_bytes)

    def broadcast_by(self, show: OnFinal, states: Callable[[], list[JsonObject]]) -> None:
        """Begins to broadcast.

        Args:
            show: called with each answer whose objects have their ids, in the order of the samples of their source.
            states: returns the states of the broadcasts, for the report.
        """
        self.broadcast, self._report_broadcasts = show, states

    def status_report(self) -> JsonObject:
        """Returns the report to the agent."""
        counts = {"rowsLost": self.rows.lost, "lateNumber": self.rows.orders.late}
        detail = {**self.detail, **{name: count for name, count in counts.items() if count}}
        if broadcasts := self._report_broadcasts():
            detail[BROADCASTS] = broadcasts
        comparison = self._comparison.to_json() if self._comparison is not None else {}
        detail["comparison"] = comparison  # also if there is none, which ends the report of an earlier comparison
        return {"status": self.status, "taskInfo": self.tally().to_task_info(), "detail": detail}

    def note(self, error: str) -> None:
        """Show the service's user an error."""
        self._last_error = error[:300]

    def stop_uploads(self) -> None:
        """Answer hard samples by the small model from now on, also those that wait for a place in the queue."""
        if self._uploads is not None:
            self._uploads.stop_accepting()

    def close(self, status: str = COMPLETED) -> None:
        """Answers what waits for the cloud with the edge's answers, and sends the last report."""
        if self._uploads is not None:
            self._uploads.close()
        self.status = status
        if self._reporter is not None:
            self._reporter.close()
        self._save()

    def __enter__(self) -> JointInference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.note(f"{type(error).__name__}: {error}")
        self.close(FAILED if error is not None else COMPLETED)

    def _save(self) -> None:
        self.counter.save()
        self._bytes.save()
        self.rows.orders.save()

    def _inspect(self, picture: Picture) -> tuple[Prediction | None, Verdict, float]:
        if self.options.mining_mode is MiningMode.MINING_THEN_INFERENCE:
            verdict = self._judge(Prediction())
            if verdict.is_hard:
                return None, verdict, 0.0
            edge, edge_ms = self._predict(picture)
            return edge, verdict, edge_ms
        edge, edge_ms = self._predict(picture)
        return edge, self._judge(edge), edge_ms

    def _predict(self, picture: Picture) -> tuple[Prediction, float]:
        started = time.perf_counter()
        try:
            prediction = self.predictor.predict(picture)
        except Exception:  # whatever it is, it is counted and goes on
            if self._comparison is not None:
                self._comparison.count_error()
            raise
        ms = ms_since(started)
        if self._comparison is not None:
            self._comparison.add(picture, prediction, ms)
        return prediction, ms

    def _predict_fallback(self, pending: OpenSample) -> tuple[Prediction, float]:
        """Returns the small model's answer for a sample that the cloud left unanswered. A failing model predicts
        nothing."""
        try:
            with self._decision:
                return self._predict(pending.picture)
        except Exception as error:  # a runtime raises anything; the sample is answered all the same
            logger.exception("The small model has failed on sample %s", pending.id)
            self.note(f"the small model has failed: {type(error).__name__}: {error}")
            return Prediction(), 0.0

    def _judge(self, prediction: Prediction) -> Verdict:
        try:
            return self.algorithm(prediction)
        except Exception as error:  # an algorithm may be foreign code
            logger.exception("The algorithm %s has failed", self.algorithm.name)
            self.note(f"the algorithm {self.algorithm.name} has failed: {type(error).__name__}: {error}")
            return Verdict(False, 0.0, "the algorithm has failed")

    def _on_upload_result(self, result: UploadResult) -> None:
        """An upload has ended, or was not started."""
        if not result.was_sent:
            with self._decision:
                self._budget.give_back()
        source = Source.EDGE if result.is_over_budget else Source.EDGE_FALLBACK
        self._finish(result, Source.CLOUD if result.cloud is not None else source)

    def _finish(self, result: UploadResult, source: Source) -> None:
        pending = result.pending
        if source is Source.CLOUD:
            self._last_error = ""
        elif source is Source.EDGE_FALLBACK:
            self.note(result.error)
        if not pending.claim():
            return
        outcome = self._read_outcome(result, source)
        if pending.verdict.is_hard:
            self.counter.count_end(outcome, was_sent=result.was_sent, now=_format_now())
        height, width = pending.picture.shape[:2]
        is_shown = pending.verdict.is_hard or self.broadcast is not None  # no other picture is held
        then = {"then": partial(self._show, pending, outcome)} if is_shown else {}
        self.rows.fill(pending.row, outcome, (int(width), int(height)), **then)
        pending.settle(outcome)
        self._notify(pending, outcome)

    def _show(self, pending: OpenSample, outcome: SampleOutcome) -> None:
        if self.broadcast is not None:
            self.broadcast(pending, outcome)
        if pending.verdict.is_hard:
            self.samples.add(pending, outcome, at=_format_now())

    def _read_outcome(self, result: UploadResult, source: Source) -> SampleOutcome:
        pending, edge, edge_ms = result.pending, result.pending.edge, result.pending.edge_ms
        if edge is None and result.cloud is None:
            edge, edge_ms = self._predict_fallback(pending)
        final = result.cloud if result.cloud is not None else edge
        assert final is not None
        return SampleOutcome(
            pending.id,
            source,
            final,
            pending.verdict,
            edge,
            result.cloud,
            edge_ms=edge_ms,
            cloud_ms=result.ms,
            bytes_up=pending.bytes_up,
            error=result.error,
            model=result.model if result.cloud is not None else self.model,
        )

    def _notify(self, pending: OpenSample, outcome: SampleOutcome) -> None:
        if self._on_final is None:
            return
        try:
            self._on_final(pending, outcome)
        except Exception:  # one sample's fault must not stop the others
            logger.exception("Sample %s is final, and its on_final has failed", pending.id)


def _format_now() -> str:
    return to_text(clock())
