"""One job: reads frames, has them processed as the plan says, and tells what was found. It goes on whatever a frame, a
host, its agent or the web does, until its source ends or it is ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import FrameFailed, Taken, needs_of
from app.edge.video.runner.frame_transport import Uplinks
from app.edge.video.runner.frame_workers import Done, FailureBudget, FrameQueue, FrameWorkers
from app.edge.video.runner.plan_metrics import Counted, PlanMetrics
from app.edge.video.runner.preview import SNAPSHOT_S, Live, PreviewRenderer
from app.edge.video.runner.profiling import Profiler
from app.edge.video.runner.quality import ReferenceSampler
from app.edge.video.runner.reporter import EVERY_S, AgentClient, CheckpointFile, PlanRequester, Reporter, plan_request
from app.edge.video.runner.results import Results
from app.edge.video.runner.source_reader import AFTER_DAMAGE, Generator, Outage, SourceReader
from app.edge.video.runner.stage_client import PROBE_S, Routes, StageClient
from app.edge.video.stages.registry import kinds as known_kinds
from app.edge.video.work import LOOK_S, RunnerWork, WatchedWork
from app.inference.sources import open_reel
from app.inference.sources.factory import is_stream
from app.inference.sources.frames import VideoSource
from app.kit.process.periodic_thread import PeriodicThread
from app.video.errors import BadStage
from app.video.model.job import Ending, Mode, StageHost
from app.video.model.kinds import CLIP, StageKind
from app.video.model.plan import Encoder, Plan, VideoConf

PATIENCE_S = 5.0
"""So long its end waits for each of its threads."""
logger = logging.getLogger(__name__)


class Runner:
    """kinds: those of this node; path: of the file with the work, to be read again when it changes."""

    def __init__(self, work: RunnerWork, path: Path, kinds: Mapping[str, StageKind] | None = None) -> None:
        content = work.content
        self.work, self.uid = work, content.uid
        self.keeper = CheckpointFile(work.folder)
        self.client, self.uplinks, self.live = StageClient(), Uplinks(), Live()
        self.plan: Plan | None = None
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._ending: tuple[Ending, str] | None = None
        self._said: set[str] = set()

        self.mouth = AgentClient(work.agent_url, self.uid)
        self.measuring = PlanMetrics(self._counted)
        self.reporter = Reporter(
            self.uid,
            self.mouth,
            self.keeper,
            plan_result=self.measuring.result,
            flags=self.flags,
            silent_s=lambda: self.outage.silent_s,
        )
        self.outage = Outage(self.measuring, self.reporter.note)
        self.routes = Routes(work.node, content.hosts, self._is_there, self._host_changed)
        self.needs = needs_of(content.dag, _kinds_of(work, known_kinds() if kinds is None else kinds))
        self.executor = Executor(self.uid, self.needs, content.stages, self.routes, self.client, self.uplinks)
        self.painter = PreviewRenderer(self.needs, self.live, self.mouth.show)
        self.queue: FrameQueue[Taken] = FrameQueue(leaky=content.realtime)
        self.generator: Generator | None = None
        self._reel: VideoSource | None = None
        self.lanes = FrameWorkers(
            self.queue, self.executor, lambda: self.plan, self._take, realtime=content.realtime, on_over=self._is_over
        )
        self.golden = ReferenceSampler(
            self.executor, self.measuring.compared, lambda: content.realtime and self.queue.is_full
        )
        self.results = Results(
            self.needs,
            self.measuring,
            self.reporter,
            self.painter,
            self.golden,
            realtime=content.realtime,
            source_fps=self._source_fps,
        )
        self.faults = FailureBudget(self.reporter.note)
        self.asker = PlanRequester(self._ask)
        self._watched = WatchedWork(path, RunnerWork.read)
        steps = (
            ("look", self._look, LOOK_S),
            ("report", self.reporter.step, EVERY_S),
            ("probe", self.routes.probe, PROBE_S),
            ("snapshot", self.painter.due, SNAPSHOT_S),
        )
        self._repeating = [
            PeriodicThread(name, step, every_s=every_s, patience_s=PATIENCE_S) for name, step, every_s in steps
        ]

    @property
    def hi_s(self) -> float:
        return self.work.content.constraint.hi

    def start(self) -> None:
        kept = self.keeper.kept
        self.painter.start()
        if kept.ending:
            self.reporter.end(kept.ending, kept.reason)
        elif self.work.content.mode is Mode.PROFILE:
            threading.Thread(target=self._profile, name="profile", daemon=True).start()
        else:
            self._take_on(self.work, is_first=True)
            self.lanes.start()
            self.golden.start()
            threading.Thread(target=self._read, name="source", daemon=True).start()
        for repeating in self._repeating:
            repeating.start()

    def close(self) -> None:
        """What has been found by now is told, if the agent is there."""
        self._stopping.set()
        self._started.set()
        self.lanes.close()
        self.golden.close()
        for repeating in self._repeating:
            repeating.close()
        self.painter.close()
        self.reporter.step()
        self.executor.close()
        self.client.close()
        self.mouth.close()

    def health(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "job_uid": self.uid,
            "plan": self.plan.seq if self.plan else None,
            "processed": self.measuring.processed_in_all,
            "waiting": len(self.queue),
            "viewers": self.live.viewers,
            "ending": self.keeper.kept.ending,
            "failed": self.faults.frames,
            "last_failure": self.faults.last,
        }

    def flags(self) -> list[str]:
        """degraded: a stage runs elsewhere than planned; no_signal: the source gives no pictures."""
        places = self.plan.flow_mapping.values() if self.plan else ()
        routes = [self.routes.route(place) for place in places]
        is_degraded = any(route is None or not route.is_planned for route in routes)
        return [*(["degraded"] if is_degraded else []), *self.outage.flags]

    # what is to be done

    def _look(self) -> None:
        fresh = self._watched.changed()
        if fresh is not None:
            self._take_on(fresh)
        if self._ending is None and not self.keeper.kept.ending and self.work.content.mode is Mode.RUN:
            self.asker.step(
                has_plan=self.plan is not None, frames=self.measuring.frames, p95=self.measuring.p95(), hi_s=self.hi_s
            )

    def _take_on(self, work: RunnerWork, *, is_first: bool = False) -> None:
        self.work = replace(work, folder=self.work.folder)
        self.executor.hi_s = work.content.constraint.hi
        self.routes.update(work.content.hosts)
        plan = work.content.plan
        if plan is None:
            if is_first:
                self._note_once("There is no plan yet: nothing is processed until there is one.")
            return
        if self.plan is not None and plan.seq <= self.plan.seq:
            if plan.seq < self.plan.seq:
                logger.info("Plan %s is stale: %s is in force", plan.seq, self.plan.seq)
            return
        self.plan = plan
        self.measuring.begin(plan.seq)
        if plan.video_conf.encoder is Encoder.H264 and not self.uplinks.h264:
            self._note_once("This node cannot make H264 (libx264 is missing): pictures go as JPEG.")
        self._started.set()

    def _conf(self) -> VideoConf:
        return self.plan.video_conf if self.plan is not None else VideoConf()

    # frames

    def _read(self) -> None:
        self._started.wait()
        if self._stopping.is_set():
            return
        content, live = self.work.content, is_stream(self.work.source)
        self.generator = Generator(
            self._conf,
            clips=content.dag.generator == CLIP.name,
            realtime=content.realtime,
            live=live,
            n_loop=self.keeper.kept.n_loop,
            sleep=self._sleep,
        )
        SourceReader(
            self.generator,
            self._open,
            self.queue,
            content.restart_policy,
            live=live,
            outage=self.outage,
            note=self.reporter.note,
            over=self._end,
            stopping=self._stopping,
        ).run()

    def _sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _open(self) -> VideoSource:
        self._reel = open_reel(self.work.source)[0]
        return self._reel

    def _source_fps(self) -> float:
        return self._reel.fps if self._reel is not None else 0.0

    def _take(self, done: Done) -> None:
        """In the order of the frames, one at a time."""
        if done.failure is not None:
            self._failed(done.failure)
            return
        if done.outcome is not None:
            self.faults.good()
        self.results.take(done, self.hi_s)

    def _failed(self, failure: FrameFailed) -> None:
        why = self.faults.failed(failure)
        if not why:
            return
        if self.work.content.restart_policy in AFTER_DAMAGE:
            self.reporter.note(f"It goes on although {why}")
            return
        self._end(Ending.ERROR, why)
        self._stopping.set()
        self.queue.close()

    def _counted(self) -> Counted:
        generator = getattr(self, "generator", None)
        queue = getattr(self, "queue", None)
        return Counted(generator.skipped if generator else 0, queue.dropped if queue is not None else 0)

    # its end

    def _end(self, ending: Ending, reason: str) -> None:
        """The first reason counts."""
        if self._ending is None:
            self._ending = (ending, reason)

    def _is_over(self) -> None:
        if self._ending is not None:
            self.reporter.end(self._ending[0].value, self._ending[1])

    def _profile(self) -> None:
        try:
            Profiler(self.work, self.executor, self.reporter.profiled, self._stopping).run()
            ending = (Ending.FINISHED, "all was measured")
        except Exception as error:
            logger.exception("Profiling has failed")
            ending = (Ending.ERROR, f"profiling has failed: {getattr(error, 'message', None) or error}"[:300])
        if not self._stopping.is_set():
            self._ending = ending
            self.reporter.end(ending[0].value, ending[1])

    # the agent

    def _ask(self, why: str) -> bool:
        kept = self.keeper.kept
        kept.asked += 1
        self.keeper.write()
        has_heard = self.mouth.ask(
            plan_request(
                self.uid,
                self.work.content.dag,
                result=self.measuring.result(),
                constraint=self.work.content.constraint.to_json(),
                why=why,
                asked=kept.asked,
                newest=self.results.newest,
            )
        )
        if has_heard:
            self.measuring.asked()
        return has_heard

    def _is_there(self, host: StageHost) -> bool:
        return self.client.is_there(host)

    def _host_changed(self, node: str, is_there: bool) -> None:
        if is_there:
            self.reporter.note(f"The stages of {node} can be reached again.")
            return
        self.reporter.note(f"The stages of {node} cannot be reached: they run on {self.work.node} meanwhile.")
        self.asker.fell_back()

    def _note_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.reporter.note(text)


def _kinds_of(work: RunnerWork, known: Mapping[str, StageKind]) -> dict[str, StageKind]:
    """Of each stage of the DAG. Raises BadStage for a kind that this node does not have."""
    found = {stage.name: stage.kind for stage in work.content.stages}
    missing = [name for name in work.content.dag.stages if found.get(name, "") not in known]
    if missing:
        raise BadStage(f"This node has no kind of stage for {', '.join(missing)}.", hint="Install it on the node, too.")
    return {name: known[found[name]] for name in work.content.dag.stages}
