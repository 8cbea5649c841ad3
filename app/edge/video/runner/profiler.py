"""Measures each stage with each model and size on each host, on frames of the job's own video."""

from __future__ import annotations

import itertools
import logging
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.edge.media.picture_sizes import resize_picture, size_of
from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameContext, FrameFailed, FrameOutcome
from app.edge.video.runner.frame_generator import Generator
from app.edge.video.runner.frame_transport import OutgoingPictures
from app.edge.video.runner.quality import RESOLUTION, as_quality, golden_plan, score_stage
from app.edge.video.runner.resize import fit_size, ratio_of, scale_boxes
from app.edge.video.runner.stage_client import HostAway, HostNotReady, StageFailed
from app.edge.video.work import RunnerWork
from app.inference.sources import open_video_source
from app.kit.errors import Unavailable
from app.kit.text.json_values import JsonObject
from app.video.model.dag import Reference
from app.video.model.job import StageHost
from app.video.model.kinds import CLIP, Stage, Type
from app.video.model.plan import RESOLUTIONS, Plan, Role, StagePlace, VideoConf
from app.video.model.report import Measurement, model_of

FRAMES = 12
"""The number of frames on which each case is measured."""
STEP = 5
"""Only every fifth frame of the source is used, so that the frames differ."""
MOST_TRIES = 120
PAUSE_S = 0.5
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProfileSample:
    """A frame on which stages are measured."""

    frame: CapturedFrame
    golden: FrameOutcome
    """The answers of the biggest models at full size."""


@dataclass(frozen=True)
class ProfileCase:
    """A stage with one of its models, at one size, on one host."""

    stage: str
    model_id: int
    model: str
    resolution: str
    host: StageHost


@dataclass(eq=False)
class Profiler:
    """Measures each case on frames of the job's own video.

    Args:
        report: called with rows, each a Measurement as JSON, and with the progress from 0 to 1.
        stopping: set when it has to end.
    """

    work: RunnerWork
    executor: Executor
    report: Callable[[Sequence[JsonObject], float], None]
    stopping: threading.Event

    def run(self) -> None:
        """Measures all cases.

        Raises:
            SourceUnusable: The video cannot be read.
            Unavailable: No host runs the stages.
        """
        samples = self._load_samples()
        cases = list(self._cases(size_of(samples[0].frame.picture)))
        for place, case in enumerate(cases):
            if self.stopping.is_set():
                return
            row = self._measure(case, samples)
            self.report([row.to_json()] if row else [], (place + 1) / max(1, len(cases)))

    def _load_samples(self) -> list[ProfileSample]:
        source, _, live = open_video_source(self.work.source)
        is_clip = self.executor.needs.dag.generator == CLIP.name
        conf = VideoConf(fps=120.0, nskip=STEP - 1, ntracking=1 if is_clip else 0)
        generator = Generator(lambda: conf, clips=is_clip, realtime=False, live=live)
        frames = itertools.islice((frame for frame in generator.one_pass(source) if not frame.tracked), FRAMES)
        return [ProfileSample(frame, self._golden(frame)) for frame in frames]

    def _golden(self, frame: CapturedFrame) -> FrameOutcome:
        """Returns the reference answers. Waits for unreachable hosts; raises Unavailable after a while."""
        plan = Plan(0, VideoConf(), {})
        why = ""
        for _ in range(MOST_TRIES):
            try:
                whole = golden_plan(self.executor, plan)
                size = fit_size(size_of(frame.picture), RESOLUTION)
                return self.executor.run(frame, whole, size, name=f"profile-{frame.n_loop}-golden")
            except FrameFailed as failure:
                why = str(failure)
                if self.stopping.wait(PAUSE_S):
                    break
        raise Unavailable(f"The stages cannot be run: {why}.", hint="Look at the host of the stages.")

    def _cases(self, source: tuple[int, int]) -> Iterator[ProfileCase]:
        """Yields the cases. Sizes above the source's own would repeat the previous one."""
        needs = self.executor.needs
        stages = {stage.name: stage for stage in self.work.content.stages}
        for host in self.executor.router.hosts:
            for name in needs.dag.stages:
                for model_id, model in _models(stages[name]):
                    seen: set[tuple[int, int]] = set()
                    for resolution in RESOLUTIONS:
                        size = fit_size(source, resolution)
                        if size not in seen:
                            seen.add(size)
                            yield ProfileCase(name, model_id, model, resolution, host)

    def _measure(self, case: ProfileCase, samples: Sequence[ProfileSample]) -> Measurement | None:
        """Measures a case; None if the host answered none of the samples."""
        delays, sizes, scores = [], [], []
        for sample in samples:
            if self.stopping.is_set():
                return None
            try:
                delay_s, size, score = self._compute(case, sample)
            except (HostAway, HostNotReady, StageFailed, FrameFailed) as error:
                logger.warning("%s on %s: %s", case.stage, case.host.node, error)
                continue
            delays.append(delay_s)
            sizes.append(size)
            scores += [] if score is None else [score]
        if not delays:
            return None
        return Measurement(
            case.host.node,
            case.stage,
            case.model_id,
            case.model,
            case.resolution,
            round(statistics.median(delays), 6),
            round(statistics.mean(sizes), 1),
            round(statistics.mean(scores), 4) if scores else 1.0,
            len(delays),
        )

    def _compute(self, case: ProfileCase, sample: ProfileSample) -> tuple[float, int, float | None]:
        """Returns seconds of computing, size in bytes as JPEG, and quality."""
        needs, golden = self.executor.needs, sample.golden
        size = fit_size(size_of(sample.frame.picture), case.resolution)
        name = f"profile-{sample.frame.n_loop}-{case.resolution}-{case.stage}-{case.model_id}"
        place = StagePlace(case.model_id, Role(case.host.role), case.host.ip, case.host.node)
        context = FrameContext(needs, Plan(0, VideoConf(), {case.stage: place}), name, size)
        context.values |= self._inputs(case.stage, sample, size)
        inputs = context.inputs_of(case.stage)
        answer = self.executor.call(context, case.stage, case.model_id, case.host, inputs)
        for field, value in answer.outputs.items():
            context.values[Reference(case.stage, field)] = value
        result = score_stage(needs, case.stage, context.values, golden.values, ratio_of(size, golden.size))
        pictures = [value for value in inputs.values() if isinstance(value, OutgoingPictures)]
        count = sum(len(encoded.data) for picture in pictures for encoded in picture.jpeg())
        return answer.server_s or answer.delay_s, count, as_quality(*result) if result else None

    def _inputs(self, stage: str, sample: ProfileSample, size: tuple[int, int]) -> dict[Reference, Any]:
        """Returns the reference answers of all other stages, as if they were computed at this size."""
        needs, ratio = self.executor.needs, ratio_of(sample.golden.size, size)
        values: dict[Reference, Any] = {}
        for reference, value in sample.golden.values.items():
            if reference.source == stage:
                continue
            if isinstance(value, OutgoingPictures):
                values[reference] = OutgoingPictures(
                    value.name, *(resize_picture(picture, size) for picture in value.pictures)
                )
            elif needs.kinds[reference.source].outputs.get(reference.field) is Type.BOXES:
                values[reference] = scale_boxes(value, ratio)
            else:
                values[reference] = value
        return values


def _models(stage: Stage) -> list[tuple[int, str]]:
    """Returns model_id and the name of its files; the name is empty for a stage without a model."""
    if not stage.variants:
        return [(0, "")]
    return [(number, model_of(cards)) for number, cards in enumerate(stage.variants)]
