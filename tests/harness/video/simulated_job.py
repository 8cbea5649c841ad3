"""A job whose stages, link and clock are simulated: what a policy's plans would have brought, frame by frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.video.model.plan import Encoder
from app.video.scheduling.contract import Answer, DagInfo, GeneratorInfo, Measured, NodeInfo, ResourceInfo
from app.video.scheduling.profile_model import H264_QUALITY, H264_SHARE, JPEG_BYTES, PIXELS, quality_kept

FPS = 24.0
HI = 0.3
"""The longest delay allowed, seconds."""
QUEUE = 4
LATENCY_S = 0.02
APPLY_S = 0.3
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
        return quality * coded * quality_kept(conf["nskip"], conf["ntracking"])


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
    facts = {
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
    }
    return {**facts, **changed}  # type: ignore[return-value, typeddict-item]


def resources(up_mbps: float | None = None, **of_cloud: Any) -> ResourceInfo:
    return {"ip-edge0": node("edge0", "host"), "ip-cloud0": node("cloud0", "cloud", up_mbps, **of_cloud)}


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
    """e2e: of processed frames, seconds, with the time each came; quality: of each processed frame's plan; foretold:
    median measured and delay predicted of the same plan, at each report; used: the nodes of each processed frame."""

    e2e: list[tuple[float, float]] = field(default_factory=list)
    dropped: int = 0
    qualities: list[float] = field(default_factory=list)
    changed_at: list[float] = field(default_factory=list)
    reasons: list[tuple[float, str]] = field(default_factory=list)
    foretold: list[tuple[float, float]] = field(default_factory=list)
    used: list[tuple[float, frozenset[str]]] = field(default_factory=list)

    def note_foretold(self, result: Mapping[str, Any] | None) -> None:
        if result and (predicted := re.search(r"predicted ([0-9.]+) s", self.reasons[-1][1])):
            self.foretold.append((result["e2e_p50"], float(predicted[1])))

    def violation_rate(self, hi: float) -> float:
        late = sum(took > hi for _, took in self.e2e)
        return (late + self.dropped) / (len(self.e2e) + self.dropped)

    @property
    def quality(self) -> float:
        return sum(self.qualities) / len(self.qualities)


class SimulatedJob:
    """One process at each node, one line between them, at most QUEUE frames under way. mbps, slowed: by seconds since
    the begin; slowed: factor of the edge's times; starved: node → how much longer than it says it keeps frames, as if
    its process got no core. is_told: the resource picture knows the bandwidth at the begin. opening_s: seconds that a
    node takes to open a model at its first frame. fps: of the source."""

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
    ) -> None:
        self.mbps, self.hi, self.seconds, self.wanted, self.slowed = mbps, hi, seconds, quality, slowed
        self.costs, self.opening_s, self.fps = costs, opening_s, fps
        self.rows = costs.rows() if rows is None else list(rows)
        self.told = mbps(0.0) if is_told else None
        self.starved = starved or {}

    def run(self, policy: Callable[..., Any]) -> Ran:
        ran, state, result, asked_at, now = Ran(), {}, None, -1.0, 0.0
        self.opened = set[tuple[str, str, int]]()
        free = {"edge0": 0.0, "cloud0": 0.0, "link": 0.0}
        plan: tuple[Any, Any] | None = None
        coming: tuple[float, tuple[Any, Any]] | None = None
        period, under_way, number, seq = _Period(), [], 0, 0
        while now < self.seconds:
            if plan is None or (now - asked_at >= 1.0 and period.frames >= 10) or now - asked_at >= 4.0:
                last = plan and {"video_conf": plan[0], "flow_mapping": plan[1]}
                state = {**state, "last_plan": last, "profile": self.rows, "now": now}
                result = period.result(self.hi, seq, now - asked_at) if plan else None
                ran.note_foretold(result)
                answer = self._ask(policy, state, result)
                ran.reasons.append((now, state.get("reason", "")))
                if plan is None:
                    plan = answer
                elif answer != plan:
                    coming = (now + APPLY_S, answer)
                asked_at, period = now, _Period()
            if coming and now >= coming[0]:
                plan, coming, period, seq = coming[1], None, _Period(), seq + 1
                asked_at = now
                ran.changed_at.append(now)
            under_way = [done for done in under_way if done > now]
            if number % (1 + plan[0]["nskip"]) == 0:
                if len(under_way) >= QUEUE:
                    ran.dropped += 1
                    period.dropped += 1
                else:
                    done = self._process(plan, now, free, period)
                    under_way.append(done)
                    ran.e2e.append((now, done - now))
                    ran.qualities.append(self.costs.quality_of(plan))
                    ran.used.append((now, frozenset(place["node"] for place in plan[1].values())))
            number += 1
            now += 1 / self.fps
        return ran

    def _ask(self, policy: Callable[..., Any], state: dict[str, Any], result: Any) -> tuple[Any, Any]:
        generator: GeneratorInfo = {"fps": self.fps, "width": 1280, "height": 720}
        return policy(
            job_uid="GLOBAL_ID_1.SUB_ID_1",
            dag=DAG,
            resource_info=resources(self.told),
            last_plan_res=result,
            user_constraint={"delay": (-1.0, self.hi), "quality": self.wanted, "given": {}},
            generator_output=generator,
            state=state,
        )

    def _process(self, plan: tuple[Any, Any], now: float, free: dict[str, float], period: _Period) -> float:
        conf, places = plan
        begins = max(now, free["edge0"]) if self.costs.runner_s else now
        free["edge0"] = max(free["edge0"], begins + self.costs.runner_s)
        ready, is_there, waited = begins + 0.004 + self.costs.runner_s, False, 0.0
        for stage in DAG["flow"][1:]:
            name, began, way = places[stage]["node"], ready, 0.0
            if name == "cloud0":
                if not is_there:
                    is_h264 = conf["encoder"] == Encoder.H264.value
                    share = H264_SHARE[conf["resolution"]] * self.costs.h264_bytes if is_h264 else 1.0
                    size, is_there = JPEG_BYTES[conf["resolution"]] * share, True
                    free["link"] = self._sent(max(ready, free["link"]), size)
                    ready, period.bytes_up = free["link"], period.bytes_up + size
                way = LATENCY_S
            begins, waited = max(ready, free[name]), waited + way
            took = self.costs.service_s(stage, name, places[stage]["model_id"], conf["resolution"])
            took *= self.slowed(now) if name == "edge0" else 1.0
            took += self._opened_in(name, stage, places[stage]["model_id"])
            free[name] = begins + took * self.starved.get(name, 1.0)
            period.note(stage, free[name] - began + way, took, free[name] - took - ready)
            ready = free[name]
        period.e2e.append(ready + waited - now)
        return ready + waited

    def _opened_in(self, *key: Any) -> float:
        seconds = 0.0 if key in self.opened else self.opening_s
        self.opened.add(key)
        return seconds

    def _sent(self, at: float, size: float) -> float:
        """When the last byte is over the line, whose rate changes."""
        bits = size * 8
        while bits > 0:
            part = min(bits, self.mbps(at) * 1e6 * 0.01)
            at, bits = at + part / (self.mbps(at) * 1e6), bits - part
        return at


@dataclass
class _Period:
    e2e: list[float] = field(default_factory=list)
    stages: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    dropped: int = 0
    bytes_up: float = 0.0

    @property
    def frames(self) -> int:
        return len(self.e2e)

    def note(self, stage: str, delay: float, server: float, queue: float) -> None:
        self.stages.setdefault(stage, []).append((delay, server, max(0.0, queue)))

    def result(self, hi: float, seq: int, seconds: float) -> dict[str, Any] | None:
        if not self.e2e:
            return None
        means = {
            stage: [sum(values) / len(values) for values in zip(*samples, strict=True)]
            for stage, samples in self.stages.items()
        }
        ordered = sorted(self.e2e)
        return {
            "delay": {stage: mean[0] for stage, mean in means.items()},
            "server": {stage: mean[1] for stage, mean in means.items()},
            "queue": {stage: mean[2] for stage, mean in means.items()},
            "e2e_p50": ordered[len(ordered) // 2],
            "e2e_p95": ordered[int(len(ordered) * 0.95)],
            "fps": len(self.e2e) / seconds,
            "frames": len(self.e2e),
            "dropped": self.dropped,
            "violations": sum(took > hi for took in self.e2e),
            "bytes_up": self.bytes_up / len(self.e2e),
            "plan_seq": seq,
        }
