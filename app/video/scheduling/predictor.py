"""Predicts delay, frame rate and load of a plan, from measured stages and bandwidths. Pure.

The profile policy uses it to choose, and the planner's page shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.video.model.plan import Encoder, VideoConf
from app.video.scheduling.contract import DagInfo, Measured, NodeInfo, ResourceInfo
from app.video.scheduling.cuts import mappings
from app.video.scheduling.placement import CLOUD, HOST, node_of, nodes_key
from app.video.scheduling.profile_model import ENCODE_S, H264_QUALITY, ProfileModel, compute_kept_quality

OWN_LATENCY_S = 0.001
"""Of a call of the job's own host."""
LATENCY_S = 0.01
"""Of a call of another node, there and back, without the time of its bytes."""
FRAME_S = 0.004
"""Reading, resizing and noting a frame."""
LEAST_S = 1e-6
"""Shorter times count as this one, so that rates stay finite."""
GUESSED_MBPS = 2.0
WAITS = 2.0
"""Factor on the delay that fair shares of a core would bring. Stages beside a program that computes without end had 0.4
of a core on real nodes, which is 1.5; too low a prediction costs late frames, too high a one hardly any quality."""
CROWDED = 1.4
"""A node where computing takes this many times as long because of others is not one to rely on."""
BOUNDLESS_FPS = 1e6


@dataclass(frozen=True)
class Prediction:
    """The prediction for a plan."""

    video_conf: VideoConf
    flow_mapping: Mapping[str, Mapping[str, object]]
    delay_s: float
    """Seconds from a frame's capture to its result, along the slowest path through the DAG."""
    by_stage: Mapping[str, float]
    """stage → seconds, including transport and waiting."""
    fps: float
    """Sustainable frames per second, at most those of the plan."""
    bytes_up: float
    """To other nodes, per processed frame."""
    link_s: float
    """Seconds for which a processed frame occupies the slowest of its links; 0 if none."""
    quality: float
    """0..1, relative to the reference configuration."""
    bottleneck: str
    """`node edge0` or `link to cloud0`."""
    is_measured: bool
    """False if a value had to be guessed."""


def predict(
    *,
    dag: DagInfo,
    video_conf: VideoConf,
    flow_mapping: Mapping[str, Mapping[str, object]],
    resource_info: ResourceInfo,
    profile: Sequence[Measured],
    corrections: Mapping[str, float] | None = None,
) -> Prediction:
    """Predicts the performance of a plan.

    Args:
        corrections: Measured through predicted, as seen lately: `stage@node` of computing, `bytes@JPEG` and
            `bytes@H264` of a frame's bytes, and of all plans that use the same nodes `wait@node+node` of the delay and
            `pace@node+node` of the frames a second. `latency@node` is in seconds, instead of LATENCY_S.

    Raises:
        KeyError: A stage is not mapped.
        ValueError: A stage is mapped to a missing node.
    """
    return Predictor(dag, resource_info, ProfileModel(profile), corrections).predict(video_conf, flow_mapping)


def predict_cuts(
    *, dag: DagInfo, video_conf: VideoConf, resource_info: ResourceInfo, profile: Sequence[Measured], model_id: int = 0
) -> list[Prediction]:
    """A prediction for each way to cut the DAG between the host and the cloud, fastest first. A stage runs in the cloud
    only if no later one runs at the host again.

    Args:
        profile: measurements of stages on nodes; missing ones are estimated.
        model_id: of every stage, 0 the smallest.
    """
    predictor = Predictor(dag, resource_info, ProfileModel(profile))
    predictions = [
        predictor.predict(video_conf, mapping) for mapping in mappings(dag, resource_info, model_id, {CLOUD})
    ]
    return sorted(predictions, key=lambda prediction: prediction.delay_s)


class Predictor:
    """Predicts many plans for one resource picture, see predict.

    Args:
        resource_info: nodes, and what they serve.
        knowledge: measured times of stages, models and sizes.
        corrections: factors by what they correct: `latency@node` is seconds, `pace@node`, `wait@node`, `bytes@encoder`
            and `stage@node` are factors; None: nothing is corrected.
    """

    def __init__(
        self,
        dag: DagInfo,
        resource_info: ResourceInfo,
        knowledge: ProfileModel,
        corrections: Mapping[str, float] | None = None,
    ) -> None:
        self._dag = dag
        self.resources = resource_info
        self.knowledge = knowledge
        self._corrections = corrections or {}
        self._order = [stage for stage in dag["flow"] if stage in dag["stages"]]
        self._own = next((info for info in resource_info.values() if info["role"] == HOST), None)
        self._slowed = {info["node"]: _estimate_slowdown(info) for info in resource_info.values()}
        self._calls: dict[tuple[str, str, int, str], tuple[float, float, bool]] = {}

    def predict(self, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> Prediction:
        size, size_is_measured = self._estimate_frame_bytes(conf)
        ended_at: dict[str, float] = {}
        by_stage: dict[str, float] = {}
        own = self._own
        busy = {} if own is None else {own["node"]: FRAME_S / max(1, own["cores"])}
        sent: dict[str, float] = {}
        limits: list[tuple[float, str]] = []
        quality, is_measured = 1.0, True
        for stage in self._order:
            info = node_of(mapping[stage], self.resources)
            node, model = info["node"], int(str(mapping[stage]["model_id"]))
            computing, waiting, time_is_measured = self._call(info, stage, model, conf.resolution)
            is_away = info["role"] != HOST
            way = self._corrections.get(f"latency@{node}", LATENCY_S) if is_away else OWN_LATENCY_S
            if is_away and node not in sent and self._dag["stages"][stage]["pictures"]:
                mbps = info["up_mbps"] or GUESSED_MBPS
                sent[node] = size * 8e-6 / mbps
                encoding = ENCODE_S[conf.encoder][conf.resolution]
                way += sent[node] + encoding
                limits.append((1 / max(sent[node], LEAST_S), f"link to {node}"))
                if own is not None:
                    busy[own["node"]] += encoding / max(1, own["cores"])
                is_measured = is_measured and size_is_measured and info["up_mbps"] is not None
            by_stage[stage] = way + waiting + computing
            before = self._dag["stages"][stage]["before"]
            ended_at[stage] = by_stage[stage] + max(
                (ended_at[name] for name in before if name in ended_at), default=0.0
            )
            busy[node] = busy.get(node, 0.0) + computing / _count_processes(info, stage)
            stage_quality, quality_is_measured = self.knowledge.quality(stage, model, conf.resolution)
            quality = min(quality, stage_quality)
            is_measured = is_measured and time_is_measured and quality_is_measured
        limits.extend((1 / max(seconds, LEAST_S), f"node {node}") for node, seconds in busy.items())
        capacity, bottleneck = min(limits, default=(conf.fps, ""))
        used = nodes_key(mapping)
        capacity *= self._corrections.get(f"pace@{used}", 1.0)
        if sent and conf.encoder is Encoder.H264:
            quality *= H264_QUALITY
        return Prediction(
            conf,
            mapping,
            (FRAME_S + max(ended_at.values(), default=0.0)) * self._corrections.get(f"wait@{used}", 1.0),
            by_stage,
            min(conf.fps, capacity * (1 + conf.nskip + conf.ntracking)),
            size * len(sent),
            max(sent.values(), default=0.0),
            quality * compute_kept_quality(conf.nskip, conf.ntracking),
            bottleneck,
            is_measured,
        )

    def capacity(self, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> float:
        """Frames a second that can be processed, whatever the plan's rate."""
        return self.predict(replace(conf, fps=BOUNDLESS_FPS, nskip=0, ntracking=0), mapping).fps

    def alone(self, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> dict[str, float]:
        """stage → seconds of computing alone, with corrections."""
        return {
            stage: self._call(node_of(place, self.resources), stage, int(str(place["model_id"])), conf.resolution)[0]
            for stage, place in mapping.items()
        }

    @property
    def is_host_crowded(self) -> bool:
        """Whether computing takes much longer at the host because others use it."""
        return self._own is not None and self._slowed[self._own["node"]] >= CROWDED

    def load(self, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> float:
        """Seconds of computing for a second of the video, by the profile."""
        return sum(self.base(conf, mapping).values()) * conf.processed_fps

    def base(self, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> dict[str, float]:
        """stage → seconds of computing alone, by the profile."""
        return {
            stage: self.knowledge.service_s(
                node_of(place, self.resources)["node"], stage, int(str(place["model_id"])), conf.resolution
            )[0]
            for stage, place in mapping.items()
        }

    def _estimate_frame_bytes(self, conf: VideoConf) -> tuple[float, bool]:
        size, is_measured = self.knowledge.frame_bytes(conf.resolution, conf.encoder)
        return size * self._corrections.get(f"bytes@{conf.encoder.value}", 1.0), is_measured

    def _call(self, info: NodeInfo, stage: str, model: int, resolution: str) -> tuple[float, float, bool]:
        """Seconds of computing, seconds of waiting for a free process, and whether the profile covers it."""
        key = (info["node"], stage, model, resolution)
        if key not in self._calls:
            seconds, is_measured = self.knowledge.service_s(*key)
            seconds *= self._slowed[info["node"]] * self._corrections.get(f"{stage}@{info['node']}", 1.0)
            service = info["service"].get(stage)
            queue = service.get("queue", 0) if service else 0
            self._calls[key] = seconds, queue * seconds / _count_processes(info, stage), is_measured
        return self._calls[key]


def _count_processes(info: NodeInfo, stage: str) -> int:
    service = info["service"].get(stage)
    return max(1, service["n_process"]) if service else 1


def others_of(info: NodeInfo) -> float:
    """The share of the node that is used by other programs than video jobs and their stages, 0..1."""
    stages = max((service["cpu_ratio"] for service in info["service"].values()), default=0.0)
    return max(0.0, info["cpu_ratio"] - max(stages, info.get("video_ratio", 0.0)))


def _estimate_slowdown(info: NodeInfo) -> float:
    """By how much computing takes longer because others use the node. A fair share would be the mean; frames that come
    one by one wait for the core each time."""
    processes = max((service["n_process"] for service in info["service"].values()), default=1)
    cores = max(1, info["cores"])
    others = others_of(info) * cores
    fair = max(1.0, (others + processes) / cores) if others > 0.1 * cores else 1.0
    return 1 + WAITS * (fair - 1)
