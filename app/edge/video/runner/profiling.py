"""Measures each stage with each model and size on each host, by frames of the job's own video."""

from __future__ import annotations

import itertools
import logging
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import FrameContext, FrameFailed, Outcome, Taken
from app.edge.video.runner.frame_transport import Sendable
from app.edge.video.runner.quality import RESOLUTION, as_quality, golden_plan, scored
from app.edge.video.runner.resize import fitted, moved_boxes, ratio_of, resized, size_of
from app.edge.video.runner.source_reader import Generator
from app.edge.video.runner.stage_client import HostAway, HostNotReady, StageFailed
from app.edge.video.work import RunnerWork
from app.inference.sources import open_reel
from app.kit.errors import Unavailable
from app.video.model.dag import Reference
from app.video.model.job import StageHost
from app.video.model.kinds import CLIP, Stage, Type
from app.video.model.plan import RESOLUTIONS, Plan, Role, StagePlace, VideoConf
from app.video.model.profile import Measurement, model_of

FRAMES = 12
STEP = 5
"""Of the source's frames each fifth is looked at, so that they differ."""
MOST_TRIES = 120
PAUSE_S = 0.5
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """golden: what the biggest models find at full size."""

    frame: Taken
    golden: Outcome


@dataclass(frozen=True)
class Setting:
    stage: str
    model_id: int
    model: str
    resolution: str
    host: StageHost


class Profiler:
    """tell: rows of Measurement as JSON, and how far it is, 0..1."""

    def __init__(
        self,
        work: RunnerWork,
        executor: Executor,
        tell: Callable[[Sequence[dict[str, Any]], float], None],
        stopping: threading.Event,
        frames: int = FRAMES,
    ) -> None:
        self._work, self._executor, self._tell, self._stopping = work, executor, tell, stopping
        self._frames = frames

    def run(self) -> None:
        """Raises SourceUnusable, Unavailable when no host runs the stages."""
        samples = self._samples()
        settings = list(self._settings(size_of(samples[0].frame.picture)))
        for place, setting in enumerate(settings):
            if self._stopping.is_set():
                return
            row = self._measured(setting, samples)
            self._tell([row.to_json()] if row else [], (place + 1) / max(1, len(settings)))

    def _samples(self) -> list[Sample]:
        reel, _, live = open_reel(self._work.source)
        is_clip = self._executor.needs.dag.generator == CLIP.name
        conf = VideoConf(fps=120.0, nskip=STEP - 1, ntracking=1 if is_clip else 0)
        generator = Generator(lambda: conf, clips=is_clip, realtime=False, live=live)
        frames = itertools.islice((frame for frame in generator.one_pass(reel) if not frame.tracked), self._frames)
        return [Sample(frame, self._golden(frame)) for frame in frames]

    def _golden(self, frame: Taken) -> Outcome:
        """Waits for hosts that are not there yet. Raises Unavailable after a while."""
        plan = Plan(0, VideoConf(), {})
        why = ""
        for _ in range(MOST_TRIES):
            try:
                whole = golden_plan(self._executor, plan)
                size = fitted(size_of(frame.picture), RESOLUTION)
                return self._executor.run(frame, whole, size, name=f"profile-{frame.n_loop}-golden")
            except FrameFailed as failure:
                why = str(failure)
                if self._stopping.wait(PAUSE_S):
                    break
        raise Unavailable(f"The stages cannot be run: {why}.", hint="Look at the host of the stages.")

    def _settings(self, source: tuple[int, int]) -> Iterator[Setting]:
        """Sizes above the source's own are those of the one before."""
        needs = self._executor.needs
        stages = {stage.name: stage for stage in self._work.content.stages}
        for host in self._executor.routes.hosts:
            for name in needs.dag.stages:
                for model_id, model in _models(stages[name]):
                    seen: set[tuple[int, int]] = set()
                    for resolution in RESOLUTIONS:
                        size = fitted(source, resolution)
                        if size not in seen:
                            seen.add(size)
                            yield Setting(name, model_id, model, resolution, host)

    def _measured(self, setting: Setting, samples: Sequence[Sample]) -> Measurement | None:
        """None where the host did not answer one of them."""
        delays, sizes, scores = [], [], []
        for sample in samples:
            if self._stopping.is_set():
                return None
            try:
                delay_s, size, score = self._one(setting, sample)
            except (HostAway, HostNotReady, StageFailed, FrameFailed) as error:
                logger.warning("%s on %s: %s", setting.stage, setting.host.node, error)
                continue
            delays.append(delay_s)
            sizes.append(size)
            scores += [] if score is None else [score]
        if not delays:
            return None
        return Measurement(
            setting.host.node,
            setting.stage,
            setting.model_id,
            setting.model,
            setting.resolution,
            round(statistics.median(delays), 6),
            round(statistics.mean(sizes), 1),
            round(statistics.mean(scores), 4) if scores else 1.0,
            len(delays),
        )

    def _one(self, setting: Setting, sample: Sample) -> tuple[float, int, float | None]:
        """Seconds of computing, bytes as JPEG, quality."""
        needs, golden = self._executor.needs, sample.golden
        size = fitted(size_of(sample.frame.picture), setting.resolution)
        name = f"profile-{sample.frame.n_loop}-{setting.resolution}-{setting.stage}-{setting.model_id}"
        place = StagePlace(setting.model_id, Role(setting.host.role), setting.host.ip, setting.host.node)
        passing = FrameContext(needs, Plan(0, VideoConf(), {setting.stage: place}), name, size)
        passing.values |= self._given(setting.stage, sample, size)
        inputs = passing.inputs_of(setting.stage)
        answer = self._executor.call(passing, setting.stage, setting.model_id, setting.host, inputs)
        for field, value in answer.outputs.items():
            passing.values[Reference(setting.stage, field)] = value
        result = scored(needs, setting.stage, passing.values, golden.values, ratio_of(size, golden.size))
        pictures = [value for value in inputs.values() if isinstance(value, Sendable)]
        count = sum(len(encoded.data) for picture in pictures for encoded in picture.jpeg())
        return answer.server_s or answer.delay_s, count, as_quality(*result) if result else None

    def _given(self, stage: str, sample: Sample, size: tuple[int, int]) -> dict[Reference, Any]:
        """What golden found, but for this stage, as if it had been found at that size."""
        needs, ratio = self._executor.needs, ratio_of(sample.golden.size, size)
        found: dict[Reference, Any] = {}
        for reference, value in sample.golden.values.items():
            if reference.source == stage:
                continue
            if isinstance(value, Sendable):
                found[reference] = Sendable(value.name, *(resized(picture, size) for picture in value.pictures))
            elif needs.kinds[reference.source].outputs.get(reference.field) is Type.BOXES:
                found[reference] = moved_boxes(value, ratio)
            else:
                found[reference] = value
        return found


def _models(stage: Stage) -> list[tuple[int, str]]:
    """model_id and the name of its files; empty for a stage without a model."""
    if not stage.variants:
        return [(0, "")]
    return [(number, model_of(cards)) for number, cards in enumerate(stage.variants)]
