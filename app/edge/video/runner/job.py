"""One job: reads frames, has them processed as the plan says, and reports the results. It continues whatever a frame, a
host, its agent or the web server does, until its source ends or it is ended."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.edge.media.broadcaster import Broadcaster
from app.edge.video.runner.checkpoint import CheckpointFile
from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameFailed, needs_of
from app.edge.video.runner.frame_generator import Generator, is_slower
from app.edge.video.runner.frame_queues import FrameQueue
from app.edge.video.runner.frame_transport import H264Uplinks
from app.edge.video.runner.frame_workers import FailureBudget, FrameResult, FrameWorkers
from app.edge.video.runner.plan_metrics import FrameCounts, PlanMetrics
from app.edge.video.runner.preview import SNAPSHOT_S, PreviewRenderer, PreviewScene, PreviewStream, draw_scene
from app.edge.video.runner.profiler import Profiler
from app.edge.video.runner.quality import ReferenceSampler
from app.edge.video.runner.recorder import SwitchableRecorder
from app.edge.video.runner.reporter import EVERY_S, AgentClient, PlanRequester, Reporter, plan_request
from app.edge.video.runner.results import FrameResults
from app.edge.video.runner.source_reader import AFTER_DAMAGE, JobSource, Outage, SourceReader
from app.edge.video.runner.stage_client import StageClient
from app.edge.video.runner.stage_router import PROBE_S, StageRouter
from app.edge.video.stages.registry import kinds as kinds_of_node
from app.edge.video.work import LOOK_S, RunnerWork, WatchedWork
from app.kit.network.tls import LOOK_S as LOOK_TLS_S
from app.kit.process.periodic_thread import PeriodicThread
from app.kit.text.json_values import JsonObject
from app.video.errors import BadStage
from app.video.model.job import Ending, Mode
from app.video.model.kinds import CLIP, StageKind
from app.video.model.plan import Encoder, Plan, VideoConf
from app.video.scheduling.source_limits import within_source

PREPARE_S = 5.0
"""Seconds for which a plan goes on while models of the next one are opened."""
PATIENCE_S = 5.0
"""Seconds that the job's end waits for each of its threads."""
logger = logging.getLogger(__name__)


class JobRunner:
    """Runs one job. Its parts are created in the order of their dependencies; none runs before `start`."""

    def __init__(self, work: RunnerWork, path: Path, kinds: Mapping[str, StageKind] | None = None) -> None:
        """
        Args:
            work: the work of the job.
            path: the file with the work, which is read again when it changes.
            kinds: the kinds of this node, by name; None: all installed ones.
        """
        content = work.content
        self.work, self.uid = work, content.uid
        self._watched = WatchedWork(path, RunnerWork.read)
        self.plan: Plan | None = None
        self._next_plan: Plan | None = None
        """The plan that is prepared while `plan` goes on, if there is one."""
        self._planning = threading.Lock()
        self._started, self._stopping = threading.Event(), threading.Event()
        self._ending: tuple[Ending, str] | None = None
        self._noted: set[str] = set()
        self._checkpoint = CheckpointFile(work.folder)

        # frames
        self._source = JobSource(work.source)
        self.queue: FrameQueue[CapturedFrame] = FrameQueue(leaky=content.realtime)
        self._generator = Generator(
            self._get_conf,
            clips=content.dag.generator == CLIP.name,
            realtime=content.realtime,
            live=self._source.is_live,
            n_loop=self._checkpoint.state.n_loop,
            gate=content.dag.gate,
            sleep=self._stopping.wait,
        )

        # metrics and reports for the agent
        self._agent = AgentClient(work.agent_url, self.uid)
        self.metrics = PlanMetrics(self._count_left_out)
        self._reporter = Reporter(self.uid, self._agent, self._checkpoint, plan_result=self.metrics.result)
        self._outage = Outage(self.metrics, self._reporter.note)
        self._failures = FailureBudget(self._reporter.note)
        self.requester = PlanRequester(self._request_plan)

        # stages
        self._client, self._uplinks = StageClient(work.tls), H264Uplinks()
        self._router = StageRouter(work.node, content.hosts, self._client.is_there, self._handle_host_change)
        needs = needs_of(content.dag, _kinds_of(work, kinds_of_node() if kinds is None else kinds))
        self._executor = Executor(self.uid, needs, content.stages, self._router, self._client, self._uplinks)

        # results
        self.live = PreviewStream()
        draw, note, is_run = partial(draw_scene, needs), self._reporter.note, content.mode is Mode.RUN
        broadcast = content.dag.broadcast
        self.recording = SwitchableRecorder(work.folder, draw, note)
        self.recording.follow(content.dag.recording if is_run else None)
        self.broadcaster = (
            Broadcaster(broadcast, work.media_server, content.uid, draw, note)
            if broadcast is not None and is_run
            else None
        )
        self._outputs = [output for output in (self.recording, self.broadcaster) if output is not None]
        self.renderer = PreviewRenderer(needs, self.live, self._agent.show, self._show)
        self._sampler = ReferenceSampler(self._executor, self.metrics.compared, self._is_busy)
        self._results = FrameResults(
            needs,
            self.metrics,
            self._reporter,
            self.renderer,
            self._sampler,
            self._checkpoint,
            realtime=content.realtime,
            source_fps=self._get_source_fps,
        )

        # threads
        self._reader = SourceReader(
            self._generator,
            self._source,
            self.queue,
            content.restart_policy,
            outage=self._outage,
            note=self._reporter.note,
            over=self._end,
            stopping=self._stopping,
        )
        self._workers = FrameWorkers(
            self.queue,
            self._executor,
            lambda: self.plan,
            self._take,
            realtime=content.realtime,
            on_over=self._report_ending,
        )
        steps = (
            ("look", self._look, LOOK_S),
            ("report", self._report, EVERY_S),
            ("probe", self._router.probe, PROBE_S),
            ("certificates", lambda: self._client.use(self.work.tls), LOOK_TLS_S),
            ("snapshot", self.renderer.due, SNAPSHOT_S),
        )
        self._periodic = [
            PeriodicThread(name, step, every_s=every_s, patience_s=PATIENCE_S) for name, step, every_s in steps
        ]

    @property
    def hi_s(self) -> float:
        """Seconds that a frame may take according to the current constraint."""
        return self.work.content.constraint.hi

    def start(self) -> None:
        state = self._checkpoint.state
        self.renderer.start()
        if state.ending:
            self._reporter.end(state.ending, state.reason)
        elif self.work.content.mode is Mode.PROFILE:
            threading.Thread(target=self._run_profile, name="profile", daemon=True).start()
        else:
            self._apply(self.work)
            for output in self._outputs:
                output.start()
            self._workers.start()
            self._sampler.start()
            threading.Thread(target=self._read, name="source", daemon=True).start()
        for thread in self._periodic:
            thread.start()

    def close(self) -> None:
        """Reports the results so far, if the agent is reachable."""
        self._stopping.set()
        self._started.set()
        self._workers.close()
        self._sampler.close()
        for thread in self._periodic:
            thread.close()
        self.renderer.close()
        for output in self._outputs:
            output.close()
        self._report()
        self._executor.close()
        self._client.close()
        self._agent.close()

    def health(self) -> JsonObject:
        return {
            "status": "ok",
            "job_uid": self.uid,
            "plan": self.plan.seq if self.plan else None,
            "processed": self.metrics.processed_in_all,
            "waiting": len(self.queue),
            "viewers": self.live.viewers,
            "ending": self._checkpoint.state.ending,
            "failed": self._failures.frames,
            "last_failure": self._failures.last,
        }

    def flags(self) -> list[str]:
        """Returns `degraded` if a stage is not on its planned host, `no_signal` if the source gives no pictures,
        `no_broadcast` if its picture is not broadcast although it should be."""
        places = self.plan.flow_mapping.values() if self.plan else ()
        routes = [self._router.route(place) for place in places]
        is_degraded = any(route is None or not route.is_planned for route in routes)
        unsent = self.broadcaster.flags if self.broadcaster is not None else []
        return [*(["degraded"] if is_degraded else []), *self._outage.flags, *unsent]

    # work and plan

    def _look(self) -> None:
        work = self._watched.changed()
        if work is not None:
            self._apply(work)
        is_over = self._ending is not None or self._checkpoint.state.ending
        if not is_over and self._next_plan is None and self.work.content.mode is Mode.RUN:
            metrics, plan = self.metrics, self.plan
            self.requester.step(
                has_plan=plan is not None,
                frames=metrics.frames,
                late=metrics.late_in_row,
                is_beyond_source=plan is not None and self._is_beyond_source(plan),
            )

    def _is_beyond_source(self, plan: Plan) -> bool:
        """Returns whether a plan promises more than the source gives; as fast as possible, a rate is no promise."""
        return self.work.content.realtime and self._limit(plan.video_conf) != plan.video_conf

    def _apply(self, work: RunnerWork) -> None:
        self.work = replace(work, folder=self.work.folder)
        self._executor.hi_s = work.content.constraint.hi
        self._client.use(work.tls)
        self._router.update(work.content.hosts)
        self.recording.follow(work.content.dag.recording)
        plan = work.content.plan
        if plan is None:
            return
        with self._planning:
            newest = self._next_plan or self.plan
            if newest is not None and plan.seq <= newest.seq:
                if plan.seq < newest.seq:
                    logger.info("Plan %s is stale: %s is newer", plan.seq, newest.seq)
                return
            self._next_plan = plan
        threading.Thread(target=self._prepare, args=(plan, self.plan), name="prepare", daemon=True).start()

    def _prepare(self, plan: Plan, before: Plan | None) -> None:
        """Has a plan's models opened while the one before it goes on, or before the first frame is read, and begins it,
        unless there is a newer one."""
        try:
            self._executor.prepare(plan, before, PREPARE_S)
        finally:
            with self._planning:
                if plan is self._next_plan:
                    self._begin(plan)
                    self._next_plan = None

    def _begin(self, plan: Plan) -> None:
        for place in plan.flow_mapping.values():
            if self._router.planned(place) is None:
                node = place.node or place.node_ip
                self._note_once(f"The stages of {node} cannot be called from here: they run on {self.work.node}.")
        self.plan = plan
        self.metrics.begin(plan.seq, partial(self._limit_fps, plan.video_conf))
        if plan.video_conf.encoder is Encoder.H264 and not self._uplinks.h264:
            self._note_once("This node cannot make H264 (libx264 is missing): pictures go as JPEG.")
        self._started.set()

    def _get_conf(self) -> VideoConf:
        return self.plan.video_conf if self.plan is not None else VideoConf()

    def _limit_fps(self, conf: VideoConf) -> float:
        """Returns how many frames per second are processed at most; as fast as possible, there is no limit."""
        return self._limit(conf).processed_fps if self.work.content.realtime else math.inf

    def _limit(self, conf: VideoConf) -> VideoConf:
        return within_source(conf, self._results.source_facts())

    def _get_source_fps(self) -> float:
        """Frames per second of the source; 0 while unknown. A live source may name a rate that it does not keep."""
        named = self._source.fps
        measured = self._generator.rate.fps if self._source.is_live and self.work.content.realtime else 0.0
        return measured if measured and (not named or is_slower(measured, named)) else named

    def _request_plan(self, why: str) -> bool:
        state = self._checkpoint.state
        state.asked += 1
        self._checkpoint.write()
        has_arrived = self._agent.ask(
            plan_request(
                self.uid,
                self.work.content.dag,
                result=self.metrics.result(),
                constraint=self.work.content.constraint.to_json(),
                why=why,
                number=state.asked,
                newest=self._results.source_facts(),
            )
        )
        if has_arrived:
            self.metrics.requested()
        return has_arrived

    def _handle_host_change(self, node: str, is_there: bool) -> None:
        if is_there:
            self._reporter.note(f"The stages of {node} can be reached again.")
            return
        self._reporter.note(f"The stages of {node} cannot be reached: they run on {self.work.node} meanwhile.")
        self.requester.fell_back()

    # frames

    def _read(self) -> None:
        self._started.wait()
        if not self._stopping.is_set():
            self._reader.run()

    def _take(self, result: FrameResult) -> None:
        """Takes results in the order of the frames, one at a time."""
        if result.failure is not None:
            self._handle_failure(result.failure)
            return
        if result.outcome is not None:
            self._failures.good()
        self._results.take(result, self.hi_s)

    def _handle_failure(self, failure: FrameFailed) -> None:
        why = self._failures.failed(failure)
        if not why:
            return
        if self.work.content.restart_policy in AFTER_DAMAGE:
            self._reporter.note(f"It goes on although {why}")
            return
        self._end(Ending.ERROR, why)
        self._stopping.set()
        self.queue.close()

    def _is_busy(self) -> bool:
        return self.work.content.realtime and self.queue.is_full

    def _count_left_out(self) -> FrameCounts:
        return FrameCounts(self._generator.skipped, self.queue.dropped, self._generator.still)

    def _show(self, scene: PreviewScene) -> None:
        for output in self._outputs:
            output.show(scene)

    # reports and the end

    def _report(self) -> None:
        broadcast = self.broadcaster.state() if self.broadcaster is not None else None
        self._reporter.step(self.flags(), self._outage.silent_s, broadcast)

    def _end(self, ending: Ending, reason: str) -> None:
        """Ends the job. The first reason counts."""
        if self._ending is None:
            self._ending = (ending, reason)

    def _report_ending(self) -> None:
        if self._ending is not None:
            self._reporter.end(self._ending[0].value, self._ending[1])

    def _run_profile(self) -> None:
        try:
            Profiler(self.work, self._executor, self._reporter.profiled, self._stopping).run()
            ending = (Ending.FINISHED, "all was measured")
        except Exception as error:  # whatever it is, the job ends with it as its reason
            logger.exception("Profiling has failed")
            ending = (Ending.ERROR, f"profiling has failed: {getattr(error, 'message', None) or error}"[:300])
        if not self._stopping.is_set():
            self._ending = ending
            self._reporter.end(ending[0].value, ending[1])

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._reporter.note(text)


def _kinds_of(work: RunnerWork, available: Mapping[str, StageKind]) -> dict[str, StageKind]:
    """Returns the kind of each stage of the DAG; this node must have all of them."""
    named = {stage.name: stage.kind for stage in work.content.stages}
    missing = [name for name in work.content.dag.stages if named.get(name, "") not in available]
    if missing:
        raise BadStage(f"This node has no kind of stage for {', '.join(missing)}.", hint="Install it on the node, too.")
    return {name: available[named[name]] for name in work.content.dag.stages}
