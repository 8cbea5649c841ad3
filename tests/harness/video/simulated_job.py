"""A job whose stages, link and clock are simulated: what a policy's plans would have brought, frame by frame."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from app.edge.video.runner.frame_context import FrameOutcome, Timing
from app.edge.video.runner.frame_queues import ROOM, ConcurrencyLimit
from app.edge.video.runner.frame_workers import SMOOTH
from app.edge.video.runner.plan_metrics import FrameCounts, PlanMetrics
from app.edge.video.runner.reporter import PlanRequester
from app.edge.video.work import LOOK_S
from app.video.model.plan import Encoder, Plan, read_flow_mapping, read_video_conf
from app.video.scheduling.contract import Answer, DagInfo, GeneratorInfo, Measured, NodeInfo, ResourceInfo
from app.video.scheduling.predictor import FRAME_S
from app.video.scheduling.profile_model import H264_QUALITY, H264_SHARE, JPEG_BYTES, PIXELS, compute_kept_quality

FPS = 24.0
HI = 0.3
"""The longest delay allowed, seconds."""
LATENCY_S = 0.02
APPLY_S = 0.3
BUSY_SHARE, CREDIT_S = 0.4, 0.02
"""Of a core that stages share with the runner and with a program that computes without end."""
DAG: DagInfo = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
    "input": {},
    "stages": {
        "face_detection": {"kind": "detection", "n_models": 3, "before": [], "pictures": True},
        "face_alignment": {"kind": "alignment", "n_models": 1, "before": ["face_detection"], "pictures": True},
    },
}
TRUE_QUALITY = {"240p": 0.90, "360p": 0.94, "480p": 0.97, "720p": 1.0, "1080p": 1.0}


@dataclass(frozen=True)
class StageCosts:
    """What stages, runner and pictures cost on the two nodes."""

    big_720p_s: Mapping[str, Mapping[str, float]]
    """stage → node → seconds of computing with the big model at 720p."""
    fixed_share: float = 0.2
    """Of that time: what does not depend on the size."""
    of_model: Sequence[float] = (1.0, 0.5, 0.25)
    """By model_id: the share of the big model's time."""
    quality: Mapping[str, float] = field(default_factory=lambda: TRUE_QUALITY)
    quality_of_model: Sequence[float] = (1.0, 0.97, 0.92)
    runner_s: float = 0.0
    """Seconds of the edge's processor that the runner takes for a frame, beside the stages there."""
    h264_bytes: float = 1.0
    """Bytes of a frame in H264 through those that the predictor expects."""

    def service_s(self, stage: str, node: str, model: int, resolution: str) -> float:
        share = self.fixed_share + (1 - self.fixed_share) * PIXELS[resolution] / PIXELS["720p"]
        return self.big_720p_s[stage][node] * self.of_model[model] * share

    def rows(self) -> list[Measured]:
        """The profile: the stages alone."""
        return [
            Measured(
                node=node,
                stage=stage,
                model_id=model,
                resolution=resolution,
                delay_s=self.service_s(stage, node, model, resolution),
                bytes=JPEG_BYTES[resolution],
                quality=self.quality[resolution] * self.quality_of_model[model],
            )
            for stage, facts in DAG["stages"].items()
            for node in ("edge0", "cloud0")
            for model in range(facts["n_models"])
            for resolution in ("240p", "360p", "480p", "720p")
        ]

    def quality_of(self, plan: tuple[Any, Any]) -> float:
        conf, places = plan
        quality = self.quality[conf["resolution"]] * min(
            self.quality_of_model[one["model_id"]] for one in places.values()
        )
        is_away = any(one["node_role"] != "host" for one in places.values())
        coded = H264_QUALITY if is_away and conf["encoder"] == "H264" else 1.0
        return quality * coded * compute_kept_quality(conf["nskip"], conf["ntracking"])


WEAK_EDGE = StageCosts(
    {"face_detection": {"edge0": 0.12, "cloud0": 0.02}, "face_alignment": {"edge0": 0.02, "cloud0": 0.005}}
)
EVEN_NODES = StageCosts(
    {"face_detection": {"edge0": 0.031, "cloud0": 0.031}, "face_alignment": {"edge0": 0.009, "cloud0": 0.009}},
    fixed_share=0.85,
    of_model=(1.0, 0.45, 0.4),
    quality={"240p": 0.955, "360p": 0.995, "480p": 1.0, "720p": 1.0},
    quality_of_model=(1.0, 0.98, 0.98),
    runner_s=0.012,
    h264_bytes=2.0,
)
"""As `ops/bench video` has it: edge and cloud are a core each of one machine, the runner is on that of the edge."""


def service_s(stage: str, node: str, model: int, resolution: str) -> float:
    return WEAK_EDGE.service_s(stage, node, model, resolution)


def profile() -> list[Measured]:
    return WEAK_EDGE.rows()


def node(name: str, role: str, up_mbps: float | None = None, **changed: Any) -> NodeInfo:
    service = {"n_process": 1, "cpu_ratio": 0.0, "mem_ratio": 0.1, "queue": 0}
    facts: Any = {
        "node": name,
        "ip": f"ip-{name}",
        "role": role,
        "online": True,
        "cpu_ratio": 0.0,
        "mem_ratio": 0.1,
        "cores": 1,
        "accelerators": [],
        "up_mbps": up_mbps,
        "down_mbps": up_mbps,
        "age_s": 1.0,
        "service": dict.fromkeys(DAG["stages"], service),
        **changed,
    }
    return facts


def resources(up_mbps: float | None = None, *, others: float = 0.0, **of_cloud: Any) -> ResourceInfo:
    """others: the share of the edge's processor that other programs use."""
    edge = node("edge0", "host", cpu_ratio=others)
    return {"ip-edge0": edge, "ip-cloud0": node("cloud0", "cloud", up_mbps, **of_cloud)}


def call_policy(policy: Callable[..., Answer], state: dict[str, Any], **changed: Any) -> Answer:
    """One call, over a link of 20 Mbit/s and before any plan unless `changed` says otherwise."""
    return policy(
        **{
            "job_uid": "GLOBAL_ID_1.SUB_ID_1",
            "dag": DAG,
            "resource_info": resources(20.0),
            "last_plan_res": None,
            "user_constraint": {"delay": (-1.0, HI), "quality": 0.0, "given": {}},
            "generator_output": {"fps": FPS, "width": 1280, "height": 720},
            "state": state,
            **changed,
        }
    )


def fixed_plan(
    places: Mapping[str, str], resolution: str, model: int = 0, **conf: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    roles = {"edge0": "host", "cloud0": "cloud"}
    return (
        {"resolution": resolution, "fps": FPS, "nskip": 0, "ntracking": 0, "encoder": "JPEG", **conf},
        {
            stage: {
                "model_id": min(model, DAG["stages"][stage]["n_models"] - 1),
                "node_role": roles[name],
                "node_ip": f"ip-{name}",
                "node": name,
            }
            for stage, name in places.items()
        },
    )


@dataclass
class Ran:
    """e2e: of processed frames, seconds, with the time each came; stands_for: the frames of the source that each
    processed one answers, itself and those that are left out after it; missed: those without an answer, because the
    frame that should have brought it was dropped; quality: of each processed frame's plan; foretold: median measured
    and delay predicted of the same plan, at each report; used: the nodes of each processed frame."""

    e2e: list[tuple[float, float]] = field(default_factory=list)
    stands_for: list[int] = field(default_factory=list)
    missed: int = 0
    qualities: list[float] = field(default_factory=list)
    changed_at: list[float] = field(default_factory=list)
    reasons: list[tuple[float, str]] = field(default_factory=list)
    foretold: list[tuple[float, float]] = field(default_factory=list)
    used: list[tuple[float, frozenset[str]]] = field(default_factory=list)

    def note_foretold(self, result: Mapping[str, Any] | None) -> None:
        if result and (predicted := re.search(r"predicted ([0-9.]+) s", self.reasons[-1][1])):
            self.foretold.append((result["e2e_p50"], float(predicted[1])))

    @property
    def demand(self) -> int:
        """Frames of the source."""
        return sum(self.stands_for) + self.missed

    def violation_rate(self, hi: float) -> float:
        """The share of the source's frames that were answered too late or not at all."""
        late = sum(frames for (_, took), frames in zip(self.e2e, self.stands_for, strict=True) if took > hi)
        return (late + self.missed) / self.demand

    @property
    def quality(self) -> float:
        """The mean over the source's answered frames."""
        weighted = zip(self.qualities, self.stands_for, strict=True)
        return sum(quality * frames for quality, frames in weighted) / sum(self.stands_for)


@dataclass
class _Frame:
    """stands_for: frames of the source; times in seconds since the begin."""

    captured: float
    stands_for: int
    began: float = 0.0
    ended: float = 0.0
    outcome: FrameOutcome | None = None
    places: Mapping[str, Any] = field(default_factory=dict)


class SimulatedJob:
    """One process at each node, one line between them, and before them the queue and the limit of a live runner. What
    is measured of a plan and when another is requested are the runner's own. mbps, slowed: by seconds since the begin;
    slowed: factor of the edge's times; starved: node → how much longer than it says it keeps frames, as if its
    process got no core. is_busy: by seconds since the begin, whether another program computes on the edge without
    end: of its core the stages have BUSY_SHARE, and what they did not use of that for CREDIT_S at most. is_told:
    the resource picture knows the bandwidth at the begin. opening_s: seconds of a node's processor for opening a
    model, beside the frames of the plan before. fps: of the source. noise: standard deviation of the logarithm of
    each computing time, the same for each plan."""

    def __init__(
        self,
        mbps: Callable[[float], float],
        *,
        hi: float = 0.3,
        seconds: float = 60.0,
        quality: float = 0.0,
        rows: Sequence[Measured] | None = None,
        slowed: Callable[[float], float] = lambda _: 1.0,
        is_told: bool = False,
        starved: Mapping[str, float] | None = None,
        costs: StageCosts = WEAK_EDGE,
        opening_s: float = 0.0,
        fps: float = FPS,
        noise: float = 0.0,
        is_busy: Callable[[float], bool] = lambda _: False,
    ) -> None:
        self.noise, self.is_busy = noise, is_busy
        self.mbps, self.hi, self.seconds, self.wanted, self.slowed = mbps, hi, seconds, quality, slowed
        self.costs, self.opening_s, self.fps = costs, opening_s, fps
        self.rows = costs.rows() if rows is None else list(rows)
        self.told = mbps(0.0) if is_told else None
        self.starved = starved or {}

    def run(self, policy: Callable[..., Any]) -> Ran:
        self.now, self.ran = 0.0, Ran()
        self.waiting, self.under_way = deque[_Frame](), list[_Frame]()
        self.opened = set[tuple[str, str, int]]()
        self.opening_until = {"edge0": 0.0, "cloud0": 0.0}
        self.free = {"edge0": 0.0, "cloud0": 0.0, "link": 0.0}
        self.credit_s, self.computed_s, self.requested_at = CREDIT_S, 0.0, 0.0
        self.random, self.dropped, self.took_s, self.state = Random(1), 0, 0.0, dict[str, Any]()
        self.limit = ConcurrencyLimit(realtime=True)
        self.metrics = PlanMetrics(lambda: FrameCounts(dropped=self.dropped), self._clock)
        requester = PlanRequester(lambda _: self._request_plan(policy), self._clock)
        self.plan: Plan | None = None
        self.answer: tuple[Any, Any] = {}, {}
        self.coming: tuple[float, Plan] | None = None
        look_at, place = 0.0, 0
        for number in range(int(self.seconds * self.fps)):
            self._work_until(number / self.fps)
            if self.coming is None and self.now >= look_at:
                look_at = self.now + LOOK_S
                late = self.metrics.late_in_row
                requester.step(has_plan=self.plan is not None, frames=self.metrics.frames, late=late)
            if self.coming and self.now >= self.coming[0]:
                (_, self.plan), self.coming, place = self.coming, None, 0
                self.metrics.begin(self.plan.seq)
                self.ran.changed_at.append(self.now)
            assert self.plan is not None
            if place == 0:
                self.waiting.append(_Frame(self.now, 1 + self.plan.video_conf.nskip))
                if len(self.waiting) > ROOM:
                    self._drop()
            place = (place + 1) % (1 + self.plan.video_conf.nskip)
        self._work_until(self.seconds)
        return self.ran

    def _clock(self) -> float:
        return self.now

    def _work_until(self, end: float) -> None:
        """Takes the results that are there until then, and frames whenever one fewer is under way."""
        while True:
            while self.waiting and len(self.under_way) < self.limit.limit:
                while len(self.waiting) > 1 and self.now - self.waiting[0].captured + self.took_s > self.hi:
                    self._drop()
                self._process(self.waiting.popleft())
            ended = min(self.under_way, key=lambda frame: frame.ended, default=None)
            if ended is None or ended.ended > end:
                break
            self.now = ended.ended
            self.under_way.remove(ended)
            self._note(ended)
        self.now = end

    def _drop(self) -> None:
        self.ran.missed += self.waiting.popleft().stands_for
        self.dropped += 1

    def _note(self, frame: _Frame) -> None:
        outcome, took_s = frame.outcome, frame.ended - frame.began
        assert outcome is not None
        self.metrics.processed(outcome, frame.ended - frame.captured, self.hi)
        self.limit.measured(sum(timing.queue_s for timing in outcome.timings.values()), took_s)
        self.took_s += SMOOTH * (took_s - self.took_s)
        self.ran.e2e.append((frame.captured, frame.ended - frame.captured))
        self.ran.stands_for.append(frame.stands_for)
        self.ran.qualities.append(self.costs.quality_of((outcome.plan.video_conf.to_json(), frame.places)))
        self.ran.used.append((frame.captured, frozenset(place["node"] for place in frame.places.values())))

    def _request_plan(self, policy: Callable[..., Any]) -> bool:
        result = self.metrics.result() if self.plan else None
        last = {"video_conf": self.answer[0], "flow_mapping": self.answer[1]} if self.plan else None
        self.state = {**self.state, "last_plan": last, "profile": self.rows, "now": self.now}
        self.ran.note_foretold(result)
        answer = self._ask(policy, self.state, result)
        self.ran.reasons.append((self.now, self.state.get("reason", "")))
        self.metrics.requested()
        if last and answer == self.answer:
            return True
        seq = self.plan.seq + 1 if self.plan else 1
        plan = Plan(seq, read_video_conf(answer[0]), read_flow_mapping(answer[1]))
        self.answer = answer
        ready_s = self._opened_ahead(plan)
        if self.plan is None:
            self.plan = plan
            self.metrics.begin(plan.seq)
        else:
            self.coming = (self.now + APPLY_S + ready_s, plan)
        return True

    def _ask(self, policy: Callable[..., Any], state: dict[str, Any], result: Any) -> tuple[Any, Any]:
        generator: GeneratorInfo = {"fps": self.fps, "width": 1280, "height": 720}
        return policy(
            job_uid="GLOBAL_ID_1.SUB_ID_1",
            dag=DAG,
            resource_info=resources(self.told, others=self._others()),
            last_plan_res=result,
            user_constraint={"delay": (-1.0, self.hi), "quality": self.wanted, "given": {}},
            generator_output=generator,
            state=state,
        )

    def _process(self, frame: _Frame) -> None:
        assert self.plan is not None
        plan, now, free, runner_s = self.plan, self.now, self.free, self.costs.runner_s
        conf = plan.video_conf
        begins = max(now, free["edge0"]) if runner_s else now
        free["edge0"] = max(free["edge0"], begins + runner_s)
        ready, waited, sent, timings = begins + FRAME_S + runner_s, 0.0, 0, {}
        noise = self.random.lognormvariate(0.0, self.noise)
        for stage in DAG["flow"][1:]:
            place = plan.flow_mapping[stage]
            name, began, way, size = place.node, ready, 0.0, 0
            if name == "cloud0":
                if not sent:
                    share = H264_SHARE[conf.resolution] * self.costs.h264_bytes
                    sent = size = round(JPEG_BYTES[conf.resolution] * (share if conf.encoder is Encoder.H264 else 1.0))
                    ready = free["link"] = self._sent(max(ready, free["link"]), size)
                way = LATENCY_S
            begins, waited = max(ready, free[name]), waited + way
            took = noise * self.costs.service_s(stage, name, place.model_id, conf.resolution)
            took *= 2.0 if now < self.opening_until[name] else 1.0
            took = self._on_edge(begins, took) if name == "edge0" else took
            free[name] = begins + took * self.starved.get(name, 1.0)
            delay, queue = free[name] - began + way, max(0.0, free[name] - took - ready)
            timings[stage] = Timing(name, delay, took, queue, delay - took - queue, size)
            ready = free[name]
        frame.began, frame.ended, frame.outcome = now, ready + waited, FrameOutcome(plan, (0, 0), {}, timings)
        frame.places = plan.to_json()["flow_mapping"]
        self.under_way.append(frame)

    def _others(self) -> float:
        """The share of the edge that the other program had since the last request: what the stages left."""
        own = self.computed_s / max(self.now - self.requested_at, LOOK_S)
        self.computed_s, self.requested_at = 0.0, self.now
        return max(0.0, 1.0 - own) if self.is_busy(self.now) else 0.0

    def _on_edge(self, begins: float, took_s: float) -> float:
        """Seconds that a stage takes there, whose computing takes so many if nothing else uses the edge."""
        took_s *= self.slowed(self.now)
        self.computed_s += took_s
        self.credit_s = min(CREDIT_S, self.credit_s + BUSY_SHARE * max(0.0, begins - self.free["edge0"]))
        if not self.is_busy(self.now):
            return took_s
        at_once_s = min(took_s, self.credit_s / (1 - BUSY_SHARE))
        self.credit_s -= at_once_s * (1 - BUSY_SHARE)
        return at_once_s + (took_s - at_once_s) / BUSY_SHARE

    def _opened_ahead(self, plan: Plan) -> float:
        """Opens the models of a plan beside the frames of the plan before; returns the seconds that it takes."""
        opening = dict.fromkeys(self.opening_until, 0.0)
        for stage, place in plan.flow_mapping.items():
            key = (place.node, stage, place.model_id)
            opening[place.node] += 0.0 if key in self.opened else 2 * self.opening_s
            self.opened.add(key)
        for name, seconds in opening.items() if self.plan else ():
            self.opening_until[name] = self.now + APPLY_S + seconds
        return max(opening.values())

    def _sent(self, at: float, size: float) -> float:
        """When the last byte is over the line, whose rate changes."""
        bits = size * 8
        while bits > 0:
            part = min(bits, self.mbps(at) * 1e6 * 0.01)
            at, bits = at + part / (self.mbps(at) * 1e6), bits - part
        return at
